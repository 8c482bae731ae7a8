"""The parents of a compose round exclude each other."""

from __future__ import annotations

from autoqec.report.diagnose.case import RoundCase
from autoqec.report.diagnose.finding import Evidence, Finding
from autoqec.report.reading import quote


def find(case: RoundCase) -> Finding | None:
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
