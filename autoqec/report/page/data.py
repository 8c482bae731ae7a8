"""All that the report page shows of a run, as one JSON value. Texts of the run are data: the page never reads them as markup."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from autoqec import __version__
from autoqec.eval.latency import one_shot
from autoqec.eval.schema import GuardResult, VerifyReport
from autoqec.report.card import model_card, reproduction
from autoqec.report.figures.kinds import KINDS
from autoqec.report.figures.loss import thinned
from autoqec.report.page.fork_graph import fork_graph
from autoqec.report.reading import quote, real
from autoqec.report.review.rounds import Reviewed
from autoqec.report.run_view import RunView, changes, config_of, parents_of
from autoqec.runs.front import verification_of
from autoqec.runs.headline import sentence

Data = dict[str, Any]
SHOWN = ("pareto", "forest", "ler", "calibration", "stages", "hypervolume", "latency")
"""Figures of the whole run, in their order on the page; the loss stands with each round."""
MAX_CARDS = 40
"""Model cards that the page holds: of the front first."""
_SEVERITY = {"breaks": "would fail the verdict", "doubts": "raises doubts", "informs": "for information"}
_GUARD = {True: "passed", False: "not passed", None: "does not apply"}


def page_data(view: RunView) -> Data:
    tables = {kind: KINDS[kind].table([view]) for kind in SHOWN}
    on_front = [row.round for row in view.record.archive.front]
    carded = set(
        sorted((n.number for n, _ in view.verified), key=lambda n: (n not in on_front, -n))[:MAX_CARDS]
    )
    return {
        "version": __version__,
        "run_id": view.run_id,
        "env": view.env_name,
        "heading": view.heading,
        "p": view.p,
        "state": view.state,
        "created_at": None if view.info is None else quote(view.info.created_at, 40),
        "plan": _plan(view),
        "code": _code(view),
        "headline": headline(view),
        "figures": {kind: table.to_dict() for kind, table in tables.items() if table.rows},
        "graph": fork_graph(view),
        "rounds": [_round(view, one, has_card=one.number in carded) for one in view.rounds],
        "front": on_front,
        "gaps": [quote(gap) for gap in view.gaps],
    }


def _plan(view: RunView) -> Data | None:
    if (plan := view.plan) is None:
        return None
    return {
        "rounds": plan.rounds,
        "proposer": quote(plan.proposer, 40),
        "profile": plan.profile,
        "budget_minutes": plan.budget_minutes,
        "budget_usd": None if plan.budget_usd is None else float(plan.budget_usd),
        "spent_usd": view.record.spent_usd,
        "spent_minutes": round(sum(one.seconds for one in view.rounds) / 60, 1),
    }


def _code(view: RunView) -> str | None:
    if view.env is None:
        return None
    spec = view.env.spec
    sweep = ", ".join(f"{p:g}" for p in spec.noise.p)
    return quote(
        f"code {spec.code.source}, noise {spec.noise.type}, p = {sweep}, backend {spec.classical_backend}"
    )


def headline(view: RunView) -> Data | None:
    """The best verified round, chosen by its test and quoted by its estimate; None before there is one."""
    best, report = view.best, view.best_report
    if best is None or report is None:
        return None
    told: Mapping[str, Any] = verification_of(report, None) or {}
    start = None if report.estimate is None else report.estimate.untrained
    return {
        "round": best.round,
        "sentence": quote(sentence(told), 600),
        "source": report.headline.source,
        "shots": report.headline.shots,
        "tiles": [
            _tile("over the plain backend", told.get("ratio"), told.get("ratio_ci"), told.get("baseline")),
            _tile(
                "over the best classical decoder", told.get("ratio_vs_strongest"), told.get("ratio_vs_strongest_ci"),
                told.get("strongest_baseline"),
            ),
            _tile("what the weights add", told.get("ratio_vs_untrained"), told.get("ratio_vs_untrained_ci"), "the untrained model")
            if start is not None
            else None,
            {"label": "mean FLOPs per syndrome", "value": best.flops_per_syndrome, "note": f"{best.n_params} parameters"},
            {"label": "us per shot", "value": told.get("us_per_shot"), "note": "with its backend, in batches"},
        ],
    }  # fmt: skip


def _tile(label: str, value: object, interval: object, against: object) -> Data:
    bounds = list(interval) if isinstance(interval, list | tuple) else None
    return {
        "label": label,
        "ratio": value,
        "interval": bounds,
        "note": f"LER of {quote(against, 60)} over its own",
    }


def _round(view: RunView, one: Reviewed, *, has_card: bool) -> Data:
    row, report = one.row, one.report
    head = None if report is None else report.headline
    low, high = (head.delta_ci if head is not None else one.interval) or (None, None)
    return {
        "round": one.number,
        "status": one.status,
        "verdict": (one.verdict or one.status) if one.is_ok else one.status.replace("_", " "),
        "on_front": any(member.round == one.number for member in view.record.archive.front),
        "hypothesis": quote(row.get("hypothesis") or "", 1200),
        "reason": None if one.is_ok else quote(row.get("status_reason") or "", 600),
        "not_backed": one.not_backed,
        "family": one.family,
        "branch": None if row.get("branch") is None else quote(row["branch"], 200),
        "commit": None if row.get("commit_sha") is None else quote(row["commit_sha"], 64),
        "parents": [quote(name, 200) for name in parents_of(one)],
        "gain": one.delta if head is None else head.delta,
        "low": low,
        "high": high,
        "ratio": None if head is None else head.ratio,
        "source": "validation" if head is None else head.source,
        "flops": None if one.costs is None else one.costs[0],
        "params": None if one.costs is None else one.costs[1],
        "seconds": round(one.seconds, 1),
        "usd": one.usd,
        "changes": [list(change) for change in changes(view, one)],
        "config": list(map(list, config_of(one).items())),
        "loss": [[step, float(f"{loss:.5g}")] for step, loss in thinned(view.loss(one.number))],
        "per_p": _per_p(one),
        "times": None if report is None else _times(report),
        "guards": [] if report is None else [_guard(guard) for guard in report.guards],
        "notes": None if report is None else quote(report.notes, 1000),
        "analysis": quote((row.get("analysis") or {}).get("summary_1line") or "", 400) or None,
        "commands": list(reproduction(view, one)),
        "card": model_card(view, one, report) if report is not None and has_card else None,
    }


def _per_p(one: Reviewed) -> list[list[Any]]:
    """p, shots, decoder, its LER, the round's LER, difference, low, high, and which shots these are."""
    if one.report is not None:
        return [
            [
                row.p,
                row.shots,
                row.baseline,
                row.ler_baseline,
                row.ler_candidate,
                row.delta,
                *row.delta_ci,
                "test",
            ]
            for row in one.report.per_p
        ]
    found = [row for row in one.row.get("per_p") or [] if isinstance(row, dict)]
    keys = ("ler_plain", "ler_predecoder", "delta", "delta_low", "delta_high")
    return [
        [
            real(row.get("p")),
            real(row.get("shots")),
            quote(row.get("plain"), 60),
            *(real(row.get(key)) for key in keys),
            "validation",
        ]
        for row in found
    ]


def _times(report: VerifyReport) -> Data:
    cost, found = report.cost, report.estimate
    times: Data = {"us per shot, with its backend": None if found is None else found.us_per_shot}
    if cost is None:
        return times
    alone = one_shot(cost)
    part = "model" if cost.cascade is None else "first stage"
    slowest = {} if alone.p999 is None else {f"one shot at a time, {alone.of}, 99.9% us": alone.p999}
    return times | {
        f"one shot at a time, {alone.of}, median us": alone.p50,
        f"one shot at a time, {alone.of}, 99% us": alone.p99,
        **slowest,
        f"{part} alone in batches, us per shot": cost.bulk_us_per_shot,
    }


def _guard(guard: GuardResult) -> list[Any]:
    name = quote(guard.name, 60).replace("_", " ")
    return [name, _GUARD[guard.ok], _SEVERITY[guard.severity], quote(guard.text, 400)]
