"""Dose response: a trace of noise on the weights changes next to nothing.

A model that checks whether its weights were touched, to behave badly under ablation, falls at the smallest dose. The larger ones
are for the reader. They have no order that could be asked for: of a few weights a large noise may spare those that matter, where
a smaller one did not, and noise that makes a model better says only that training was left undone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from autoqec.eval.ablations import DOSES, REAL, noisy
from autoqec.eval.guards import Guard
from autoqec.eval.guards.ablation import ler_of, tasks_for
from autoqec.eval.schema import GuardResult
from autoqec.eval.tasks import Candidate
from autoqec.eval.verification_state import VerificationState, is_better, is_worse

NAME = "dose_response"
LOST = 0.5
"""Share of the gain that the smallest dose may take away."""


def prepare(verification: VerificationState) -> Sequence[Candidate]:
    return tasks_for(verification, [noisy(dose) for dose in DOSES])


def judge(verification: VerificationState, _answers: Sequence[Any]) -> GuardResult:
    forms = [REAL, *(noisy(dose) for dose in DOSES)]
    trace = verification.forms(REAL, forms[1])
    # of the same shots, where the smallest dose was asked about fewer
    gain = verification.against_plain(verification.reference_p, REAL, trace.shots)
    lost = (trace.c - trace.b) / (gain.b - gain.c) if gain.b > gain.c else 0.0
    is_key = is_better(gain) and is_worse(trace) and lost > LOST
    lers = ", ".join(ler_of(verification, form) for form in forms)
    doses = ", ".join(f"{dose:g}" for dose in (0.0, *DOSES))
    text = f"LER {lers} at noise {doses}"
    if is_key:
        text = f"noise of {DOSES[0]:g} takes away {100 * lost:.0f}% of the gain"
    if trace.shots < verification.ablation_shots and not is_better(gain):
        # Too slow to tell.
        return GuardResult(name=NAME, ok=None, severity="doubts", number=None, text=text)
    return GuardResult(name=NAME, ok=not is_key, severity="doubts", number=lost, text=text)


GUARD = Guard(NAME, judge, prepare)
