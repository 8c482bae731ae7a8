"""The census of a cascade: what each stage costs a shot that reaches it, how many shots do, and how long a shot takes.

The stages are counted on shots that reach them: work that a stage does for hard shots only is work. How many do comes from the main test, where the
gates are this side's, and a budget is held against the upper bound of what that says.
"""

from __future__ import annotations

import math
import time
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from autoqec.decoders.answers import AnswerDecoder
from autoqec.decoders.gates import I64, expected_flops
from autoqec.envs.problem import F64, U8
from autoqec.eval.cascade_schema import CascadeCost, StageRow
from autoqec.eval.two_paths import Compared, compare
from autoqec.eval.verification_state import VerificationState
from autoqec.eval.verifier_worker import VerifierWorker
from autoqec.sandbox.worker import FlopClaim, HeldModel, ModelWorker
from autoqec.stats.intervals import upper_bound

LOOKED_THROUGH, COUNTED, MORE = 4096, 64, 128
"""MORE: shots that are counted at a stage whose cost is not the same for all of them."""
SINGLE, SINGLE_S = 1000, 20.0
"""Shots at least that are decoded one at a time, and seconds in which there may be more: one in a thousand is the slowest of them."""
FEWEST = 16
"""Shots at least that a stage is counted on; where fewer reach it, those that are nearest to the gate besides."""
GROUPS = 8
"""Equal groups of them, whose means say by how much shots differ; a call of the count is two."""
_RANGE = 2.85
"""Standard deviations between the largest and the smallest of so many normal numbers, in the mean."""
LEVEL = 0.95


class StageCount(NamedTuple):
    """flops, spread: of each stage, as `sandbox.worker.FlopClaim` has them. shots: on so many, in GROUPS. decoder_us: of one shot at a
    time, at 50, 99 and 99.9%. compared: the two paths of each stage of foreign code."""

    flops: tuple[int, ...] = ()
    spread: tuple[float, ...] = ()
    shots: tuple[int, ...] = ()
    per_call: tuple[int, ...] = ()
    decoder_us: tuple[float, ...] = ()
    compared: tuple[Compared, ...] = ()

    def per_shot(self, stage: int) -> float:
        """Standard deviation of one shot's FLOPs at a stage, by the spread of the groups' means."""
        return self.flops[stage] * self.spread[stage] * math.sqrt(self.shots[stage] / GROUPS) / _RANGE


def count_stages(
    verifier: VerifierWorker,
    problem: str,
    model: str,
    worker: ModelWorker,
    held: HeldModel,
    shots: U8,
    alone: U8,
    rng: np.random.Generator,
    *,
    is_foreign: bool,
) -> StageCount:
    """shots, alone: no process was asked them before. Some of those that reach a stage are counted there. The process of the main test is asked
    about foreign code as in that test, a whole chunk stage by stage, and its answers are compared. alone: are timed one at a time."""
    deciders = verifier.deciders(problem, held.gates)
    found: list[FlopClaim] = []
    counted: list[int] = []
    compared: list[Compared] = []
    rows = shots
    earlier: npt.NDArray[Any] | None = None
    for stage in range(held.gates.stages):
        is_last = stage + 1 == held.gates.stages
        if is_foreign:
            given = verifier.ask_stage(problem, model, rows, stage, earlier)
        elif not is_last:
            given = verifier.screened(problem, held, worker.answers(held, rows, stage=stage, earlier=earlier))
        claim, some, counted_answers = _count(worker, held, stage, rows, earlier, rng)
        if is_foreign:
            compared.append(
                compare(verifier, problem, model, held, counted_answers, given, rows, some, stage, earlier)
            )
        found.append(_with_decider(claim, deciders[stage], rows[some]))
        counted.append(len(some))
        if is_last:
            break
        _, sure = deciders[stage].judged(given.kind, given.raw, rows, sure_of_all=False)
        left = reaching(sure, held.gates.thresholds[stage])
        rows, earlier = rows[left], given.raw[left]
    spent: list[float] = []
    for row in alone:
        if len(spent) >= SINGLE and sum(spent) > SINGLE_S:
            break
        start = time.perf_counter()
        answers = verifier.ask(problem, model, row[None])
        verifier.predict(problem, model, row[None], answers)
        spent.append(time.perf_counter() - start)
    return StageCount(
        tuple(each.mean for each in found),
        tuple(each.spread for each in found),
        tuple(counted),
        tuple(each.per_call for each in found),
        tuple(float(1e6 * np.percentile(spent, q)) for q in (50, 99, 99.9)),
        tuple(compared),
    )


def _with_decider(claim: FlopClaim, decider: AnswerDecoder, shots: U8) -> FlopClaim:
    """With the work that is done beside the backend, which depends on the shot. shots: in GROUPS."""
    own = [decider.flops(group) for group in np.split(shots, GROUPS)]
    mean = claim.mean + round(sum(own) / GROUPS)
    spread = (claim.spread * claim.mean + max(own) - min(own)) / max(mean, 1)
    return claim._replace(mean=mean, spread=spread)


def reaching(sure: F64, threshold: float) -> I64:
    """Shots that a gate lets through, in order; where they are hardly any, those that are nearest to it besides."""
    wanted = max(int((sure < threshold).sum()), FEWEST)
    return np.sort(np.argsort(sure, kind="stable")[:wanted])


def _count(
    worker: ModelWorker,
    held: HeldModel,
    stage: int,
    rows: U8,
    earlier: npt.NDArray[Any] | None,
    rng: np.random.Generator,
) -> tuple[FlopClaim, I64, npt.NDArray[Any]]:
    """What a stage costs, on which shots that was counted, and its answers to them: more, and other ones, where the cost is not the same for all."""
    order = rng.permutation(len(rows))

    def on(start: int, stop: int) -> tuple[FlopClaim, I64, npt.NDArray[Any]]:
        each = (min(stop, len(rows)) - start) // GROUPS
        some = order[start : start + each * GROUPS]
        before = None if earlier is None else earlier[some]
        claim, answers = worker.counted(held, rows[some], batch=2 * each, stage=stage, earlier=before)
        return claim, some, answers

    first = on(0, COUNTED)
    if first[0].spread and len(rows) >= COUNTED + MORE:
        return on(COUNTED, COUNTED + MORE)
    return first


def cascade_cost(verification: VerificationState, counted: StageCount) -> CascadeCost | None:
    """With the shares of the shots of the main test, and at the other p; None for a model that is not a cascade."""
    if not counted.flops:
        return None
    rows = []
    for p in verification.env.spec.noise.p:
        reached = verification.tally.reached(p, verification.model())
        if len(reached) != len(counted.flops) or not reached[0]:
            continue
        shares = [count / reached[0] for count in reached]
        upper = [1.0] + [upper_bound(count, reached[0], LEVEL) for count in reached[1:]]
        rows.append(
            StageRow(
                p=p,
                shots=reached[0],
                shares=shares,
                shares_upper=upper,
                flops_per_syndrome=expected_flops(counted.flops, shares),
                flops_upper=expected_flops(counted.flops, upper),
            )
        )
    p50, p99, p999 = counted.decoder_us
    return CascadeCost(
        stage_flops=list(counted.flops),
        stage_errors=[
            counted.per_shot(stage) / math.sqrt(count) for stage, count in enumerate(counted.shots)
        ],
        worst_flops=sum(counted.flops),
        per_p=rows,
        decoder_us_p50=p50,
        decoder_us_p99=p99,
        decoder_us_p999=p999,
    )


def at_reference(verification: VerificationState, cost: CascadeCost | None) -> StageRow | None:
    if cost is None:
        return None
    return next((row for row in cost.per_p if row.p == verification.reference_p), None)
