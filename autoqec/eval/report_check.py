"""Is a VERIFIED report that somebody else wrote possible at all, and do fresh shots agree with it?

All figures of a report follow from a few counts. A forger is free to choose those, and nothing else: what they say is then held
against a verification on this machine. Two intervals of independent shots that do not overlap contradict each other. Their level
is chosen so that honest reports contradict fresh shots with probability `FALSE_ALARM` at most, for all comparisons of a package
together: if each interval misses the truth with probability a, two of them are apart with probability below 2 a.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

from pydantic import BaseModel
from scipy.special import ndtri

from autoqec.decoders.reference_p import plain_backend, reference_p
from autoqec.envs.environment import Environment
from autoqec.errors import InputError
from autoqec.eval import cascade_check
from autoqec.eval.bundles import CHUNK
from autoqec.eval.calibration import follows
from autoqec.eval.composition import THRESHOLD, read_composition
from autoqec.eval.guards import guards
from autoqec.eval.paired_row import paired_figures, paired_row
from autoqec.eval.schema import Against, PairedFigures, PairedRow, VerifyReport
from autoqec.eval.schema_row import Interval
from autoqec.eval.verdict import AS_OFTEN, ratio_remark
from autoqec.stats.intervals import paired_difference, wilson
from autoqec.stats.sequential import TOTAL_ALPHA, decide_evidence
from autoqec.stats.table import PairedTable
from autoqec.stats.target import check_target

FALSE_ALARM = 1e-3
"""Probability that the honest claims of one package contradict fresh shots somewhere."""


def contradictions(report: VerifyReport, env: Environment) -> list[str]:
    """Why a report that says VERIFIED cannot be one of this environment; empty if it can."""
    return list(_contradictions(report, env))


def _contradictions(report: VerifyReport, env: Environment) -> Iterator[str]:
    spec, level, at = env.spec, env.spec.eval_protocol.interval_level, reference_p(env)
    heads = [row for row in report.per_p if row.p == at]
    measured = [row.p for row in report.per_p]
    if report.env_hash != env.content_hash or report.env_name != spec.name:
        yield "is of another environment"
    if (
        report.reference_p != at
        or report.interval_level != level
        or report.baseline != plain_backend(env).name
    ):
        yield "has another reference p, interval level or baseline than the environment"
    if report.bundle_kind != "confirm" or report.paired_eval_bundle_id is None:
        yield "is not of a confirm bundle"
    if len(heads) != 1 or len({*measured}) != len(measured) or not {*measured} <= {*spec.noise.p}:
        yield "does not have its figures at the environment's error rates"
        return
    head = heads[0]
    try:
        tables = {row.p: PairedTable(row.shots, row.b, row.c, row.both) for row in report.per_p}
        made = [_made(row, report, level) for row in report.per_p]
    except (InputError, ZeroDivisionError):
        yield "has counts that are not counts of shots"
        return
    if any(not row.shots or row.shots % CHUNK for row in report.per_p):
        yield f"is not of whole chunks of {CHUNK} shots"
    for row, again in zip(report.per_p, made, strict=True):
        if not _alike(row, again):
            yield f"has figures at p = {row.p:g} that do not follow from its counts"
    yield from _headline(report, head)
    yield from _estimate(report, level, at)
    yield from _calibration(report, level, at, spec.noise.p)
    yield from _decision(report, tables[head.p])
    counts = {row.p: (row.both + row.c, row.shots) for row in report.per_p}
    wanted = spec.constraints
    target = check_target(counts, target_ler=wanted.target_ler, target_p=wanted.target_p, level=level)
    if report.target is None or not _alike(report.target, target):
        yield "has a target that does not follow from its counts"
    yield from _strongest(report, head)
    if report.cost is None or report.cost.flops_per_syndrome is None:
        yield "has no costs"
    elif not cascade_check.follows(report.cost, at, {row.p: row.shots for row in report.per_p}):
        yield "has costs that do not follow from its counts"
    if (claim := report.composition) is not None:
        read = read_composition(
            claim.child_delta, claim.parent_deltas, claim.parents, threshold=claim.threshold
        )
        if claim.child_delta != head.delta or read != claim or claim.threshold != THRESHOLD:
            yield "has a composition that does not follow from its deltas"


def _made(row: PairedRow, report: VerifyReport, level: float) -> PairedRow:
    table = PairedTable(row.shots, row.b, row.c, row.both)
    timed = {"us_model": row.us_model, "us_backend": row.us_backend}
    return paired_row(table, p=row.p, baseline=str(report.baseline), level=level, **timed)


def _headline(report: VerifyReport, head: PairedRow) -> Iterator[str]:
    claimed = (
        report.ler_holdout, *report.ler_holdout_ci, report.delta_ler_holdout, report.delta_vs_baseline_holdout, report.shots,
        report.ler_baseline_holdout, report.delta_ler_ci_low, report.delta_ler_ci_high, report.p_gain,
    )  # fmt: skip
    measured = (
        head.ler_candidate, *head.ler_candidate_ci, head.delta, head.delta, head.shots,
        head.ler_baseline, *head.delta_ci, head.p_gain,
    )  # fmt: skip
    if not all(_close(one, other) for one, other in zip(claimed, measured, strict=True)):
        yield "has a headline that is not its row at the reference p"
    ratio = report.headline.ratio
    follows_from_counts = ratio is not None and ratio_remark(head.baseline, ratio) in report.notes
    if AS_OFTEN in report.notes and not follows_from_counts:
        yield "has notes with another ratio than its counts"


def _estimate(report: VerifyReport, level: float, at: float) -> Iterator[str]:
    found = report.estimate
    if found is None:
        yield "has no estimate on shots that selected nothing"
        return
    if found.baseline != report.baseline:
        yield "has an estimate against another decoder than the plain backend"
    try:
        if not all(_follows(row, at, level) for row in (found, *_beside(report))):
            yield "has an estimate that does not follow from its counts"
    except (InputError, ZeroDivisionError):
        yield "has counts of the estimate that are not counts of shots"
        return
    if found.us_per_shot is not None:  # older estimates have no rows of other decoders
        ran = {
            row.name
            for row in report.baselines
            if row.p == at and row.ler is not None and not row.is_candidate
        }
        if [row.baseline for row in found.classical] != sorted(
            ran, key=[row.name for row in report.baselines].index
        ):
            yield "has an estimate with other classical decoders than its test"
        best = min((found, *found.classical), key=lambda row: row.ler_baseline)
        quoted = (
            found.strongest,
            found.delta_vs_strongest,
            found.delta_vs_strongest_ci,
            found.shots_of_strongest,
        )
        if not _close(quoted, (best.baseline, best.delta, best.delta_ci, best.shots)):
            yield "has an estimate whose strongest baseline is not the one of the lowest LER"
    if found.shots % CHUNK or found.interval_level != level or found.bundle == report.paired_eval_bundle_id:
        yield "has an estimate that is not of shots of its own"


def _calibration(report: VerifyReport, level: float, at: float, sweep: Sequence[float]) -> Iterator[str]:
    found, measured = report.estimate, [row.p for row in report.calibration]
    if len({*measured}) != len(measured) or not {*measured} <= {*sweep}:
        yield "does not have its calibration once at each of the environment's error rates"
    for row in report.calibration:
        of = (found.shots, found.both + found.c) if found is not None and row.p == at else None
        if row.source != ("test" if of is None else "estimate"):
            yield f"has a calibration at p = {row.p:g} of other shots than its estimate or its test"
        if not follows(row, level) or of not in (None, (row.shots, row.failures)):
            yield f"has a calibration at p = {row.p:g} that does not follow from its counts"


def _follows(row: PairedFigures, at: float, level: float) -> bool:
    """Whether every figure is what the counts give."""
    made = paired_figures(
        PairedTable(row.shots, row.b, row.c, row.both), p=at, baseline=row.baseline, level=level
    )
    return _close(row.model_dump(include=set(PairedFigures.model_fields)), made.model_dump())


def _decision(report: VerifyReport, table: PairedTable) -> Iterator[str]:
    alpha, planned, before = report.alpha, report.rounds_planned, report.confirmations_before
    if alpha is None or planned is None or before is None or not 0 < alpha <= TOTAL_ALPHA / max(planned, 1):
        yield "spends an alpha that no plan of confirmations gives"
        return
    evidence = decide_evidence(table, alpha_gain=alpha)
    if evidence.decision != "gain" or report.decision != "gain" or not before < planned:
        yield "is VERIFIED without a significant gain"
    elif not report.notes.startswith(evidence.reason):
        yield "has notes that do not follow from its counts"
    found = {guard.name: guard for guard in report.guards}
    if {guard.name for guard in guards()} - found.keys() or len(found) != len(report.guards):
        yield "does not have every guard once"
    if any(guard.ok is False and guard.severity != "informs" for guard in report.guards):
        yield "is VERIFIED with a guard that objects"


def _strongest(report: VerifyReport, head: PairedRow) -> Iterator[str]:
    """The strongest decoder is the one of the lowest LER at the reference p, and its row has the figures that are quoted."""
    rows: dict[str, tuple[float, float | None, Interval | None]] = {}
    for row in report.baselines:
        if row.p == head.p and row.ler is not None and not row.is_candidate:
            rows[row.name] = (row.ler, row.delta, row.delta_ci)
    rows[head.baseline] = (head.ler_baseline, head.delta, head.delta_ci)
    quoted = (report.delta_vs_strongest, report.delta_vs_strongest_ci)
    lowest = min(ler for ler, *_ in rows.values())
    best = rows.get(str(report.strongest_baseline))
    if best is None or best[0] != lowest or best[1:] != quoted:
        yield "has a strongest baseline that is not the one of the lowest LER"


def disagreements(
    claim: VerifyReport, fresh: VerifyReport, *, comparisons: int, parents: Sequence[VerifyReport] = ()
) -> list[str]:
    """In what a claim and fresh shots of the same checkpoint contradict each other. comparisons: of intervals, in all."""
    level = 1 - FALSE_ALARM / (2 * max(comparisons, 1))
    found = list(cascade_check.costs_apart(claim.cost, fresh.cost, level))
    if claim.checkpoint_sha256 != fresh.checkpoint_sha256 or claim.commit_sha != fresh.commit_sha:
        found.append("is about another checkpoint or commit")
    now_at = {row.p: row for row in fresh.per_p}
    for row in claim.per_p:
        if (now_row := now_at.get(row.p)) is not None:
            found += _apart(row, now_row, level)
    if claim.estimate is not None:
        head = fresh.estimate or now_at.get(claim.estimate.p)
        found += [] if head is None else _apart(claim.estimate, head, level)
        now_by = {row.baseline: row for row in _beside(fresh)}
        for beside in _beside(claim):
            found += [] if beside.baseline not in now_by else _apart(beside, now_by[beside.baseline], level)
    found += _baselines_apart(claim, fresh, level)
    if claim.composition is not None:
        for claimed, parent in zip(claim.composition.parent_deltas, parents, strict=False):
            head = next(row for row in parent.per_p if row.p == parent.reference_p)
            share = math.sqrt(head.shots / max(claim.shots or 1, 1))
            if _is_apart(claimed, _half(head, level) * share, head.delta, _half(head, level)):
                found.append(f"claims a parent's gain of {claimed:.3g}, and {head.delta:.3g} is measured")
    return found


def comparisons_of(report: VerifyReport) -> int:
    """Intervals that `disagreements` compares."""
    composed = len(report.composition.parent_deltas) if report.composition is not None else 0
    paired = 3 * (len(report.per_p) + 1 + len(_beside(report)))
    return paired + len(report.baselines) + composed + cascade_check.comparisons(report)


def _beside(report: VerifyReport) -> list[Against]:
    """The other decoders of the estimate."""
    if (found := report.estimate) is None:
        return []
    return [*found.classical, *([] if found.untrained is None else [found.untrained])]


def _apart(claim: PairedFigures, now: PairedFigures, level: float) -> Iterator[str]:
    for what, value, mine, fresh, theirs in (
        ("gain", claim.delta, _paired(claim, level), now.delta, _paired(now, level)),
        ("LER", claim.ler_candidate, _rate(claim, level), now.ler_candidate, _rate(now, level)),
        ("baseline LER", claim.ler_baseline, _plain(claim, level), now.ler_baseline, _plain(now, level)),
    ):
        if mine[0] > theirs[1] or theirs[0] > mine[1]:
            yield f"claims a {what} of {value:.3g} at p = {claim.p:g}, and {fresh:.3g} is measured"


def _paired(row: PairedFigures, level: float) -> Interval:
    return paired_difference(row.b, row.c, row.shots, level)


def _rate(row: PairedFigures, level: float) -> Interval:
    return wilson(row.both + row.c, row.shots, level)


def _plain(row: PairedFigures, level: float) -> Interval:
    return wilson(row.both + row.b, row.shots, level)


def _half(row: PairedFigures, level: float) -> float:
    low, high = _paired(row, level)
    return (high - low) / 2


def _baselines_apart(claim: VerifyReport, fresh: VerifyReport, level: float) -> Iterator[str]:
    """Other decoders have no counts in a report: the fresh interval, scaled by the shots, stands for both."""
    now = {(row.p, row.name): row for row in fresh.baselines if row.delta is not None and row.shots}
    widen = float(ndtri(0.5 + level / 2)) / float(ndtri(0.5 + (fresh.interval_level or 0.95) / 2))
    for row in claim.baselines:
        other = now.get((row.p, row.name))
        if row.delta is None or other is None or other.delta is None or other.delta_ci is None:
            continue
        half = widen * (other.delta_ci[1] - other.delta_ci[0]) / 2
        if _is_apart(row.delta, half * math.sqrt(other.shots / max(row.shots, 1)), other.delta, half):
            yield f"claims a gain of {row.delta:.3g} over {row.name}, and {other.delta:.3g} is measured"


def _is_apart(one: float, half: float, other: float, other_half: float) -> bool:
    return abs(one - other) > half + other_half


def _alike(one: BaseModel, other: BaseModel) -> bool:
    return _close(one.model_dump(mode="json"), other.model_dump(mode="json"))


def _close(one: Any, other: Any) -> bool:
    """Equal but for the last digits, which may differ between machines."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_close(one[key], other[key]) for key in one)
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return len(one) == len(other) and all(map(_close, one, other))
    if isinstance(one, float) or isinstance(other, float):
        return one is not None and other is not None and math.isclose(one, other, rel_tol=1e-6, abs_tol=1e-10)
    return bool(one == other)
