"""Cost census: the loaded model is counted and timed, and what is counted is what runs.

The count comes from the model's own process, where a fused kernel is switched off to be countable; of foreign code it is a claim.
Three things hold it:

- It is made in a fresh process, on real syndromes that no process was asked before, so that remembered answers are no help.
- What the counted calls answer must be what the process answers that ran the main test, each stage of a cascade on shots
  that reach it, among as many others as in a chunk of the main test (`two_paths`). Of typical shots one of 512 at most has a number that rounding moves by 5%, most by 1e-6; where propagation
  does not settle, the installed package's own model says how many there are. Models without foreign code are not asked: they have one path.
- It must explain the CPU time of the main test (`metering`): its operations per CPU second may not fall below those of
  the reference, as it is counted, by more than a stated factor. What lies between that and the reference as it runs is
  charged: the report's figure is then what the CPU time is worth at a third of the reference's speed, so that hidden work does not pay.
  Each stage of a cascade is judged by itself, per shot that reaches it.

Operations per CPU second over those of the reference, for this package's own configs (example_db and small ones, two busy x86_64
cores, surface d = 3 and 5 and bb72): 0.9 to 1.4 for the same model as it runs, from one batch to the next; 1 to 20 as it runs over
the same model as it is counted; 0.35 to 7 over belief propagation as it is counted. Neither figure knows how busy
the machine is: both are CPU time, and the two take turns on one core.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from autoqec.errors import AutoQECError
from autoqec.eval.ablations import has_twin
from autoqec.eval.bundles import CHUNK
from autoqec.eval.guards import Guard
from autoqec.eval.hidden_work import CHARGED, charged_flops, hidden, worth
from autoqec.eval.metering import Metered, summed
from autoqec.eval.schema import CostCensus, GuardResult
from autoqec.eval.stage_census import (
    LOOKED_THROUGH,
    StageCount,
    at_reference,
    cascade_cost,
    count_stages,
)
from autoqec.eval.two_paths import Compared, compare
from autoqec.eval.verification_state import VerificationState
from autoqec.eval.verifier_worker import SLICE, VerifierWorker, timed
from autoqec.sandbox.worker import BATCH

NAME = "cost_census"
COUNTED, ALONE = 512, 16
SINGLE, BULK = 60, 5
PER_CALL = 4.0
"""A call may do this much, in units of one syndrome's work, whatever its batch. The smallest networks of this package do 1.2, all
others less than 0.5."""

LEAST_SPREAD = 1.5
"""Standard deviation of one shot's work where it depends on the shot, in units of its mean, at least: few groups say little of a long tail."""
_GROUPS, _RANGE = 2 * COUNTED // BATCH, 2.06
"""Groups whose means `spread` is the range of, and standard deviations between the largest and the smallest of so many normal numbers, in the mean."""

MORE = 1.05
"""A count at another p that is this many times that at the reference p is named."""


class Counted(NamedTuple):
    """flops: mean over the shots; of a cascade that of its first stage. compared: the two paths of foreign code without stages. spread:
    of the count's halves, relative; 0 where it does not depend on the shot. stages: of a cascade."""

    flops: int | None
    single_us: tuple[float, float]
    bulk_us: float
    compared: Compared = Compared()
    per_call: int = 0
    largest: int = 0
    spread: float = 0.0
    error: str | None = None
    stages: StageCount = StageCount()
    p: float = 0.0


@dataclass(frozen=True)
class Count:
    """On shots of its own, sampled for it: no other task asks them."""

    spec: str
    root: str
    p: float
    seed: int
    problem: str
    model: str
    is_foreign: bool

    def run(self, verifier: VerifierWorker) -> Counted:
        env = verifier.environment(self.spec, self.root)
        staged = verifier.gates(self.model).stages > 1
        through = (CHUNK if self.is_foreign else LOOKED_THROUGH) if staged else 0
        sizes = (SLICE, SINGLE, BULK * BATCH, LOOKED_THROUGH if staged else 0, through)
        shots = env.sampler(self.p).sample(sum(sizes), self.seed).detectors
        first, single, bulk, alone, hard = np.split(shots, np.cumsum(sizes[:-1]))
        rng = np.random.default_rng([self.seed, 1])
        some = rng.permutation(SLICE)[:COUNTED]
        stages, two = StageCount(), Compared()
        try:
            with verifier.fresh(self.problem, self.model) as (worker, held):
                claim, answers = worker.counted(held, first[some], alone=ALONE)
                if self.is_foreign and not staged:
                    whole = verifier.ask_stage(self.problem, self.model, first)
                    two = compare(verifier, self.problem, self.model, held, answers, whole, first, some)
                many = [timed(worker, held, rows)[1] for rows in np.split(bulk, BULK)]
                one = [timed(worker, held, row[None])[1] for row in single]
                if staged:
                    stages = count_stages(
                        verifier, self.problem, self.model, worker, held, hard, alone, rng,
                        is_foreign=self.is_foreign,
                    )  # fmt: skip
        except AutoQECError as error:
            return Counted(None, (0.0, 0.0), 0.0, error=error.what, p=self.p)
        if missing := [each.missing for each in (two, *stages.compared) if each.missing]:
            return Counted(None, (0.0, 0.0), 0.0, error=f"answers are missing: {missing[0]}", p=self.p)
        p50, p99 = (float(1e6 * np.percentile(one, q)) for q in (50, 99))
        return Counted(
            claim.mean,
            (p50, p99),
            1e6 * min(many) / BATCH,
            two,
            claim.per_call,
            claim.largest,
            claim.spread,
            stages=stages,
            p=self.p,
        )


def prepare(verification: VerificationState) -> Sequence[Count]:
    """At the reference p, and for foreign code at the others, where it could work as hard as it likes."""
    at = verification.reference_p
    sha256, spec = verification.subject.sha256, verification.env.spec
    others = () if verification.subject.code.is_trusted else (p for p in spec.noise.p if p != at)
    return [
        Count(
            spec.model_dump_json(),
            str(verification.env.root),
            p,
            verification.secret.seed("cost census", verification.bundle.name, sha256, index),
            verification.where(p).problem,
            verification.model(),
            verification.subject.holds_code,
        )
        for index, p in enumerate((at, *others))
    ]


def metered(verification: VerificationState, p: float) -> tuple[Metered, ...]:
    """The CPU time of all shots at p, by stage; empty for this package's own code, and where it could not be had."""
    parts = verification.tally.parts.get((p, verification.model()), [])
    return summed([part.metered for part in parts])


def census(verification: VerificationState, found: Counted) -> CostCensus:
    metrics = verification.subject.metrics or {}
    timed = found.error is None
    counted, stages = expected(verification, found), cascade_cost(verification, found.stages)
    if (flops := counted) is not None:
        spent = metered(verification, verification.reference_p)
        flops = max(flops, charged_flops(spent, by_stage(found), has_twin(verification.subject)))
    row = at_reference(verification, stages)
    judged = flops if row is None or flops is None else max(flops, row.flops_upper)
    return CostCensus(
        flops_per_syndrome=flops,
        n_params=verification.subject.n_params,
        n_bytes=verification.subject.n_bytes,
        counted_flops_per_syndrome=counted,
        flops_error=0.0 if stages is not None else _error(found),
        latency_us_p50=found.single_us[0] if timed else None,
        latency_us_p99=found.single_us[1] if timed else None,
        bulk_us_per_shot=found.bulk_us if timed else None,
        declared_flops_per_syndrome=number(metrics.get("flops_per_syndrome")),
        declared_n_params=number(metrics.get("n_params")),
        over_budget=verification.env.spec.constraints.over_budget(judged, verification.subject.n_params),
        cascade=stages,
    )


def _error(found: Counted) -> float:
    """Standard error of the mean count of a model without stages."""
    if not found.spread or not found.flops:
        return 0.0
    by_groups = found.spread / _RANGE / math.sqrt(_GROUPS)
    return found.flops * max(by_groups, LEAST_SPREAD / math.sqrt(COUNTED))


def expected(verification: VerificationState, found: Counted) -> int | None:
    """FLOPs per syndrome: of a cascade with the shares of shots that reached each stage in the main test."""
    row = at_reference(verification, cascade_cost(verification, found.stages))
    return found.flops if row is None else row.flops_per_syndrome


def by_stage(found: Counted) -> tuple[int, ...]:
    """The FLOPs of a shot at each stage that it reaches."""
    return found.stages.flops or (found.flops or 0,)


def number(value: Any) -> float | None:
    """A finite number out of a file that is not trusted."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if abs(value) < 1e300 else None


def judge(verification: VerificationState, answers: Sequence[Any]) -> GuardResult:
    found: Counted = answers[0]
    if found.error is not None or found.flops is None:
        return GuardResult(
            name=NAME,
            ok=False,
            severity="breaks",
            number=None,
            text=f"the cost cannot be counted: {found.error}",
        )
    wrong = _other_path(found)
    calls = found.stages.per_call or (found.per_call,)
    for per_call, each in zip(calls, found.stages.flops or (found.flops,), strict=True):
        if per_call > PER_CALL * each:
            wrong.append(
                f"a call takes {per_call} FLOPs whatever its batch, and a syndrome {each}: work is moved between shots"
            )
    flops = expected(verification, found) or found.flops
    stages = cascade_cost(verification, found.stages)
    subject = verification.subject
    facts: dict[str, Any] = {}
    figures = [
        f"{flops} FLOPs per syndrome",
        f"{subject.n_params} parameters",
        f"{subject.n_bytes} bytes",
    ]
    if not subject.code.is_trusted:
        spent, counts = metered(verification, verification.reference_p), by_stage(found)
        wrong += hidden(spent, counts, has_twin(subject))
        if spent:
            slower = [
                CHARGED * worth(stage, has_twin(subject)) / max(each, 1)
                for stage, each in zip(spent, counts, strict=False)
            ]
            facts["slower_than_reference"] = round(max(slower), 3)
            charged = charged_flops(spent, counts, has_twin(subject))
            if charged > flops:
                figures[0] = f"{charged} FLOPs per syndrome charged for its CPU time, {flops} counted"
        for other in answers[1:]:
            wrong += [f"at p = {other.p:g}: {what}" for what in _elsewhere(verification, other)]
            if other.flops is not None and other.flops > MORE * found.flops:
                figures.append(f"{other.flops} FLOPs at p = {other.p:g}")
                facts.setdefault("flops_at", {})[f"{other.p:g}"] = other.flops
    if stages is not None and (row := at_reference(verification, stages)) is not None:
        later = ", ".join(
            f"{100 * share:.3g}% reach stage {number}" for number, share in enumerate(row.shares[1:], 2)
        )
        figures.append(f"{later}, {stages.worst_flops} FLOPs for one that reaches all")
        facts |= {"shares": row.shares, "flops_upper": row.flops_upper}
    elif found.spread:
        figures.append(f"{found.largest} FLOPs for the largest of {ALONE} shots asked alone")
    text = "; ".join(wrong) or (
        f"{', '.join(figures)}; {'the model' if stages is None else 'its first stage'} from outside {found.single_us[0]:.0f} us for one shot "
        f"(p99 {found.single_us[1]:.0f}), {found.bulk_us:.1f} us per shot in bulk"
    )
    return GuardResult(
        name=NAME, ok=not wrong, severity="breaks", number=float(flops), text=text, facts=facts
    )


def _elsewhere(verification: VerificationState, found: Counted) -> list[str]:
    """What is wrong at another p than the reference's."""
    if found.error is not None or found.flops is None:
        return [f"the cost cannot be counted: {found.error}"]
    model, tally = verification.model(), verification.tally
    if not tally.has(found.p, model):
        return _other_path(found)
    spent, is_twin = metered(verification, found.p), has_twin(verification.subject)
    # Which processes were started already differs by then: the time before the first shot is judged at the reference p.
    return _other_path(found) + hidden(spent, by_stage(found), is_twin, with_build=False)


def _other_path(found: Counted) -> list[str]:
    compared = found.stages.compared or (found.compared,)
    wrong = []
    for number, each in enumerate(compared, 1):
        if each.is_another_path:
            of = f" of stage {number}" if len(compared) > 1 else ""
            wrong.append(
                f"the counted path{of} answers {each.otherwise} of {each.shots} shots otherwise than the one that runs"
            )
    return wrong


GUARD = Guard(NAME, judge, prepare, at_once=True)
