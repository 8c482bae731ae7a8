"""The verdict: a pure function of the evidence and the guards."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from autoqec.eval.schema import GuardResult, Verdict
from autoqec.stats.sequential import Evidence


class Judgement(NamedTuple):
    verdict: Verdict
    notes: str


def judge(
    evidence: Evidence,
    guards: Sequence[GuardResult],
    *,
    no_claim: str | None = None,
    remarks: Sequence[str] = (),
) -> Judgement:
    """VERIFIED: significant gain, all guards pass. FAILED: significant loss, or a guard broken. SUSPICIOUS: the rest.

    no_claim: why these shots cannot support a claim, whatever they show. remarks: added to the notes, of no consequence.
    Notes begin with `INCONCLUSIVE:` where there is too little evidence to say anything.
    """
    broken = [guard for guard in guards if guard.ok is False and guard.severity == "breaks"]
    doubts = [guard for guard in guards if guard.ok is False and guard.severity == "doubts"]
    reasons = [f"{guard.name}: {guard.text}" for guard in (*broken, *doubts)]
    if broken or evidence.decision == "loss":
        verdict: Verdict = "FAILED"
        if evidence.decision == "loss":
            reasons.insert(0, evidence.reason)
    elif evidence.decision == "gain" and not doubts and no_claim is None:
        verdict = "VERIFIED"
        reasons.insert(0, evidence.reason)
    else:
        verdict = "SUSPICIOUS"
        if not evidence.enough:
            reasons.insert(0, f"INCONCLUSIVE: {evidence.reason}")
        elif evidence.decision == "undecided":
            reasons.insert(0, evidence.reason)
        if no_claim is not None:
            reasons.insert(1 if reasons and reasons[0].startswith("INCONCLUSIVE:") else 0, no_claim)
    return Judgement(verdict, "; ".join([*reasons, *remarks]))
