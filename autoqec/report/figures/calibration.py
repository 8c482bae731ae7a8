"""Is a predecoder right as often as it says? Failures against the log-odds that it gives its predictions, and LER after discarding."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from autoqec.envs.packing import unpack
from autoqec.eval.calibration import calibration_of
from autoqec.eval.calibration_schema import Calibration
from autoqec.eval.tally import Confidences
from autoqec.finds.predecoder import Predecoder
from autoqec.layout import RoundDir
from autoqec.report.figures.style import COLOURS, MARKERS, finish, log_axis, new_figure
from autoqec.report.figures.table import FigureTable, Row, joined
from autoqec.report.review.rounds import Reviewed
from autoqec.report.run_view import RunView, view_run
from autoqec.stats.intervals import wilson

COLUMNS = {
    "run": "run",
    "name": "name",
    "round": "round",
    "part": "part",
    "log_odds_from": "log-odds, from",
    "log_odds_to": "log-odds, to",
    "expected": "failures expected by the log-odds",
    "mapped": "failures expected after the map",
    "claimed": "failure probability that it claims",
    "discarded": "share of shots discarded",
    "failures": "failures",
    "shots": "shots",
    "ler": "LER per shot",
    "low": "LER, low",
    "high": "LER, high",
    "is_limit": "upper limit",
    "factor": "times lower than that of all shots",
    "source": "shots of",
}
CLAIMS, KEPT = "by what it claims", "after discarding"
_MOST_ROUNDS = 5
_LEVEL = 0.95
_LEAST = 1e-9
"""Of a claimed probability: less is drawn as this."""
_SEED = 0xCA1
"""Of shots that neither training, validation nor verification uses: those have seeds of 64 bits from their labels."""


def table(views: Sequence[RunView]) -> FigureTable:
    """Of the verified rounds of runs, by their reports."""
    rows = [row for view in views for one in _chosen(view) for row in _of_report(view, one)]
    return _table(joined(view.heading for view in views), rows)


def table_of_rounds(folders: Sequence[Path], finds: Sequence[Predecoder], shots: int) -> FigureTable:
    """Of rounds by their reports and of predecoders on fresh shots."""
    rows: list[Row] = []
    headings = []
    for folder in folders:
        view = view_run(folder.parent)
        headings.append(view.heading)
        rows += [row for one in view.rounds if one.number == _number(folder) for row in _of_report(view, one)]
    for find in finds:
        headings.append(f"{find.env.spec.name}, p = {find.p:g}")
        rows += _rows({"name": find.name}, _measured(find, shots), _LEVEL)
    return _table(joined(headings), rows)


def is_reported(folder: Path) -> bool:
    """Whether a round's folder is one of a run, with a report of this machine's verifier that says how far it can be trusted."""
    number = _number(folder)
    if number is None or not RoundDir(folder).report.is_file():
        return False
    one = view_run(folder.parent).round(number)
    return one is not None and one.report is not None and bool(one.report.calibration)


def _number(folder: Path) -> int | None:
    text = folder.resolve().name.removeprefix("round_")
    return int(text) if text.isdecimal() and len(text) < 10 else None


def _table(of: str, rows: Sequence[Row]) -> FigureTable:
    return FigureTable(
        "calibration",
        f"Confidence: {of}",
        "By what it claims: how often shots fail that a decoder says would fail with this probability. After discarding: the LER of the shots that "
        f"are left when the least sure ones are discarded. Rounds of a run: up to {_MOST_ROUNDS} of the verified front, at the reference p, on the "
        "shots of the estimate. A point without a failure is an upper limit.",
        COLUMNS,
        rows,
    )


def _chosen(view: RunView) -> list[Reviewed]:
    front = {row.round for row in view.record.archive.front[:_MOST_ROUNDS]}
    return [one for one, _ in view.verified if one.number in front]


def _of_report(view: RunView, one: Reviewed) -> Iterator[Row]:
    report = one.report
    found = [] if report is None else [row for row in report.calibration if row.p == report.reference_p]
    for row in found:
        about = {"run": view.run_id, "name": f"round {one.number}", "round": one.number}
        yield from _rows(about, row, (report and report.interval_level) or _LEVEL)


def _measured(find: Predecoder, shots: int) -> Calibration:
    drawn = find.env.sample(find.p, shots, seed=_SEED, bit_packed=True)
    predicted, log_odds = find.decode_with_confidence(drawn.detectors, bit_packed_shots=True)
    failed = (predicted != unpack(drawn.observables, predicted.shape[1])).any(axis=1)
    return calibration_of(find.p, "fresh", Confidences(log_odds, failed), None, _LEVEL)


def _rows(about: Row, found: Calibration, level: float) -> Iterator[Row]:
    common = {**about, "source": found.source}
    for each in found.bins:
        yield {
            **common,
            "part": CLAIMS,
            "log_odds_from": each.low,
            "log_odds_to": each.high,
            "expected": each.expected,
            "mapped": each.mapped,
            "claimed": max(each.expected / each.shots, _LEAST),
            **_rate(each.failures, each.shots, level),
        }
    yield {
        **common,
        "part": KEPT,
        "discarded": 0.0,
        **_rate(found.failures, found.shots, level),
        "factor": 1.0,
    }
    for kept in found.kept:
        rate = _rate(kept.failures, kept.shots, level)
        yield {**common, "part": KEPT, "discarded": kept.share, **rate, "factor": kept.factor}


def _rate(failures: int, shots: int, level: float) -> dict[str, Any]:
    low, high = wilson(failures, shots, level)
    ler = failures / shots
    return {
        "failures": failures,
        "shots": shots,
        "ler": ler,
        "low": low,
        "high": high,
        "is_limit": not failures,
    }


def draw(data: FigureTable) -> Any:
    figure = new_figure(9.6, 4.2)
    left, right = figure.subplots(1, 2)
    several = len({row.get("run") for row in data.rows}) > 1
    names = list(dict.fromkeys((row.get("run"), row["name"]) for row in data.rows))
    for axes, part, key in ((left, CLAIMS, "claimed"), (right, KEPT, "discarded")):
        rows: list[Any] = [row for row in data.rows if row["part"] == part]
        for n, (run, name) in enumerate(names):
            own = [row for row in rows if (row.get("run"), row["name"]) == (run, name)]
            seen, limits = ([row for row in own if row["is_limit"] is limit] for limit in (False, True))
            label = f"{run}, {name}" if several and run else name
            bars = [row["ler"] - row["low"] for row in seen], [row["high"] - row["ler"] for row in seen]
            axes.errorbar(
                [row[key] for row in seen], [row["ler"] for row in seen], yerr=bars, marker=MARKERS[n % 6], markersize=4,
                capsize=2, linewidth=1.0, color=COLOURS[n % 7], label=label,
            )  # fmt: skip
            axes.errorbar(
                [row[key] for row in limits], [row["high"] for row in limits], uplims=True, linestyle="none",
                yerr=[row["high"] * 0.4 for row in limits], color=COLOURS[n % 7], marker="_", markersize=8,
            )  # fmt: skip
        log_axis(
            axes, "y", [row["high"] / 2 if row["is_limit"] else row["ler"] for row in rows]
        )  # room for arrows
        axes.set_ylabel("LER per shot")
    claims: list[Any] = [row["claimed"] for row in data.rows if row["part"] == CLAIMS]
    log_axis(left, "x", claims)
    ends = [min(claims, default=0.1), max(claims, default=1.0)]
    left.plot(ends, ends, color="black", linewidth=0.8, linestyle=":", label="as claimed")
    left.set_xlabel("failure probability that it claims")
    right.set_xlabel("share of shots discarded, least sure first")
    finish(left, data.title)
    finish(right, "LER after discarding")
    return figure
