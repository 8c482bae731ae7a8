"""Validation against holdout: does the gain that a round was chosen for hold on shots that nobody chose by?

The two deltas come from different shots, so that their difference has the interval of independent estimates. Each standard
error is read off its 95% interval, which for the holdout may be a wider, anytime-valid one: the test errs on the quiet side.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from autoqec.report.review.rounds import Interval, Reviewed


@dataclass(frozen=True)
class Shrinkage:
    """gap: validation minus holdout. overfits: the interval of the gap lies above 0. kept: holdout over validation."""

    round: int
    verdict: str
    val: float
    val_ci: Interval
    holdout: float
    holdout_ci: Interval
    gap: float
    gap_ci: Interval
    kept: float | None
    overfits: bool
    same_p: bool


@dataclass(frozen=True)
class Overfitting:
    """kept: the sum of holdout gains over the sum of validation gains. shrank: rounds whose holdout gain is the smaller one;
    half of them would be by chance."""

    rounds: tuple[Shrinkage, ...]
    overfitted: tuple[int, ...]
    shrank: int
    kept: float | None


def overfitting(rounds: Sequence[Reviewed]) -> Overfitting:
    found = [each for one in rounds if (each := _shrinkage(one)) is not None]
    comparable = [each for each in found if each.same_p]
    total = sum(each.val for each in comparable)
    return Overfitting(
        rounds=tuple(found),
        overfitted=tuple(each.round for each in comparable if each.overfits),
        shrank=sum(each.gap > 0 for each in comparable),
        kept=sum(each.holdout for each in comparable) / total if total > 0 else None,
    )


def _shrinkage(one: Reviewed) -> Shrinkage | None:
    report = one.report
    if report is None or one.delta is None or one.interval is None:
        return None
    low, high = report.delta_ler_ci_low, report.delta_ler_ci_high
    if low is None or high is None:
        return None
    given = report.delta_vs_baseline_holdout
    holdout = report.delta_ler_holdout if given is None else given
    gap = one.delta - holdout
    half = math.hypot(one.interval[1] - one.interval[0], high - low) / 2
    here, there = one.row.get("reference_p"), report.reference_p
    same_p = here is None or there is None or here == there
    return Shrinkage(
        round=one.number,
        verdict=report.verdict,
        val=one.delta,
        val_ci=one.interval,
        holdout=holdout,
        holdout_ci=(low, high),
        gap=gap,
        gap_ci=(gap - half, gap + half),
        kept=holdout / one.delta if one.delta > 0 else None,
        overfits=same_p and gap - half > 0,
        same_p=same_p,
    )
