"""Two error rates: a gain at the reference p is not a loss at another p of the sweep."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from autoqec.eval.guards import Guard
from autoqec.eval.schema import GuardResult
from autoqec.eval.verification_state import VerificationState, is_worse

NAME = "two_error_rates"


def judge(verification: VerificationState, _answers: Sequence[Any]) -> GuardResult:
    others = [
        p
        for p in verification.env.spec.noise.p
        if p != verification.reference_p and verification.tally.has(p, verification.model())
    ]
    if not others:
        return GuardResult(
            name=NAME, ok=None, severity="doubts", number=None, text="the sweep has one error rate only"
        )
    tables = {p: verification.against_plain(p) for p in others}
    at = max(others, key=lambda p: tables[p].discordant)
    worse = [p for p in others if is_worse(tables[p])]
    ratios = []
    for p in (verification.reference_p, *others):
        table = verification.against_plain(p)
        failures = table.candidate_failures
        shown = f"{table.baseline_failures / failures:.3f}" if failures else "no failures"
        ratios.append(f"{shown} at p = {p:g}")
    text = f"LER of {verification.plain.name} over LER of the candidate: {', '.join(ratios)}"
    if worse:
        text = f"a significant loss at p = {', '.join(f'{p:g}' for p in worse)}; {text}"
    return GuardResult(name=NAME, ok=not worse, severity="doubts", number=tables[at].delta, text=text)


GUARD = Guard(NAME, judge)
