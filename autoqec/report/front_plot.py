"""The front as a figure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from autoqec.errors import UnavailableError
from autoqec.eval.pareto import ParetoRow, front
from autoqec.io import figures
from autoqec.runs.headline import ClassicalPoint


def plot_fronts(
    fronts: Mapping[str, Sequence[ParetoRow]], path: Path, classical: Sequence[ClassicalPoint] = ()
) -> None:
    """Delta with its interval over FLOPs, one colour per run; markers grow with the decades of parameters.

    fronts: members, and rounds within the noise of them, which get a hollow marker. The steps are the best
    delta up to that many FLOPs. classical: decoders without a network, which stand at the left edge. The format follows the file's ending.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise UnavailableError(
            "plots need matplotlib", where="--plot", hint="pip install 'autoqec[plot]'"
        ) from error
    figure = Figure(figsize=(5.6, 4.2), layout="constrained")
    axes = figure.subplots()
    for i, (name, rows) in enumerate(fronts.items()):
        colour = f"C{i % 10}"
        best = {row.commit_sha for row in front(rows)}
        for row in rows:
            delta, (low, high) = row.delta_vs_baseline_holdout, row.delta_ci
            axes.errorbar(
                max(row.flops_per_syndrome, 1),
                delta,
                yerr=[[delta - low], [high - delta]],
                marker="o",
                markersize=3 + 1.5 * len(str(row.n_params)),
                markerfacecolor=colour if row.commit_sha in best else "white",
                color=colour,
                capsize=2,
                linewidth=1.0,
            )
        if rows:
            flops, best_delta = zip(*_staircase(rows), strict=True)
            axes.step(flops, best_delta, where="post", color=colour, linewidth=1.0, alpha=0.6, label=name)
    for point in classical:
        axes.axhline(point.gain, color="0.4", linewidth=0.8, linestyle=":")
        axes.plot([0.0], [point.gain], "D", color="0.4", markersize=4, transform=axes.get_yaxis_transform())
        axes.annotate(
            point.name, (0.02, point.gain), xycoords=axes.get_yaxis_transform(), fontsize=7, va="bottom"
        )
    axes.set(xscale="log", xlabel="FLOPs per syndrome", ylabel="gain over the baseline, LER per shot")
    axes.grid(visible=True, which="both", alpha=0.25)
    if axes.has_data():
        axes.legend(fontsize=8)
    figures.save(figure, path)


def _staircase(rows: Sequence[ParetoRow]) -> list[tuple[float, float]]:
    """The best delta that each number of FLOPs buys."""
    steps: list[tuple[float, float]] = []
    for row in sorted(rows, key=lambda row: (row.flops_per_syndrome, -row.delta_vs_baseline_holdout)):
        if not steps or row.delta_vs_baseline_holdout > steps[-1][1]:
            steps.append((max(row.flops_per_syndrome, 1), row.delta_vs_baseline_holdout))
    return steps
