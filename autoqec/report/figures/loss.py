"""The training loss of rounds, step by step."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean
from typing import Any

from autoqec.report.diagnose.loss_curve import LossCurve
from autoqec.report.figures.style import COLOURS, finish, label_points, log_axis, new_figure
from autoqec.report.figures.table import FigureTable, Row, joined
from autoqec.report.run_view import RunView

COLUMNS = {"run": "run", "name": "name", "round": "round", "step": "step", "loss": "training loss"}
MOST_POINTS = 120


def table(views: Sequence[RunView], only: int | None = None) -> FigureTable:
    """only: the number of one round."""
    rows: list[Row] = []
    for view in views:
        numbers = [n for n in view.files.rounds() if only in (None, n)]
        for number in numbers:
            named = {"run": view.run_id, "name": f"round {number}", "round": number}
            rows += [{**named, "step": step, "loss": loss} for step, loss in thinned(view.loss(number))]
    return FigureTable(
        "loss",
        f"Training loss: {joined(view.heading for view in views)}",
        f"The loss of each training against its steps. Of a longer training, {MOST_POINTS} means over neighbouring steps.",
        COLUMNS,
        rows,
    )


def thinned(curve: LossCurve, most: int = MOST_POINTS) -> list[tuple[int, float]]:
    """Means over windows of steps, each at its last step."""
    pairs = [(s, v) for s, v in zip(curve.steps, curve.losses, strict=True) if abs(v) < 1e300]
    width = -(-len(pairs) // most) or 1
    windows = [pairs[i : i + width] for i in range(0, len(pairs), width)]
    return [(window[-1][0], fmean(value for _, value in window)) for window in windows]


def draw(data: FigureTable) -> Any:
    """A logarithmic axis where all losses are positive; each curve has its name at its end."""
    figure = new_figure()
    axes = figure.subplots()
    curves: dict[tuple[Any, Any], list[Any]] = {}
    for row in data.rows:
        curves.setdefault((row["run"], row["name"]), []).append(row)
    several = len({run for run, _ in curves}) > 1
    ends = []
    for n, ((run, name), rows) in enumerate(curves.items()):
        label = f"{run}, {name}" if several else name
        steps, losses = [row["step"] for row in rows], [row["loss"] for row in rows]
        axes.plot(
            steps, losses, color=COLOURS[n % 7], linewidth=1.2, linestyle=("-", "--", ":", "-.")[n // 7 % 4],
            label=label if len(curves) <= 12 else None, marker="o" if len(rows) == 1 else None,
        )  # fmt: skip
        ends.append((label, steps[-1], losses[-1]))
    values: list[Any] = [row["loss"] for row in data.rows]
    if values and min(values) > 0:
        log_axis(axes, "y", values)
    axes.set(xlabel="step", ylabel="training loss")
    axes.margins(x=0.12)
    finish(axes, data.title, legend=len(curves) <= 12)
    if len(curves) > 12:
        label_points(axes, ends)
    return figure
