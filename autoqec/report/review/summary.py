"""What a review found, before anything is recommended."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from autoqec.report.review.budget import Budget
from autoqec.report.review.overfitting import Overfitting
from autoqec.report.review.progress import Family, Step, Streak
from autoqec.report.review.repeats import Repeat
from autoqec.report.review.rounds import RunRecord


@dataclass(frozen=True)
class Review:
    """causes: root causes of the rounds that did not end ok, with their numbers. patience: see `progress.PATIENCE`."""

    run: RunRecord
    statuses: dict[str, int]
    verdicts: dict[str, int]
    curve: tuple[Step, ...]
    streak: Streak
    families: tuple[Family, ...]
    best: dict[str, Any]
    repeats: tuple[Repeat, ...]
    overfitting: Overfitting
    budget: Budget
    causes: dict[str, tuple[int, ...]]
    patience: int
