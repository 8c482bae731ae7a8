"""`train.log` as numbers: did the loss move, and by more than the noise of its batches?"""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import fmean, variance

from autoqec.report.diagnose.finding import Evidence

SHORT = 20
"""Fewer steps than this say little about a training."""

CLEAR = 3.0
"""A change of so many standard errors is not an accident of the batches."""


@dataclass(frozen=True)
class Movement:
    """Means over the first and the last `window` steps. share: the fall, in parts of the first mean; z: the fall in standard errors;
    resolution: the minimum share that would have been clear."""

    first: float
    last: float
    window: int
    share: float
    z: float
    resolution: float

    @property
    def is_clear(self) -> bool:
        return abs(self.z) >= CLEAR


@dataclass(frozen=True)
class LossCurve:
    """steps, losses: of the lines that are two numbers; broken: the others, numbered from 1."""

    steps: tuple[int, ...] = ()
    losses: tuple[float, ...] = ()
    broken: tuple[int, ...] = ()

    @classmethod
    def parse(cls, text: str) -> LossCurve:
        steps, losses, broken = [], [], []
        for line, content in enumerate(text.splitlines(), start=1):
            cells = content.split("\t")
            try:
                step, loss = int(cells[0]), float(cells[1])
            except (ValueError, IndexError):
                broken.append(line)
                continue
            steps.append(step)
            losses.append(loss)
        return cls(tuple(steps), tuple(losses), tuple(broken))

    @property
    def skipped(self) -> int:
        """Steps without a line: the trainer writes none for a loss that is not finite."""
        return max(self.steps[-1] - len(self.steps), 0) if self.steps else 0

    def movement(self) -> Movement | None:
        """None where there are too few finite losses to compare."""
        window = max(2, len(self.losses) // 5)
        if len(self.losses) < 2 * window or not all(map(math.isfinite, self.losses)):
            return None
        head, tail = self.losses[:window], self.losses[-window:]
        first, last = fmean(head), fmean(tail)
        error = math.sqrt((variance(head) + variance(tail)) / window)
        fall = first - last
        z = fall / error if error else math.copysign(math.inf, fall) if fall else 0.0
        scale = abs(first) or 1.0
        return Movement(first, last, window, fall / scale, z, CLEAR * error / scale)

    def evidence(self, moved: Movement) -> tuple[Evidence, Evidence]:
        """Where the loss was and where it went."""
        end = len(self.losses)
        return (
            Evidence(f"train.log:1-{moved.window}", f"mean loss {moved.first:.5g}"),
            Evidence(
                f"train.log:{end - moved.window + 1}-{end}",
                f"mean loss {moved.last:.5g}: {-moved.share:+.1%}, {abs(moved.z):.1f} standard errors; "
                f"a change of {moved.resolution:.0%} would have been clear",
            ),
        )
