"""Cascades: the share of the shots that reaches each stage, and what a shot costs, against p."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from autoqec.errors import AutoQECError
from autoqec.eval.cascade_schema import CascadeCost, StageRow
from autoqec.io.validate import validate_model
from autoqec.report.figures.style import COLOURS, GREY, MARKERS, finish, log_axis, new_figure
from autoqec.report.figures.table import FigureTable, Row, joined
from autoqec.report.reading import json_of
from autoqec.report.review.rounds import Reviewed
from autoqec.report.run_view import RunView
from autoqec.runner.cascade_schema import CascadeFigures

COLUMNS = {
    "run": "run",
    "name": "name",
    "round": "round",
    "p": "p",
    "stage": "stage",
    "shots": "shots",
    "share": "share of the shots that reaches it",
    "upper": "upper 95% bound of the share",
    "stage_flops": "FLOPs of the stage, for a shot that reaches it",
    "flops": "expected FLOPs of the cascade",
    "flops_upper": "expected FLOPs with the upper bounds",
    "worst": "FLOPs of a shot that reaches all stages",
    "source": "shots of",
}
_MOST_ROUNDS = 5


def table(views: Sequence[RunView]) -> FigureTable:
    return FigureTable(
        "stages",
        f"Stages of cascades: {joined(view.env_name for view in views)}",
        "The share of the shots that reaches each stage after the first, and the expected FLOPs of a shot, against p. Bars reach to the upper 95% bound, where the verifier "
        "counted. The dotted line is a shot that reaches all stages. At most five cascades of a run: the front's first, then verified ones, then the newest.",
        COLUMNS,
        [row for view in views for one, found in _chosen(view) for row in _rows(view, one, found)],
    )


def _chosen(view: RunView) -> list[tuple[Reviewed, CascadeCost | CascadeFigures]]:
    front = {row.round for row in view.record.archive.front}
    found = [(one, of) for one in view.rounds if (of := _cascade(view, one)) is not None]
    found.sort(key=lambda each: (each[0].number not in front, each[0].report is None, -each[0].number))
    return sorted(found[:_MOST_ROUNDS], key=lambda each: each[0].number)


def _cascade(view: RunView, one: Reviewed) -> CascadeCost | CascadeFigures | None:
    """By the verifier, else by the round itself; None of what is not a cascade."""
    if one.report is not None:
        return None if one.report.cost is None else one.report.cost.cascade
    if one.dsl is None or one.dsl.type != "cascade":
        return None
    told = (json_of(view.files.round(one.number).metrics, [], needed=False) or {}).get("cascade")
    try:
        return None if told is None else validate_model(told, CascadeFigures, where="metrics.json")
    except AutoQECError:
        return None


def _rows(view: RunView, one: Reviewed, found: CascadeCost | CascadeFigures) -> Iterator[Row]:
    for row in found.per_p:
        counted = row if isinstance(row, StageRow) else None
        bounds = [None] * len(row.shares) if counted is None else counted.shares_upper
        for stage, (share, upper, flops) in enumerate(
            zip(row.shares, bounds, found.stage_flops, strict=False), 1
        ):
            if min(row.p, row.flops_per_syndrome, found.worst_flops) <= 0 or share < 0:
                continue  # of damaged metrics: logarithmic axes have no such place
            yield {
                "run": view.run_id,
                "name": f"round {one.number}",
                "round": one.number,
                "p": row.p,
                "stage": stage,
                "shots": row.shots,
                "share": share,
                "upper": upper,
                "stage_flops": flops,
                "flops": row.flops_per_syndrome,
                "flops_upper": None if counted is None else counted.flops_upper,
                "worst": found.worst_flops,
                "source": "validation" if counted is None else "test",
            }


def draw(data: FigureTable) -> Any:
    """Shares above, costs below, over the same p."""
    several = len({row["run"] for row in data.rows}) > 1
    figure = new_figure(5.6, 6.4)
    shares, costs = figure.subplots(2, 1)
    rows: list[Any] = list(data.rows)
    for n, (run, name) in enumerate(dict.fromkeys((row["run"], row["name"]) for row in rows)):
        own = sorted(
            (row for row in rows if (row["run"], row["name"]) == (run, name)), key=lambda row: row["p"]
        )
        words, colour = f"{run}, {name}" if several else name, COLOURS[n % 7]
        for stage in sorted({row["stage"] for row in own} - {1}):
            _line(
                shares, [row for row in own if row["stage"] == stage], "share", "upper", colour,
                MARKERS[(stage - 2) % 6], f"{words}, stage {stage}",
            )  # fmt: skip
        first = [row for row in own if row["stage"] == 1]
        _line(costs, first, "flops", "flops_upper", colour, "o", words)
        costs.plot([row["p"] for row in first], [row["worst"] for row in first], ":", color=colour)
    costs.plot([], [], ":", color=GREY, label="a shot that reaches all stages")
    lowest = [row["share"] or 0.4 * (row["upper"] or 0) for row in rows if row["stage"] > 1]
    for axes, values in (
        (shares, lowest + [row["upper"] for row in rows if row["stage"] > 1]),
        (costs, [row[key] for row in rows for key in ("flops", "flops_upper", "worst")]),
    ):
        log_axis(axes, "x", [row["p"] for row in rows])
        log_axis(axes, "y", [value for value in values if value])
    shares.set(ylabel="share of the shots")
    costs.set(xlabel="physical error rate p", ylabel="FLOPs per syndrome")
    finish(shares, data.title)
    finish(costs, "")
    return figure


def _line(
    axes: Any, rows: Sequence[Any], value: str, upper: str, colour: str, marker: str, label: str
) -> None:
    """A share of 0 is an upper limit: an arrow."""
    seen = [row for row in rows if row[value] > 0]
    axes.plot(
        [row["p"] for row in seen], [row[value] for row in seen], marker + "-", color=colour, markersize=4.5,
        label=label,
    )  # fmt: skip
    for row in (row for row in seen if row[upper] is not None):
        axes.plot([row["p"]] * 2, [row[value], row[upper]], color=colour, linewidth=1.0)
    limits = [row for row in rows if row[value] == 0 and row[upper] is not None]
    axes.errorbar(
        [row["p"] for row in limits], [row[upper] for row in limits], uplims=True, linestyle="none",
        yerr=[row[upper] * 0.4 for row in limits], color=colour, marker="_", markersize=8,
    )  # fmt: skip
