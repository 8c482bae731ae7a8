"""The loss was not finite: training gave up, or safety killed it for its rate of NaN."""

from __future__ import annotations

import re

from autoqec.report.diagnose.case import RoundCase
from autoqec.report.diagnose.finding import Evidence, Finding

_SIGN = re.compile(r"(?<![a-z])nans?(?![a-z])|\binfinite\b|not finite", re.IGNORECASE)
_FAILED = ("train_error", "killed_by_safety")
_USUAL = 1e-3


def find(case: RoundCase) -> Finding | None:
    failed = case.status in _FAILED and _SIGN.search(case.reason) is not None
    hurt = case.status == "ok" and not case.gains and case.curve.skipped > 0
    if not failed and not hurt:
        return None
    rate = case.value("training.learning_rate")
    evidence = [*case.metric("status", "status_reason"), case.option("training.learning_rate")]
    if case.curve.steps:
        at = f"train.log:{len(case.curve.steps)}"
        evidence.append(
            Evidence(at, f"{len(case.curve.steps)} finite losses up to step {case.curve.steps[-1]}")
        )
    else:
        evidence.append(Evidence("train.log", "no finite loss at all"))
    suggestion = None
    if isinstance(rate, int | float):
        suggestion = case.suggest(training__learning_rate=float(f"{min(rate / 10, _USUAL):.3g}"))
    return Finding(
        "high" if failed else "medium",
        "the loss was NaN or infinite",
        tuple(evidence),
        "lower training.learning_rate; if it stays so, add a normalization to the gnn, or look for a division or a logarithm in custom code",
        suggestion,
    )
