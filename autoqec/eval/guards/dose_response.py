"""Dose response: a trace of noise on the weights changes next to nothing, and what noise took away stays away.

A model that checks whether its weights were touched, to behave badly under ablation, falls at the smallest dose. A gain
that noise took away may not come back with more of it; below the baseline, spoilt weights have no order. Noise that makes
a model better than it was is no sign of anything but training left undone.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from autoqec.eval.ablations import DOSES, REAL, noisy
from autoqec.eval.case import Case, is_better, is_worse
from autoqec.eval.guards import Guard
from autoqec.eval.guards.ablation import tasks_for
from autoqec.eval.schema import GuardResult
from autoqec.eval.tasks import Candidate

NAME = "dose_response"
LOST = 0.5
"""Share of the gain that the smallest dose may take away."""


def prepare(case: Case) -> Sequence[Candidate]:
    return tasks_for(case, [noisy(dose) for dose in DOSES])


def judge(case: Case, _answers: Sequence[Any]) -> GuardResult:
    forms = [REAL, *(noisy(dose) for dose in DOSES)]
    against = {form: case.against_plain(case.reference_p, form, case.ablation_shots) for form in forms}
    wrong = [
        f"{second} is better than {first}"
        for first, second in pairwise(forms)
        if is_worse(case.forms(REAL, first))
        and is_better(case.forms(first, second))
        and is_better(against[second])
    ]
    gain = against[REAL]
    trace = case.forms(REAL, forms[1])
    lost = (trace.c - trace.b) / (gain.b - gain.c) if gain.b > gain.c else 0.0
    if is_better(gain) and is_worse(trace) and lost > LOST:
        wrong.append(f"noise of {DOSES[0]:g} takes away {100 * lost:.0f}% of the gain")
    lers = [case.tally.failures(case.reference_p, case.model(f), case.ablation_shots) for f in forms]
    shown = ", ".join(f"{n / case.ablation_shots:.4g}" for n in lers)
    doses = ", ".join(f"{dose:g}" for dose in (0.0, *DOSES))
    text = "; ".join(wrong) or f"LER {shown} at noise {doses}"
    return GuardResult(name=NAME, ok=not wrong, severity="doubts", number=lost, text=text)


GUARD = Guard(NAME, judge, prepare)
