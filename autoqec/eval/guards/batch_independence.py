"""Batch independence: a shot's answer is its own, whatever is beside it.

The same shots come again in another order, in batches of random size, with foreign shots among them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from autoqec.envs.packing import pack
from autoqec.errors import AutoQECError
from autoqec.eval.guards import Guard
from autoqec.eval.schema import GuardResult
from autoqec.eval.tasks import Where
from autoqec.eval.verification_state import VerificationState
from autoqec.eval.verifier_worker import VerifierWorker

NAME = "batch_independence"
SHOTS = 2000
FOREIGN = 600
LARGEST_BATCH = 300
TOLERANCE = 1e-3
"""Of weights, relative to 1 + |weight|: sums in another order round differently."""
ALLOWED = 0.001
"""Share of shots that may be off by more, or decided differently."""


class Mixed(NamedTuple):
    """off: shots whose answers moved by more than the tolerance; decided: shots whose prediction changed."""

    shots: int
    off: int
    decided: int
    largest: float
    error: str | None = None


@dataclass(frozen=True)
class Mix:
    where: Where
    model: str
    stop: int
    seed: int

    def run(self, verifier: VerifierWorker) -> Mixed:
        rng = np.random.default_rng(self.seed)
        own = self.where.read(verifier, 0, self.stop).detectors
        problem = verifier.setup.problems[self.where.problem]
        foreign = pack(rng.random((FOREIGN, problem.n_checks)) < rng.uniform(0.0, 0.5, (FOREIGN, 1)))
        order = rng.permutation(len(own) + FOREIGN)
        everything = np.concatenate([own, foreign])[order]
        try:
            worker, held = verifier.held(self.where.problem, self.model)
            alone = worker.all_answers(held, own)
            parts, start = [], 0
            while start < len(everything):
                size = int(rng.integers(1, LARGEST_BATCH))
                parts.append(worker.all_answers(held, everything[start : start + size], batch=size))
                start += size
            mixed = np.empty_like(np.concatenate(parts))
            mixed[order] = np.concatenate(parts)
            mixed = mixed[: len(own)]
            answers = [verifier.checked(self.where.problem, held, raw, own) for raw in (alone, mixed)]
        except AutoQECError as error:
            return Mixed(len(own), 0, 0, 0.0, error.what)
        first, second = (verifier.predict(self.where.problem, self.model, own, each) for each in answers)
        moved = _moved(alone, mixed)
        return Mixed(
            len(own),
            int((moved > TOLERANCE).sum()),
            int((first != second).any(axis=1).sum()),
            float(moved.max(initial=0.0)),
        )


def _moved(first: npt.NDArray[Any], second: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    """Per shot, how far its answers moved; for packed faults, 1 where any bit did."""
    if first.dtype == np.uint8:
        return np.asarray((first != second).any(axis=1), dtype=np.float64)
    moved: npt.NDArray[np.float64] = np.abs(first - second, dtype=np.float64) / (1 + np.abs(first))
    return np.asarray(moved.max(axis=1))


def prepare(verification: VerificationState) -> Sequence[Mix]:
    p = verification.reference_p
    seed = verification.secret.seed("mix", verification.bundle.name, verification.subject.sha256, 0)
    return [
        Mix(
            verification.where(p),
            verification.model(),
            min(SHOTS, verification.tally.shots(p, verification.model())),
            seed,
        )
    ]


def judge(_case: VerificationState, answers: Sequence[Any]) -> GuardResult:
    found: Mixed = answers[0]
    if found.error is not None:
        return GuardResult(
            name=NAME, ok=False, severity="breaks", number=None, text=f"the model failed: {found.error}"
        )
    ok = max(found.off, found.decided) <= ALLOWED * found.shots
    text = (
        f"{found.shots} shots again, permuted, in random batches, among {FOREIGN} foreign ones: {found.decided} predictions "
        f"changed, {found.off} answers moved by more than {TOLERANCE:g} (largest {found.largest:.2g})"
    )
    number = found.decided / found.shots
    return GuardResult(name=NAME, ok=ok, severity="breaks", number=number, text=text)


GUARD = Guard(NAME, judge, prepare)
