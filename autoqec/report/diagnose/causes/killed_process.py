"""The round's process ended without a word: interrupted, killed by a signal, or gone with its machine."""

from __future__ import annotations

import re

from autoqec.report.diagnose.case import RoundCase
from autoqec.report.diagnose.finding import Evidence, Finding

_SIGNAL = re.compile(r"\binterrupted\b|ended with code -\d+")


def find(case: RoundCase) -> Finding | None:
    if case.running:
        return None
    resumable = case.files.training_state.exists()
    advice = "run the same round again: " + (
        "training goes on from training_state.pt" if resumable else "it starts over"
    )
    if case.in_flight:
        advice = "take the run up again, or run autoqec reconcile: it finishes or clears what is in flight"
    if case.status == "killed_by_safety" and _SIGNAL.search(case.reason):
        return Finding(
            "high",
            "the round's process was ended from outside",
            tuple(case.metric("status", "status_reason")),
            advice,
        )
    if case.metrics is not None and not case.is_torn:
        return None
    if not case.files.path.is_dir():
        return None
    idle = case.idle_s()
    evidence = [Evidence("metrics.json", "torn" if case.is_torn else "missing")]
    if case.curve.steps:
        line = len(case.curve.steps) + len(case.curve.broken)
        evidence.append(Evidence(f"train.log:{line}", f"step {case.curve.steps[-1]} is the last"))
    if case.output:
        evidence.append(Evidence("runner.log", f"{len(case.output)} lines"))
    if resumable:
        evidence.append(Evidence("training_state.pt", f"{case.files.training_state.stat().st_size} bytes"))
    if idle is not None:
        evidence.append(Evidence("last write of the round", f"{idle:.0f} s ago"))
    return Finding(
        "high" if case.in_flight or case.is_torn else "medium",
        "the round has no result, and no process of its run is at work on it",
        tuple(evidence),
        advice,
    )
