"""How far a predecoder's confidence can be trusted: log-odds that the trusted side computed from its answers, against failures.

It informs. No verdict depends on it, and no shot is chosen by it.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence

import numpy as np

from autoqec.eval.calibration_schema import Calibration, KeptRow, ReliabilityRow, Source
from autoqec.eval.tally import Confidences, Tally
from autoqec.eval.verification_state import VerificationState
from autoqec.stats.confidence import (
    EDGES,
    ConfidenceMap,
    Kept,
    after_discarding,
    failure_chance,
    fit_map,
    lowered,
    reliability,
)
from autoqec.stats.intervals import wilson

_MOST_SHOTS = 1 << 53
WILD = 2.0
"""Expected and observed failures that differ by this factor, beyond the interval, are worth a note."""


def calibrations(verification: VerificationState, estimate: Tally | None) -> list[Calibration]:
    """For every p that has log-odds: at the reference p on the shots of the estimate where there are such, else on those of the test.

    The map is fitted on the test's shots at the reference p, and used on all others.
    """
    name, at = verification.model(), verification.reference_p
    level = verification.env.spec.eval_protocol.interval_level
    tested = verification.tally.confidences(at, name)
    fitted = None if tested is None else fit_map(*tested)
    rows = []
    for p in verification.env.spec.noise.p:
        is_fresh = p == at and estimate is not None
        tally = estimate if is_fresh and estimate is not None else verification.tally
        found = tally.confidences(p, name)
        if found is not None:
            other = fitted if is_fresh or p != at else None
            is_estimate = is_fresh or verification.bundle.kind == "estimate"
            rows.append(calibration_of(p, "estimate" if is_estimate else "test", found, other, level))
    return rows


def calibration_of(
    p: float,
    source: Source,
    found: Confidences,
    fitted: ConfidenceMap | None,
    level: float,
) -> Calibration:
    """fitted: on other shots than these."""
    log_odds, failed = found
    bins = reliability(log_odds, failed, fitted)
    shots, failures = len(failed), int(failed.sum())
    return Calibration(
        p=p,
        source=source,
        shots=shots,
        failures=failures,
        failures_ci=_count(failures, shots, level),
        expected=sum(each.expected for each in bins),
        mapped=None if fitted is None else sum(each.mapped or 0.0 for each in bins),
        scale=None if fitted is None else fitted.scale,
        offset=None if fitted is None else fitted.offset,
        bins=[
            ReliabilityRow(
                low=_finite(each.low),
                high=_finite(each.high),
                shots=each.shots,
                failures=each.failures,
                failures_ci=_count(each.failures, each.shots, level),
                expected=each.expected,
                mapped=each.mapped,
            )
            for each in bins
        ],
        kept=[_kept(each, failures, shots, level) for each in after_discarding(log_odds, failed)],
    )


def _kept(kept: Kept, failures: int, shots: int, level: float) -> KeptRow:
    factor, (low, high) = lowered(failures, shots, kept, level)
    return KeptRow(
        share=kept.share,
        below=_finite(kept.below),
        shots=kept.shots,
        failures=kept.failures,
        ler=kept.failures / kept.shots,
        ler_ci=wilson(kept.failures, kept.shots, level),
        factor=factor,
        factor_ci=(_finite(low), _finite(high)),
    )


def _count(failures: int, shots: int, level: float) -> tuple[float, float]:
    low, high = wilson(failures, shots, level)
    return low * shots, high * shots


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def remarks(rows: Sequence[Calibration], at: float) -> Iterator[str]:
    """About a confidence at the reference p that is far from the failures."""
    for row in rows:
        low, high = row.failures_ci
        if row.p != at or low <= row.expected <= high or not row.failures:
            continue
        ratio = row.expected / row.failures
        if not 1 / WILD <= ratio <= WILD:
            manner = "too sure of itself" if ratio < 1 else "less sure than it could be"
            yield (
                f"its confidence is {manner}: {row.failures} failures where it expects {row.expected:.3g}, which no verdict depends on"
            )


def follows(row: Calibration, level: float) -> bool:
    """Whether every figure is what the counts give."""
    if not 1 <= row.shots <= _MOST_SHOTS or not 0 <= row.failures <= row.shots:
        return False
    parts = [(each.shots, each.failures, each.failures_ci) for each in row.bins]
    counts = [(row.shots, row.failures, row.failures_ci), *parts]
    return (
        sum(shots for shots, _, _ in parts) == row.shots
        and sum(failures for _, failures, _ in parts) == row.failures
        and math.isclose(sum(each.expected for each in row.bins), row.expected, rel_tol=1e-6)
        and _mapped_follows(row)
        and _are_bins(row.bins)
        and all(
            0 <= failures <= shots <= row.shots and _are_close(claimed, _count(failures, shots, level))
            for shots, failures, claimed in counts
        )
        and all(
            0 < each.share < 1
            and 0 <= each.failures <= min(each.shots, row.failures)
            and 0 < each.shots == row.shots - round(each.share * row.shots)
            and row.failures - each.failures <= row.shots - each.shots
            and _is_so(each, _kept(_counts(each), row.failures, row.shots, level))
            for each in row.kept
        )
    )


def _mapped_follows(row: Calibration) -> bool:
    parts = [each.mapped for each in row.bins]
    known = [part for part in parts if part is not None]
    if row.mapped is None:
        return not known and row.scale is None and row.offset is None
    is_whole = len(known) == len(parts) and row.scale is not None and row.offset is not None
    return is_whole and math.isclose(sum(known), row.mapped, rel_tol=1e-6, abs_tol=1e-10)


def _are_bins(rows: Sequence[ReliabilityRow]) -> bool:
    """Whether they are bins of `reliability`, in order, each with a sum of chances that its log-odds can have."""
    ends = [(_finite(low), _finite(high)) for low, high in itertools.pairwise(EDGES)]
    places = [ends.index((row.low, row.high)) if (row.low, row.high) in ends else -1 for row in rows]
    if -1 in places or places != sorted({*places}):
        return False
    for row, place in zip(rows, places, strict=True):
        most, least = row.shots * failure_chance(np.array(EDGES[place : place + 2]))
        slack = 1e-6 * most
        if not least - slack <= row.expected <= most + slack:
            return False
    return True


def _counts(row: KeptRow) -> Kept:
    return Kept(row.share, math.inf if row.below is None else row.below, row.shots, row.failures)


def _is_so(claimed: KeptRow, made: KeptRow) -> bool:
    figures = [(row.ler, *row.ler_ci, row.factor, *row.factor_ci) for row in (claimed, made)]
    return _are_close(*figures)


def _are_close(one: Sequence[float | None], other: Sequence[float | None]) -> bool:
    return all(
        a == b or (a is not None and b is not None and math.isclose(a, b, rel_tol=1e-6, abs_tol=1e-10))
        for a, b in zip(one, other, strict=True)
    )
