"""A round that failed for a reason that no other cause knows."""

from __future__ import annotations

from autoqec.report.diagnose.case import RoundCase
from autoqec.report.diagnose.finding import Evidence, Finding
from autoqec.report.reading import quote

_TAIL = 3


def find(case: RoundCase) -> Finding | None:
    if case.status == "ok" or case.running:
        return None
    evidence = [*case.metric("status", "status_reason")]
    for line in range(max(len(case.output) - _TAIL, 0), len(case.output)):
        evidence.append(Evidence(f"runner.log:{line + 1}", quote(case.output[line])))
    return Finding(
        "low",
        "the round failed, and its files do not say why in a way that is known here",
        tuple(evidence),
        "read the end of runner.log; run the round again to see whether it happens every time, then simplify its mechanism",
    )
