"""The loss grew: training walks away from where it started."""

from __future__ import annotations

from autoqec.report.diagnose.case import RoundCase
from autoqec.report.diagnose.finding import Finding
from autoqec.search.analyst import MOVED


def find(case: RoundCase) -> Finding | None:
    moved = case.curve.movement()
    if case.status != "ok" or case.gains or moved is None or moved.share > -MOVED or not moved.is_clear:
        return None
    rate = case.value("training.learning_rate")
    suggestion = None
    if isinstance(rate, int | float):
        suggestion = case.suggest(training__learning_rate=float(f"{rate / 10:.3g}"))
    return Finding(
        "high",
        "the loss grew during training",
        (
            *case.curve.evidence(moved),
            case.option("training.learning_rate"),
        ),
        "lower training.learning_rate",
        suggestion,
    )
