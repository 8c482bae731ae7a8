"""Cost census: the loaded model is counted and timed, and what is counted is what runs.

The count comes from the worker, where a fused kernel is switched off to be countable; the counted path must therefore
give the answers of the one that was evaluated, and take a time that its operations can explain.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from autoqec.errors import AutoQECError
from autoqec.eval.guards import Guard
from autoqec.eval.schema import CostCensus, GuardResult
from autoqec.eval.tasks import Where
from autoqec.eval.verification_state import VerificationState
from autoqec.eval.verifier_worker import VerifierWorker, timed

NAME = "cost_census"
SHOTS = 256
SINGLE, BULK = 60, 5
ALLOWED = 0.02
"""Share of shots that the counted path may decide otherwise: it rounds differently."""
SLOWEST = 3e8
"""Operations per CPU second below which work must be hidden from the count: the smallest models of this package do more than
twice as many. On a core that takes REFERENCE_US for `_reference_us`; of a slower one, less is expected."""
REFERENCE_US = 560.0


class Counted(NamedTuple):
    flops: int | None
    otherwise: int
    shots: int
    single_us: tuple[float, float]
    bulk_us: float
    cpu_us: float
    reference_us: float = REFERENCE_US
    error: str | None = None


def _reference_us() -> float:
    """CPU time of a known piece of work, in microseconds: how fast this core is."""
    numbers = np.linspace(-3.0, 3.0, 1 << 20, dtype=np.float32)
    spent = []
    for _ in range(5):
        begin = time.process_time()
        np.tanh(numbers)
        spent.append(time.process_time() - begin)
    return 1e6 * min(spent)


@dataclass(frozen=True)
class Count:
    where: Where
    model: str

    def run(self, verifier: VerifierWorker) -> Counted:
        detectors = self.where.read(verifier, 0, SHOTS).detectors
        nothing = Counted(None, 0, len(detectors), (0.0, 0.0), 0.0, 0.0)
        try:
            worker, held = verifier.held(self.where.problem, self.model)
            as_run = verifier.checked(self.where.problem, held, worker.answers(held, detectors), 0.0)
            before = worker.cpu_seconds()
            bulk = [timed(worker, held, detectors)[1] for _ in range(BULK)]
            after = worker.cpu_seconds()
            singles = [timed(worker, held, detectors[shot : shot + 1])[1] for shot in range(SINGLE)]
            flops = worker.flops(held)
            counted = worker.answers(held, detectors, as_counted=True)
            as_counted = verifier.checked(self.where.problem, held, counted, 0.0)
        except AutoQECError as error:
            return nothing._replace(error=error.what)
        first, second = (
            verifier.predict(self.where.problem, self.model, detectors, each) for each in (as_run, as_counted)
        )
        p50, p99 = (float(1e6 * np.percentile(singles, q)) for q in (50, 99))
        otherwise = int((first != second).any(axis=1).sum())
        fastest = min(bulk)
        used = fastest if before is None or after is None else (after - before) / BULK
        per_shot = 1e6 / len(detectors)
        return Counted(
            flops,
            otherwise,
            len(detectors),
            (p50, p99),
            fastest * per_shot,
            used * per_shot,
            _reference_us(),
        )


def prepare(verification: VerificationState) -> Sequence[Count]:
    return [Count(verification.where(verification.reference_p), verification.model())]


def census(verification: VerificationState, found: Counted) -> CostCensus:
    metrics = verification.subject.metrics or {}
    timed = found.error is None
    return CostCensus(
        flops_per_syndrome=found.flops,
        n_params=verification.subject.n_params,
        n_bytes=verification.subject.n_bytes,
        latency_us_p50=found.single_us[0] if timed else None,
        latency_us_p99=found.single_us[1] if timed else None,
        bulk_us_per_shot=found.bulk_us if timed else None,
        declared_flops_per_syndrome=number(metrics.get("flops_per_syndrome")),
        declared_n_params=number(metrics.get("n_params")),
        over_budget=verification.env.spec.constraints.over_budget(found.flops, verification.subject.n_params),
    )


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
    wrong = []
    if found.otherwise > max(1.0, ALLOWED * found.shots):
        wrong.append(
            f"the counted path decides {found.otherwise} of {found.shots} shots otherwise than the one that runs"
        )
    rate = found.flops / (1e-6 * found.cpu_us) if found.cpu_us else float("inf")
    if rate < SLOWEST * REFERENCE_US / found.reference_us:
        wrong.append(
            f"{found.flops} FLOPs do not explain {found.cpu_us:.0f} us of CPU per shot: work is hidden from the count"
        )
    text = "; ".join(wrong) or (
        f"{found.flops} FLOPs per syndrome, {verification.subject.n_params} parameters, {verification.subject.n_bytes} bytes; from outside "
        f"{found.single_us[0]:.0f} us for one shot (p99 {found.single_us[1]:.0f}), {found.bulk_us:.1f} us per shot in bulk"
    )
    return GuardResult(name=NAME, ok=not wrong, severity="breaks", number=float(found.flops), text=text)


GUARD = Guard(NAME, judge, prepare)
