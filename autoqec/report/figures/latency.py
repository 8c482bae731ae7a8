"""Time per shot of rounds and classical decoders."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from autoqec.eval.latency import one_shot
from autoqec.eval.schema import VerifyReport
from autoqec.report.figures.style import COLOURS, GREY, finish, log_axis, new_figure
from autoqec.report.figures.table import FigureTable, Row, joined
from autoqec.report.run_view import RunView

COLUMNS = {
    "run": "run",
    "name": "name",
    "round": "round",
    "kind": "kind",
    "us": "us per shot",
    "p50": "one shot at a time, median us",
    "p99": "one shot at a time, 99% us",
    "p999": "one shot at a time, 99.9% us",
    "of": "one shot at a time is of the",
    "source": "measured in",
}
ROUND, CLASSICAL = "predecoder and backend", "classical decoder"
_MOST = 40


def table(views: Sequence[RunView]) -> FigureTable:
    return FigureTable(
        "latency",
        f"Time per shot: {joined(view.heading for view in views)}",
        "Microseconds per shot at the reference p, as measured on the machine of the run, in batches. Bars reach to the median of one "
        "shot at a time, where the verifier measured that: of the model alone, or of the whole decoder where it is a cascade. The 99% point, and that of 99.9% of a cascade, are in the table.",
        COLUMNS,
        [row for view in views for row in _rows(view)],
    )


def _rows(view: RunView) -> Iterator[Row]:
    classical: dict[str, float] = {}
    for one in view.rounds:
        named = {"run": view.run_id, "name": f"round {one.number}", "round": one.number, "kind": ROUND}
        if one.report is not None and (time := _time(one.report)) is not None:
            cost = one.report.cost
            slow = {} if cost is None else one_shot(cost)._asdict()
            yield {**named, "us": time, **slow, "source": "verification"}
            if one.report.estimate is not None:
                for row in one.report.estimate.classical:
                    if row.us_per_shot is not None:
                        classical.setdefault(row.baseline, row.us_per_shot)
            continue
        for row in one.row.get("baselines") or []:
            own, other = row.get("us_per_shot_predecoder"), row.get("us_per_shot_plain")
            if isinstance(other, int | float):
                classical.setdefault(str(row.get("plain")), float(other))
            if isinstance(own, int | float) and row is one.row["baselines"][0]:
                yield {**named, "us": float(own), "source": "validation"}
    for name, time in classical.items():
        yield {"run": view.run_id, "name": name, "kind": CLASSICAL, "us": time, "source": "the same shots"}


def _time(report: VerifyReport) -> float | None:
    if report.estimate is not None and report.estimate.us_per_shot is not None:
        return report.estimate.us_per_shot
    row = next((row for row in report.per_p if row.p == report.reference_p), None)
    return None if row is None else row.us_model + row.us_backend


def draw(data: FigureTable) -> Any:
    """At most 40 rounds, the last ones, above the classical decoders."""
    several = len({row["run"] for row in data.rows}) > 1
    rounds: list[Any] = [row for row in data.rows if row["kind"] == ROUND][-_MOST:]
    shown: list[Any] = rounds + [row for row in data.rows if row["kind"] == CLASSICAL]
    figure = new_figure(6.0, 1.5 + 0.27 * max(len(shown), 3))
    axes = figure.subplots()
    in_legend = set()
    for y, row in enumerate(shown):
        is_round = row["kind"] == ROUND
        colour = COLOURS[0] if is_round else GREY
        label = None if row["kind"] in in_legend else row["kind"]
        in_legend.add(row["kind"])
        axes.plot(
            [row["us"]],
            [y],
            "o" if is_round else "*",
            color=colour,
            markersize=6 if is_round else 9,
            label=label,
        )
        if row.get("p50") is not None:
            axes.plot([row["us"], row["p50"]], [y, y], color=colour, linewidth=1.0, alpha=0.6)
            axes.plot(
                [row["p50"]],
                [y],
                "|",
                color=colour,
                markersize=8,
                label=None if "one" in in_legend else "one shot at a time",
            )
            in_legend.add("one")
    names = [f"{row['run']}, {row['name']}" if several else row["name"] for row in shown]
    axes.set_yticks(range(len(shown)), names, fontsize=7.5)
    axes.set_ylim(len(shown) - 0.4, -0.6)
    times = [row[key] for row in shown for key in ("us", "p50") if row.get(key)]
    log_axis(axes, "x", times)
    axes.set_xlabel("microseconds per shot")
    finish(axes, data.title)
    return figure
