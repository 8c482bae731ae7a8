"""Paired differences with their intervals, one line per round and decoder that it is compared with."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from autoqec.eval.schema import Estimate, VerifyReport
from autoqec.report.figures.style import COLOURS, finish, new_figure
from autoqec.report.figures.table import FigureTable, Row, joined
from autoqec.report.review.rounds import Reviewed
from autoqec.report.run_view import RunView

COLUMNS = {
    "run": "run",
    "name": "name",
    "round": "round",
    "verdict": "verdict",
    "against": "compared with",
    "role": "which is",
    "difference": "difference in LER",
    "low": "difference, low",
    "high": "difference, high",
    "shots": "shots",
    "source": "shots of",
}
PLAIN, BEST, OTHER, UNTRAINED = (
    "the plain backend",
    "the best classical decoder",
    "another classical decoder",
    "the untrained model",
)
_MOST = 40


def table(views: Sequence[RunView]) -> FigureTable:
    rows = [row for view in views for one in view.rounds for row in _rows(view, one)]
    return FigureTable(
        "forest",
        f"Paired differences: {joined(view.heading for view in views)}",
        "LER of the other decoder less that of the predecoder, on the same shots: right of zero the predecoder is better. "
        "Of the estimate where a round has one, else of its test or of validation.",
        COLUMNS,
        rows,
    )


def _rows(view: RunView, one: Reviewed) -> Iterator[Row]:
    facts = {
        "run": view.run_id,
        "name": f"round {one.number}",
        "round": one.number,
        "verdict": one.verdict or one.status,
    }
    if (report := one.report) is not None:
        yield from ({**facts, **row} for row in _of_report(report))
    elif one.delta is not None and one.interval is not None:
        low, high = one.interval
        differs = {"difference": one.delta, "low": low, "high": high}
        yield {**facts, "against": _plain_name(one), "role": PLAIN, **differs, "source": "validation"}


def _plain_name(one: Reviewed) -> str:
    rows = one.row.get("per_p") or [{}]
    return str(rows[0].get("plain") or "plain backend")


def _of_report(report: VerifyReport) -> Iterator[Row]:
    head = report.headline
    low, high = head.delta_ci or (None, None)
    yield {
        "against": report.baseline or "plain backend",
        "role": PLAIN,
        "difference": head.delta,
        "low": low,
        "high": high,
        "shots": head.shots,
        "source": head.source,
    }
    if report.estimate is not None:
        yield from _of_estimate(report.estimate)


def _of_estimate(found: Estimate) -> Iterator[Row]:
    others = [(row, BEST if row.baseline == found.strongest else OTHER) for row in found.classical]
    others += [] if found.untrained is None else [(found.untrained, UNTRAINED)]
    for row, role in others:
        yield {
            "against": row.baseline,
            "role": role,
            "difference": row.delta,
            "low": row.delta_ci[0],
            "high": row.delta_ci[1],
            "shots": row.shots,
            "source": "estimate",
        }


def draw(data: FigureTable) -> Any:
    """The plain backend, the best classical decoder and the untrained model of every round; at most the last 40 rounds."""
    rounds = list(dict.fromkeys((row["run"], row["round"]) for row in data.rows))[-_MOST:]
    roles = (PLAIN, BEST, UNTRAINED)
    shown: list[Any] = [
        row for row in data.rows if (row["run"], row["round"]) in rounds and row["role"] in roles
    ]
    figure = new_figure(6.4, 1.6 + 0.42 * max(len(rounds), 2))
    axes = figure.subplots()
    in_legend = set()
    for row in shown:
        n = roles.index(row["role"])
        y = rounds.index((row["run"], row["round"])) + (n - 1) * 0.22
        bars: Any = (
            {}
            if row["low"] is None
            else {"xerr": [[row["difference"] - row["low"]], [row["high"] - row["difference"]]]}
        )
        axes.errorbar(
            row["difference"], y, **bars, marker="osD"[n], markersize=5, capsize=2, color=COLOURS[n], linewidth=1.2,
            markerfacecolor="white" if row["source"] == "validation" else COLOURS[n], linestyle="none",
            label=None if row["role"] in in_legend else f"against {row['role']}",
        )  # fmt: skip
        in_legend.add(row["role"])
    verdicts = {(row["run"], row["round"]): row["verdict"] for row in shown}
    several = len({run for run, _ in rounds}) > 1
    names = [
        f"{f'{run}, ' if several else ''}round {number}\n{verdicts.get((run, number), '')}"
        for run, number in rounds
    ]
    axes.set_yticks(range(len(rounds)), names, fontsize=7)
    axes.set_ylim(len(rounds) - 0.4, -0.6)
    axes.axvline(0.0, color="black", linewidth=0.8)
    axes.set_xlabel("LER of the other decoder less that of the predecoder")
    finish(axes, data.title)
    return figure
