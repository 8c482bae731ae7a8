"""Replay: a fresh worker gives the same answers twice, and those that decided the main test.

Randomness, a clock, or state carried from batch to batch would show. The workers of the estimate, which is drawn last, are asked a chunk
of the main test, too, in pieces among its own shots: who decodes otherwise by then, because it can tell the hour, has figures that are another
decoder's.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from autoqec.envs.problem import U8
from autoqec.errors import AutoQECError
from autoqec.eval.bundles import CHUNK
from autoqec.eval.guards import Guard
from autoqec.eval.schema import GuardResult
from autoqec.eval.tasks import QUESTIONS as PIECE
from autoqec.eval.tasks import Candidate, Where
from autoqec.eval.verification_state import Estimated, VerificationState
from autoqec.eval.verifier_worker import SLICE, VerifierWorker

NAME = "replay"
ALLOWED_LATER = 0.02
"""Share of the failures that may fall on other shots in the workers of the estimate, or one: later stages of a cascade are asked in other batches
there, and other processors round otherwise. Another decoder fails on far more others."""
QUESTIONS = 2
"""Of the main test that are asked again, as they were: in other batches, sums would round differently."""


class Replayed(NamedTuple):
    """differing: shots whose raw answers changed from one replay to the next. failed: packed, of the first replay."""

    shots: int
    differing: int
    failed: U8
    error: str | None = None


@dataclass(frozen=True)
class Replay:
    where: Where
    model: str
    start: int
    stop: int

    def run(self, verifier: VerifierWorker) -> Replayed:
        shots = self.where.read(verifier, self.start, self.stop)
        try:
            with verifier.fresh(self.where.problem, self.model, always=True) as (worker, held):
                questions = range(0, len(shots.detectors), SLICE)
                first, second = (
                    np.concatenate(
                        [worker.all_answers(held, shots.detectors[i : i + SLICE]) for i in questions]
                    )
                    for _ in range(2)
                )
                differing = int((first.view(np.uint8) != second.view(np.uint8)).any(axis=1).sum())
                answers = verifier.checked(self.where.problem, held, first, shots.detectors)
        except AutoQECError as error:
            return Replayed(len(shots.detectors), 0, np.zeros(0, np.uint8), error.what)
        predicted = verifier.predict(self.where.problem, self.model, shots.detectors, answers)
        failed = (predicted != shots.observables).any(axis=1) | ~answers.valid
        return Replayed(len(failed), differing, np.packbits(failed, bitorder="little"))


def prepare(verification: VerificationState) -> Sequence[Replay]:
    """The last questions of the main test: by then, whatever a model accumulates has accumulated."""
    p = verification.reference_p
    stop = verification.tally.shots(p, verification.model())
    chunk = (stop - 1) // CHUNK * CHUNK
    asked = range(chunk, stop, SLICE)
    return [Replay(verification.where(p), verification.model(), asked[-QUESTIONS:][0], stop)]


def of_the_main_test(verification: VerificationState) -> list[Candidate]:
    """A chunk of it, chosen at random, for the workers of the estimate."""
    p = verification.reference_p
    shots = verification.tally.shots(p, verification.model())
    start = random.SystemRandom().randrange(0, shots, CHUNK)
    stop = min(start + CHUNK, shots)
    where, model = verification.where(p), verification.model()
    return [Candidate(where, model, low, min(low + PIECE, stop)) for low in range(start, stop, PIECE)]


def _changed_since(verification: VerificationState, found: Estimated) -> int:
    """Shots that fail in the estimate's workers and did not in the main test, or the reverse."""
    main = verification.tally.failed(verification.reference_p, verification.model())
    before = [main[part.start // 8 :][: len(part.bits)] for part in found.again]
    return sum(
        int(np.bitwise_count(bits ^ part.bits).sum()) for bits, part in zip(before, found.again, strict=True)
    )


def _allowed_later(verification: VerificationState) -> float:
    if verification.estimated is None:
        return 0.0
    p, model = verification.reference_p, verification.model()
    rate = verification.tally.failures(p, model) / verification.tally.shots(p, model)
    return max(1.0, ALLOWED_LATER * rate * sum(part.shots for part in verification.estimated.again))


def judge(verification: VerificationState, answers: Sequence[Any]) -> GuardResult:
    found: Replayed = answers[0]
    if found.error is not None:
        return GuardResult(
            name=NAME, ok=False, severity="breaks", number=None, text=f"a fresh worker failed: {found.error}"
        )
    main = verification.tally.failed(verification.reference_p, verification.model())[-len(found.failed) :]
    changed = int(np.bitwise_count(main ^ found.failed).sum())
    later = 0 if verification.estimated is None else _changed_since(verification, verification.estimated)
    ok = found.differing == 0 and changed == 0 and later <= _allowed_later(verification)
    text = f"{found.shots} shots replayed in a fresh worker: " + (
        "bitwise the same answers, and the same failures as in the main test"
        if ok
        else f"{found.differing} answers changed between replays, {changed} failures differ from the main test"
    )
    if verification.estimated is not None:
        shots = sum(part.shots for part in verification.estimated.again)
        text += f"; {shots} shots in the workers of the estimate: {later} failures differ"
    number = float(max(found.differing, changed, later))
    return GuardResult(name=NAME, ok=ok, severity="breaks", number=number, text=text)


GUARD = Guard(NAME, judge, prepare)
