"""The files of the round do not belong together: edited later, of another attempt, or partly gone."""

from __future__ import annotations

from autoqec.report.diagnose.case import RoundCase
from autoqec.report.diagnose.finding import Evidence, Finding
from autoqec.report.reading import quote


def find(case: RoundCase) -> Finding | None:
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
