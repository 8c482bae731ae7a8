"""Gain against mean FLOPs: verified rounds, candidates, and classical decoders beside them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from autoqec.report.figures.style import COLOURS, GREY, MARKERS, finish, label_points, log_axis, new_figure
from autoqec.report.figures.table import FigureTable, Row, joined
from autoqec.report.run_view import RunView
from autoqec.runs.headline import classical_points

COLUMNS = {
    "run": "run",
    "name": "name",
    "round": "round",
    "kind": "kind",
    "gain": "gain in LER per shot",
    "low": "gain, low",
    "high": "gain, high",
    "flops": "mean FLOPs per syndrome",
    "params": "parameters",
    "shots": "shots",
}
FRONT, BEHIND, CANDIDATE, CLASSICAL = (
    "verified, on the front",
    "verified, dominated",
    "candidate, validation shots",
    "classical decoder",
)
_MOST_LABELS = 20


def table(views: Sequence[RunView]) -> FigureTable:
    rows: list[Row] = []
    for view in views:
        archive = view.record.archive
        on_front = {row.commit_sha for row in archive.front}
        for row in archive.rows:
            rows.append(
                {
                    "run": view.run_id,
                    "name": f"round {row.round}",
                    "round": row.round,
                    "kind": FRONT if row.commit_sha in on_front else BEHIND,
                    "gain": row.delta_vs_baseline_holdout,
                    "low": row.delta_ci[0],
                    "high": row.delta_ci[1],
                    "flops": row.flops_per_syndrome,
                    "params": row.n_params,
                    "shots": row.shots,
                }
            )
        known = {row.round for row in archive.rows}
        rows += [_candidate(view, one) for one in view.rounds if one.number not in known and _is_point(one)]
        for point in classical_points(view.record.front.reports.values()):
            classical = {"name": point.name, "kind": CLASSICAL, "gain": point.gain, "shots": point.shots}
            rows.append({"run": view.run_id, **classical})
    return FigureTable(
        "pareto",
        f"Gain against cost: {joined(view.heading for view in views)}",
        "LER of the plain backend less that of the predecoder, on the same shots, against the operations per syndrome. "
        "Verified rounds are filled, and their figures are of shots that selected nothing; candidates are hollow, and theirs are of "
        "validation shots. Classical decoders have no network and stand at the left edge.",
        COLUMNS,
        rows,
    )


def _is_point(one: Any) -> bool:
    return one.is_ok and one.delta is not None and one.costs is not None


def _candidate(view: RunView, one: Any) -> Row:
    low, high = one.interval or (None, None)
    return {
        "run": view.run_id,
        "name": f"round {one.number}",
        "round": one.number,
        "kind": CANDIDATE,
        "gain": one.delta,
        "low": low,
        "high": high,
        "flops": one.costs[0],
        "params": one.costs[1],
    }


def draw(data: FigureTable) -> Any:
    """One colour per run; the area of a marker grows with the decades of parameters. The steps are the best verified gain up to that
    many FLOPs."""
    figure = new_figure()
    axes = figure.subplots()
    runs = list(dict.fromkeys(row["run"] for row in data.rows))
    points: list[Any] = [row for row in data.rows if row["kind"] != CLASSICAL]
    classical: list[Any] = [row for row in data.rows if row["kind"] == CLASSICAL]
    log_axis(axes, "x", [max(row["flops"], 1) for row in points])
    in_legend = set()
    for row in points:
        n = runs.index(row["run"])
        label = row["kind"] if len(runs) == 1 else f"{row['run']}: {row['kind']}"
        bars: Any = (
            {} if row["low"] is None else {"yerr": [[row["gain"] - row["low"]], [row["high"] - row["gain"]]]}
        )
        axes.errorbar(
            max(row["flops"], 1), row["gain"], **bars, marker=MARKERS[n % 6], capsize=2, linewidth=1.0,
            markersize=3 + 1.2 * len(str(row["params"])), color=COLOURS[n % 7], linestyle="none",
            markerfacecolor="white" if row["kind"] == CANDIDATE else COLOURS[n % 7],
            alpha=0.55 if row["kind"] == BEHIND else 1.0, label=None if label in in_legend else label,
        )  # fmt: skip
        in_legend.add(label)
    right = axes.get_xlim()[1]
    for n, run in enumerate(runs):
        if steps := _staircase([row for row in points if row["run"] == run and row["kind"] == FRONT]):
            x, y = zip(*steps, (right, steps[-1][1]), strict=True)
            axes.step(x, y, where="post", color=COLOURS[n % 7], linewidth=1.0, alpha=0.5)
    edge = axes.get_xlim()[0] * (right / axes.get_xlim()[0]) ** 0.02
    for row in classical:
        axes.plot(
            [edge],
            [row["gain"]],
            "*",
            color=GREY,
            markersize=9,
            label=None if CLASSICAL in in_legend else CLASSICAL,
        )
        axes.axhline(row["gain"], color=GREY, linewidth=0.6, linestyle=":")
        in_legend.add(CLASSICAL)
    axes.axhline(0.0, color="black", linewidth=0.6)
    axes.set(xlabel="mean FLOPs per syndrome", ylabel="gain over the plain backend, LER per shot")
    axes.margins(y=0.12)
    finish(axes, data.title)
    named = [row for row in points if row["kind"] != CANDIDATE or len(points) <= _MOST_LABELS]
    label_points(
        axes,
        [
            *((row["name"], edge, row["gain"]) for row in classical),
            *((row["name"], max(row["flops"], 1), row["gain"]) for row in named),
        ],
        [(max(row["flops"], 1), y) for row in points for y in _along_its_bar(row)],
    )
    return figure


def _along_its_bar(row: Any) -> list[float]:
    """Places on a point's interval that no name should cover."""
    if row["low"] is None:
        return [row["gain"]]
    return [row["low"] + (row["high"] - row["low"]) * n / 12 for n in range(13)]


def _staircase(rows: Sequence[Any]) -> list[tuple[float, float]]:
    """The best gain that each number of FLOPs buys."""
    steps: list[tuple[float, float]] = []
    for row in sorted(rows, key=lambda row: (row["flops"], -row["gain"])):
        if not steps or row["gain"] > steps[-1][1]:
            steps.append((max(row["flops"], 1), row["gain"]))
    return steps
