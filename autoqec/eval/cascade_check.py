"""Do the costs that a stranger's report gives follow from counts, and do fresh ones agree with them?"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

from scipy.special import ndtri

from autoqec.decoders.gates import expected_flops
from autoqec.eval.cascade_schema import CascadeCost, StageRow
from autoqec.eval.schema import CostCensus, VerifyReport
from autoqec.eval.stage_census import LEVEL
from autoqec.stats.intervals import upper_bound, wilson

TOLERANCE = 0.02
"""Relative, beside the standard errors of a count that depends on the shot: these are estimates, too."""
LEAST = 0.25
"""Share of a fresh count that a claim has to reach, whatever the error: few shots with most of the work make it as large as the count."""
TIMED = 1.5
"""What is charged for CPU time is a timing: on another machine it may be so many times larger."""


def follows(cost: CostCensus, at: float, shots: Mapping[float, int]) -> bool:
    """Whether every figure is what the counts give. shots: of the test, by p; at: the reference p."""
    if (cost.flops_per_syndrome or 0) < (cost.counted_flops_per_syndrome or 0):
        return False  # CPU time is charged on top of operations
    if (found := cost.cascade) is None:
        return True
    measured = [row.p for row in found.per_p]
    head = next((row for row in found.per_p if row.p == at), None)
    times = (0.0, found.decoder_us_p50, found.decoder_us_p99, found.decoder_us_p999)
    return (
        len(found.stage_flops) > 1
        and min(found.stage_flops) >= 0
        and found.worst_flops == sum(found.stage_flops)
        and len(found.stage_errors) in (0, len(found.stage_flops))
        and len({*measured}) == len(measured)
        and head is not None
        and all(shots.get(row.p) == row.shots and _row_follows(row, found.stage_flops) for row in found.per_p)
        and (cost.flops_per_syndrome or 0) >= head.flops_per_syndrome
        and all(low <= high for low, high in zip(times, (*times[1:], math.inf), strict=True))
    )


def _row_follows(row: StageRow, flops: Sequence[int]) -> bool:
    if len(row.shares) != len(flops) or not all(0 <= share <= 1 for share in row.shares):
        return False
    counts = _counts(row)
    shares = [count / row.shots for count in counts]
    upper = [1.0] + [upper_bound(count, row.shots, LEVEL) for count in counts[1:]]
    return (
        counts[0] == row.shots
        and counts == sorted(counts, reverse=True)
        and _are_close(row.shares, shares)
        and _are_close(row.shares_upper, upper)
        and abs(row.flops_per_syndrome - expected_flops(flops, shares)) <= 1
        and abs(row.flops_upper - expected_flops(flops, upper)) <= 1
    )


def _counts(row: StageRow) -> list[int]:
    return [round(share * row.shots) for share in row.shares]


def _are_close(claim: Sequence[float], made: Sequence[float]) -> bool:
    return len(claim) == len(made) and all(
        math.isclose(one, other, rel_tol=1e-6, abs_tol=1e-10) for one, other in zip(claim, made, strict=True)
    )


def comparisons(report: VerifyReport) -> int:
    """Intervals that `costs_apart` compares."""
    found = None if report.cost is None else report.cost.cascade
    return 0 if found is None else len(found.stage_flops) * (1 + len(found.per_p))


def costs_apart(claim: CostCensus | None, now: CostCensus | None, level: float) -> Iterator[str]:
    """In what claimed costs and a fresh count of the same checkpoint contradict each other."""
    stages = [None if cost is None else cost.cascade for cost in (claim, now)]
    charged = 0 if now is None or not _is_charged(now) else now.flops_per_syndrome or 0
    if stages[0] is not None and stages[1] is not None:  # what is expected follows from stages and shares
        yield from _stages_apart(stages[0], stages[1], level)
    elif not (charged and claim is not None and claim.counted_flops_per_syndrome is None):
        claimed, counted = _count(claim), _count(now)
        error = 0.0 if now is None else now.flops_error
        is_near = None not in (claimed, counted) and _is_near(claimed or 0, counted or 0, error, level)
        if claimed != counted and not is_near:
            yield f"claims {claimed} flops_per_syndrome, and {counted} are counted"
    headline = (None if claim is None else claim.flops_per_syndrome) or 0
    if TIMED * headline < charged:
        yield f"claims {headline} flops_per_syndrome, and its CPU time is worth {charged}"
    params = [None if cost is None else cost.n_params for cost in (claim, now)]
    if params[0] != params[1]:
        yield f"claims {params[0]} n_params, and {params[1]} are counted"


def _count(cost: CostCensus | None) -> int | None:
    """Of operations; older reports have one figure for this and for what is charged."""
    if cost is None or cost.counted_flops_per_syndrome is None:
        return None if cost is None else cost.flops_per_syndrome
    return cost.counted_flops_per_syndrome


def _is_charged(cost: CostCensus) -> bool:
    """Whether CPU time is worth more than the operations that were counted."""
    counted = cost.counted_flops_per_syndrome
    return counted is not None and (cost.flops_per_syndrome or 0) > counted


def _is_near(claimed: int, counted: int, error: float, level: float) -> bool:
    """error: of the fresh count, which stands for both: that of the claim is the claimant's own. Without one the two are equal."""
    if not error:
        return claimed == counted
    allowed = math.sqrt(2) * float(ndtri(0.5 + level / 2)) * error + TOLERANCE * counted
    return abs(claimed - counted) <= allowed and claimed >= LEAST * counted


def _stages_apart(claim: CascadeCost, now: CascadeCost, level: float) -> Iterator[str]:
    if len(claim.stage_flops) != len(now.stage_flops):
        yield f"claims {len(claim.stage_flops)} stages, and there are {len(now.stage_flops)}"
        return
    errors = now.stage_errors or [0.0] * len(now.stage_flops)
    for stage, (one, other, error) in enumerate(
        zip(claim.stage_flops, now.stage_flops, errors, strict=True), 1
    ):
        if not _is_near(one, other, error, level):
            yield f"claims {one} FLOPs of stage {stage}, and {other} are counted"
    fresh = {row.p: row for row in now.per_p}
    for row in claim.per_p:
        if (other_row := fresh.get(row.p)) is None:
            continue
        for stage, (count, others) in enumerate(zip(_counts(row), _counts(other_row), strict=True), 1):
            mine, theirs = wilson(count, row.shots, level), wilson(others, other_row.shots, level)
            if mine[0] > theirs[1] or theirs[0] > mine[1]:
                yield (
                    f"claims that {count / row.shots:.3g} of the shots at p = {row.p:g} reach stage {stage}, and "
                    f"{others / other_row.shots:.3g} do"
                )
