"""Output validity: every shot got an answer. One that did not counts as failed; nobody answers for the model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from autoqec.eval.guards import Guard
from autoqec.eval.schema import GuardResult
from autoqec.eval.verification_state import VerificationState

NAME = "output_validity"


def judge(verification: VerificationState, _answers: Sequence[Any]) -> GuardResult:
    invalid, reasons = verification.tally.invalid(verification.model())
    total = sum(verification.tally.shots(p, verification.model()) for p in verification.env.spec.noise.p)
    text = f"{total} shots answered, all valid"
    if invalid:
        text = f"{invalid} of {total} shots got no valid answer and count as failed: {'; '.join(reasons[:3])}"
    return GuardResult(name=NAME, ok=not invalid, severity="breaks", number=float(invalid), text=text)


GUARD = Guard(NAME, judge)
