"""What the run spent: seconds of its rounds and dollars of its calls, and on what."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from autoqec.report.review.rounds import Reviewed, RunRecord


@dataclass(frozen=True)
class Budget:
    """seconds: training, validation and verification. usd: None where no call was recorded. Shares are of these totals, None of
    an empty total. failed: rounds that did not end ok. repeated: rounds that repeat an earlier config."""

    seconds: float
    usd: float | None
    seconds_per_round: float | None
    usd_per_round: float | None
    failed_rounds: tuple[int, ...]
    failed_seconds_share: float | None
    failed_usd_share: float | None
    repeated_seconds_share: float | None
    seconds_per_verified: float | None
    usd_per_verified: float | None


def budget(run: RunRecord, repeated: Sequence[int]) -> Budget:
    seconds = sum(one.seconds for one in run.rounds)
    failed = [one for one in run.rounds if not one.is_ok]
    again = [one for one in run.rounds if one.number in repeated]
    rounds, verified = len(run.rounds), len(run.archive.rows)
    return Budget(
        seconds=seconds,
        usd=run.spent_usd,
        seconds_per_round=seconds / rounds if rounds else None,
        usd_per_round=None if run.spent_usd is None or not rounds else run.spent_usd / rounds,
        failed_rounds=tuple(one.number for one in failed),
        failed_seconds_share=_share(sum(one.seconds for one in failed), seconds),
        failed_usd_share=_share(_usd(failed), run.spent_usd),
        repeated_seconds_share=_share(sum(one.seconds for one in again), seconds),
        seconds_per_verified=seconds / verified if verified else None,
        usd_per_verified=None if run.spent_usd is None or not verified else run.spent_usd / verified,
    )


def _usd(rounds: Sequence[Reviewed]) -> float:
    return sum(one.usd or 0.0 for one in rounds)


def _share(part: float, whole: float | None) -> float | None:
    return None if not whole else part / whole
