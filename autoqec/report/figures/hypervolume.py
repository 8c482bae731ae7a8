"""The hypervolume of the fronts, round by round."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from autoqec.report.figures.style import COLOURS, finish, new_figure
from autoqec.report.figures.table import FigureTable, joined
from autoqec.report.review.progress import curve
from autoqec.report.run_view import RunView

COLUMNS = {
    "run": "run",
    "round": "round",
    "verified": "hypervolume of the verified front",
    "validated": "hypervolume on validation shots",
}


def table(views: Sequence[RunView]) -> FigureTable:
    rows = [
        {"run": view.run_id, "round": step.round, "verified": step.verified, "validated": step.validated}
        for view in views
        for step in curve(view.record)
    ]
    return FigureTable(
        "hypervolume",
        f"Hypervolume by round: {joined(view.heading for view in views)}",
        "The volume that a front covers, in LER x decades of FLOPs x decades of parameters, after each round: it grows when a round finds "
        "a better trade.",
        COLUMNS,
        rows,
    )


def draw(data: FigureTable) -> Any:
    from matplotlib.ticker import MaxNLocator

    figure = new_figure()
    axes = figure.subplots()
    for n, run in enumerate(dict.fromkeys(row["run"] for row in data.rows)):
        rows: list[Any] = [row for row in data.rows if row["run"] == run]
        rounds = [0, *(row["round"] for row in rows)]
        for key, style, words in (("verified", "-", "verified"), ("validated", "--", "on validation shots")):
            axes.step(
                rounds, [0.0, *(row[key] for row in rows)], where="post", color=COLOURS[n % 7], linestyle=style,
                label=f"{run}: {words}",
            )  # fmt: skip
    axes.set(xlabel="round", ylabel="hypervolume, LER x decades$^2$", ylim=(0, None), xlim=(0, None))
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    finish(axes, data.title)
    return figure
