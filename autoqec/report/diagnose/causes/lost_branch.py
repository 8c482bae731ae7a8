"""Reconciliation found the branch of the round gone, or a branch that no round knew."""

from __future__ import annotations

from autoqec.report.diagnose.case import RoundCase
from autoqec.report.diagnose.finding import Finding

_ADVICE = {
    "orphaned_branch": "look at the quarantined branch, and keep or delete it; the round itself was never recorded",
    "branch_manually_deleted": "nothing to do if it was meant; the commit may still be found by git fsck --lost-found",
}


def find(case: RoundCase) -> Finding | None:
    if case.status not in _ADVICE:
        return None
    return Finding(
        "high",
        "git and the history of the run do not agree about the branch of this round",
        tuple(case.metric("status", "status_reason", "branch")),
        _ADVICE[case.status],
    )
