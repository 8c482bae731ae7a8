"""A training batch does not fit into memory."""

from __future__ import annotations

import re

from autoqec.report.diagnose.case import RoundCase
from autoqec.report.diagnose.finding import Evidence, Finding, Patch

_ESTIMATE = re.compile(r"needs about ([\d.]+) GB and ([\d.]+) GB may be used")
_SIGN = re.compile(r"out of memory|MemoryError|cannot allocate memory|bad_alloc", re.IGNORECASE)
_MARGIN = 0.8


def find(case: RoundCase) -> Finding | None:
    if case.status not in ("killed_by_safety", "train_error"):
        return None
    estimate = _ESTIMATE.search(case.reason)
    sign = None if estimate else case.said(_SIGN)
    if estimate is None and sign is None:
        return None
    evidence = [*case.metric("status", "status_reason")]
    if sign is not None and sign not in evidence:
        evidence.append(sign)
    evidence.append(case.option("training.batch_size"))
    share = 0.25
    if estimate is not None:
        needed, limit = float(estimate[1]), float(estimate[2])
        evidence += [Evidence("estimated need in GB", needed), Evidence("limit in GB", limit)]
        share = _MARGIN * limit / needed if limit and needed else share
    return Finding(
        "medium" if estimate is None and "most likely" in case.reason else "high",
        "a training batch needs more memory than there is",
        tuple(evidence),
        "lower training.batch_size; if a batch of one does not fit, make the model smaller",
        _smaller(case, share),
    )


def _smaller(case: RoundCase, share: float) -> Patch | None:
    """The largest power of two that is at most `share` of the batch."""
    size = case.value("training.batch_size")
    if not isinstance(size, int):
        return None
    target = int(size * share)
    if target < 1:
        return case.cheaper()
    return case.suggest(training__batch_size=1 << (target.bit_length() - 1))
