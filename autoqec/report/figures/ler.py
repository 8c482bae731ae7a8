"""Logical against physical error rate, per decoder; Lambda where runs differ in their distance alone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

from autoqec.envs.distances import family_of
from autoqec.eval.schema import VerifyReport
from autoqec.report.figures.style import COLOURS, MARKERS, finish, log_axis, new_figure
from autoqec.report.figures.table import FigureTable, Row, joined
from autoqec.report.review.rounds import Reviewed
from autoqec.report.run_view import RunView
from autoqec.stats.intervals import wilson
from autoqec.stats.rates import suppression

COLUMNS = {
    "run": "run",
    "distance": "distance",
    "family": "family of codes",
    "decoder": "decoder",
    "p": "physical error rate p",
    "shots": "shots",
    "ler": "LER per shot",
    "low": "LER, low",
    "high": "LER, high",
    "is_limit": "upper limit",
    "source": "shots of",
}
LAMBDA_COLUMNS = {
    "decoder": "decoder",
    "p": "physical error rate p",
    "from_distance": "from distance",
    "to_distance": "to distance",
    "lambda": "Lambda per step of 2",
    "low": "Lambda, low",
    "high": "Lambda, high",
}
_MOST_ROUNDS = 5
_LEVEL = 0.95


def table(views: Sequence[RunView]) -> FigureTable:
    return FigureTable(
        "ler",
        f"LER against p: {joined(view.env_name for view in views)}",
        f"Failures per shot with their intervals. Rounds: up to {_MOST_ROUNDS} of the verified front, on the shots of their tests; of a run "
        "without one, the round that gained most on validation shots. A point without a failure is an upper limit.",
        COLUMNS,
        [row for view in views for row in _rows(view)],
    )


def _rows(view: RunView) -> Iterator[Row]:
    env = view.env
    about = {
        "run": view.run_id,
        "distance": view.distance,
        "family": None if env is None else family_of(env)[:8],
    }
    members = [one for one, _ in view.verified if one.number in _chosen(view)]
    found: dict[tuple[str, float], Row] = {}
    for one in members:
        report = one.report
        assert report is not None  # for type checkers: `verified` has reports
        for row in (*_of_report(one, report), *_of_baselines(report)):
            _keep(found, row)
    if not members and (best := _most_gaining(view)) is not None:
        for row in _of_validation(best):
            _keep(found, row)
    yield from ({**about, **row} for _, row in sorted(found.items()))


def _keep(found: dict[tuple[str, float], Row], row: Row) -> None:
    """Of one decoder at one p, what more shots say."""
    key = str(row["decoder"]), float(row["p"] or 0)
    if key not in found or int(row["shots"] or 0) > int(found[key]["shots"] or 0):
        found[key] = row


def _chosen(view: RunView) -> set[int]:
    return {row.round for row in view.record.archive.front[:_MOST_ROUNDS]}


def _most_gaining(view: RunView) -> Reviewed | None:
    able = [one for one in view.rounds if one.is_ok and one.delta is not None and one.row.get("per_p")]
    return max(able, key=lambda one: one.delta or 0.0, default=None)


def _point(decoder: str, p: float, shots: int, ler: float, interval: tuple[float, float], source: str) -> Row:
    low, high = interval
    facts = {"decoder": decoder, "p": p, "shots": shots, "ler": ler, "low": low, "high": high}
    return {**facts, "is_limit": ler == 0, "source": source}


def _of_report(one: Reviewed, report: VerifyReport) -> Iterator[Row]:
    for row in report.per_p:
        yield _point(row.baseline, row.p, row.shots, row.ler_baseline, row.ler_baseline_ci, "test")
        yield _point(f"round {one.number}", row.p, row.shots, row.ler_candidate, row.ler_candidate_ci, "test")


def _of_baselines(report: VerifyReport) -> Iterator[Row]:
    for row in report.baselines:
        if not row.is_candidate and row.ler is not None and row.ler_ci is not None:
            yield _point(row.name, row.p, row.shots, row.ler, row.ler_ci, "test")


def _of_validation(one: Reviewed) -> Iterator[Row]:
    level = one.row.get("interval_level") or _LEVEL
    for row in (*(one.row.get("per_p") or ()), *(one.row.get("baselines") or ())):
        try:
            shots, both = int(row["shots"]), int(row["both_failed"])
            plain, own = int(row["only_plain_failed"]) + both, int(row["only_predecoder_failed"]) + both
            name, p = str(row["plain"]), float(row["p"])
        except (KeyError, TypeError, ValueError):
            continue  # of a round whose row somebody wrote
        if shots > 0 and min(plain, own) >= 0 and max(plain, own) <= shots:
            yield _point(name, p, shots, plain / shots, wilson(plain, shots, level), "validation")
            rate, interval = own / shots, wilson(own, shots, level)
            yield _point(f"round {one.number}", p, shots, rate, interval, "validation")


def lambdas(data: FigureTable) -> FigureTable:
    """From each distance to the next larger one, of decoders that both runs have; rounds of different runs are different decoders."""
    at: dict[tuple[Any, Any, Any], dict[int, Any]] = {}
    for row in data.rows:
        if row["distance"] is not None and not str(row["decoder"]).startswith("round "):
            at.setdefault((row["family"], row["decoder"], row["p"]), {})[int(row["distance"])] = row
    rows: list[Row] = []
    for (_, decoder, p), by_distance in sorted(at.items(), key=lambda item: tuple(map(str, item[0]))):
        for small, large in pairwise(sorted(by_distance)):
            one, other = by_distance[small], by_distance[large]
            value, (low, high) = suppression(
                one["ler"],
                (one["low"], one["high"]),
                other["ler"],
                (other["low"], other["high"]),
                (large - small) / 2,
            )
            between = {"from_distance": small, "to_distance": large}
            figures = {"lambda": value, "low": low, "high": None if high == float("inf") else high}
            rows.append({"decoder": decoder, "p": p, **between, **figures})
    return FigureTable(
        "lambda",
        data.title.replace("LER against p", "Lambda against p"),
        "LER per shot of a distance over that of the next, per step of 2: above 1 more distance helps. Shots of a larger distance may "
        "have more readout rounds.",
        LAMBDA_COLUMNS,
        rows,
    )


def draw(data: FigureTable) -> Any:
    """Log-log, with intervals as bands; an upper limit is an arrow. Lambda stands beside it where runs differ in their distance."""
    ratios: list[Any] = [
        row for row in lambdas(data).rows if row["lambda"] is not None and row["high"] is not None
    ]
    figure = new_figure(9.8 if ratios else 5.8, 4.2)
    axes, *beside = figure.subplots(1, 2 if ratios else 1, squeeze=False)[0]
    names = list(dict.fromkeys(row["decoder"] for row in data.rows))
    runs = list(dict.fromkeys(row["run"] for row in data.rows))
    for run in runs:
        for name in names:
            rows: list[Any] = sorted(
                (row for row in data.rows if (row["run"], row["decoder"]) == (run, name)),
                key=lambda row: row["p"],
            )
            if not rows:
                continue
            n, style = names.index(name), ("-", "--", ":", "-.")[runs.index(run) % 4]
            d = rows[0]["distance"]
            label = name if len(runs) == 1 else f"{name}, {run}" if d is None else f"{name}, {run} (d = {d})"
            seen = [row for row in rows if not row["is_limit"]]
            look = {"color": COLOURS[n % 7], "linestyle": style, "marker": MARKERS[n % 6], "markersize": 4}
            axes.plot(
                [row["p"] for row in seen], [row["ler"] for row in seen], linewidth=1.2, label=label, **look
            )
            axes.fill_between(
                [row["p"] for row in seen], [max(row["low"], 1e-300) for row in seen], [row["high"] for row in seen],
                color=COLOURS[n % 7], alpha=0.15, linewidth=0,
            )  # fmt: skip
            limits = [row for row in rows if row["is_limit"]]
            axes.errorbar(
                [row["p"] for row in limits], [row["high"] for row in limits], uplims=True, linestyle="none",
                yerr=[row["high"] * 0.4 for row in limits], color=COLOURS[n % 7], marker="_", markersize=8,
            )  # fmt: skip
    points: list[Any] = list(data.rows)
    log_axis(axes, "x", [row["p"] for row in points])
    log_axis(axes, "y", [row["high"] if row["is_limit"] else row["ler"] for row in points])
    axes.set(xlabel="physical error rate p", ylabel="logical error rate per shot")
    finish(axes, data.title)
    for place in beside:
        _draw_lambdas(place, ratios, names)
    return figure


def _draw_lambdas(axes: Any, ratios: Sequence[Any], names: Sequence[Any]) -> None:
    steps = sorted({(row["from_distance"], row["to_distance"]) for row in ratios})
    for n, step in enumerate(steps):
        for name in names:
            rows = [
                row
                for row in ratios
                if (row["from_distance"], row["to_distance"]) == step and row["decoder"] == name
            ]
            if rows:
                axes.errorbar(
                    [row["p"] for row in rows], [row["lambda"] for row in rows],
                    yerr=([row["lambda"] - row["low"] for row in rows], [row["high"] - row["lambda"] for row in rows]),
                    marker=MARKERS[names.index(name) % 6], markersize=4, capsize=2, linewidth=1.2,
                    color=COLOURS[names.index(name) % 7], linestyle=("-", "--", ":")[n % 3],
                    label=f"{name}, d = {step[0]} to {step[1]}",
                )  # fmt: skip
    log_axis(axes, "x", [row["p"] for row in ratios])
    log_axis(axes, "y", [row["lambda"] for row in ratios])
    axes.axhline(1.0, color="black", linewidth=0.8)
    axes.set(xlabel="physical error rate p", ylabel="Lambda per step of 2, of LER per shot")
    finish(axes, "Lambda against p")
