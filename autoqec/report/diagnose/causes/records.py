"""Causes in the records of a round: its files, its branch and its parents do not fit, or they tell nothing."""

from __future__ import annotations

from autoqec.report.diagnose.case import RoundCase
from autoqec.report.diagnose.finding import Evidence, Finding
from autoqec.report.reading import quote

_LOST_BRANCH = {
    "orphaned_branch": "look at the quarantined branch, and keep or delete it; the round itself was never recorded",
    "branch_manually_deleted": "nothing to do if it was intended; the commit may still be found by git fsck --lost-found",
}


def find_stale_artifacts(case: RoundCase) -> Finding | None:
    """The files of the round do not belong together: edited later, of another attempt, or partly gone."""
    if case.running or case.metrics is None or not case.files.path.is_dir():
        return None
    evidence = [
        Evidence(f"artifact_manifest.json: artifacts.{name}", "is another file than the round left")
        for name in case.artifacts_changed()
    ]
    own = case.metrics.round_attempt_id
    if case.source == "metrics.json" and case.attempt is not None and own != case.attempt:
        evidence.append(Evidence("metrics.json: round_attempt_id", quote(own)))
        evidence.append(Evidence("history.jsonl: round_attempt_id", quote(case.attempt)))
    if case.status == "ok" and not case.files.checkpoint.is_file():
        evidence.append(Evidence("checkpoint.pt", "missing although metrics.json: status = ok"))
    if not evidence:
        return None
    return Finding(
        "high",
        "the round's files are not of one and the same attempt",
        tuple(evidence),
        "do not use its figures: run the round again in an empty folder, or restore the files; never verify it as it is",
    )


def find_compose_conflict(case: RoundCase) -> Finding | None:
    """The parents of a compose round exclude each other."""
    if case.metrics is None or case.status != "compose_conflict":
        return None
    files = [quote(name) for name in case.metrics.conflicting_files or []]
    return Finding(
        "high",
        "the parents of the compose round change the same options",
        (*case.metric("status_reason", "fork_from_canonical"), Evidence("conflicting_files", files)),
        "compose branches that changed different options, or fork from one parent and make the other's change there: the same "
        "parents are not composed twice",
    )


def find_lost_branch(case: RoundCase) -> Finding | None:
    """Reconciliation found the branch of the round gone, or a branch that no round knew."""
    if case.status not in _LOST_BRANCH:
        return None
    return Finding(
        "high",
        "git and the history of the run do not agree about the branch of this round",
        tuple(case.metric("status", "status_reason", "branch")),
        _LOST_BRANCH[case.status],
    )


def find_unexplained(case: RoundCase) -> Finding | None:
    """A round that failed for a reason that no other cause knows, or before reasons were recorded as data."""
    if case.status == "ok" or case.running:
        return None
    what = "the round failed, and its files do not say why in a way that is known here"
    if case.kind is None and case.status == "killed_by_safety":
        what = "the round was killed at a limit of time or memory, or by a signal: this older record does not say which"
    return Finding(
        "low",
        what,
        (*case.metric("status", "status_reason"), *case.tail(3)),
        "read the end of runner.log; run the round again to see whether it happens every time, then simplify its mechanism",
    )
