"""The verdict: a pure function of the evidence and the guards."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from autoqec.eval.schema import GuardResult, Verdict
from autoqec.stats.sequential import Evidence

AS_OFTEN = "times as often"
"""What follows a ratio of two LERs in the notes."""


def ratio_remark(baseline: str, ratio: float) -> str:
    """The words by which the notes quote a ratio, and a stranger's report is asked for them."""
    return f"{baseline} fails {ratio:.3f} {AS_OFTEN}"


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
        claim = [] if no_claim is None else [no_claim]
        if not evidence.enough:
            reasons = [f"INCONCLUSIVE: {evidence.reason}", *claim, *reasons]
        elif evidence.decision == "undecided":
            reasons = [*claim, evidence.reason, *reasons]
        else:
            reasons = [*claim, *reasons]
    return Judgement(verdict, "; ".join([*reasons, *remarks]))
