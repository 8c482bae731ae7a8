"""What a paired evaluation leaves: one failure bit per decoder and shot, so that any pair can be compared."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from autoqec.envs.problem import U8
from autoqec.stats import intervals


class PairCounts(NamedTuple):
    """Shots in which only the first decoder failed, only the second, both."""

    first_only: int
    second_only: int
    both: int


@dataclass(frozen=True)
class PairedResult:
    """Failures at one p.

    failures: decoder name -> packed bits [ceil(shots / 8)], bit set where any observable was wrong; spare bits clear.
    seconds: decoder name -> CPU seconds spent decoding these shots.
    reused: shots that were taken from earlier runs.
    interrupted: fewer shots than asked for, because the run was stopped.
    """

    p: float
    shots: int
    failures: dict[str, U8]
    seconds: dict[str, float]
    reused: int = 0
    interrupted: bool = False

    def count(self, name: str) -> int:
        return int(np.bitwise_count(self.failures[name]).sum())

    def ler(self, name: str) -> float:
        return self.count(name) / self.shots if self.shots else float("nan")

    def interval(self, name: str, level: float = 0.95) -> intervals.Interval:
        return intervals.wilson(self.count(name), self.shots, level)

    def us_per_shot(self, name: str) -> float:
        return 1e6 * self.seconds[name] / self.shots if self.shots else float("nan")

    def pair(self, first: str, second: str) -> PairCounts:
        a, b = self.failures[first], self.failures[second]
        both = int(np.bitwise_count(a & b).sum())
        return PairCounts(self.count(first) - both, self.count(second) - both, both)

    def ratio(self, first: str, second: str) -> float | None:
        """LER of the first over LER of the second: above 1, the second is better. None without failures."""
        failures = self.count(second)
        return self.count(first) / failures if failures else None

    def ratio_interval(self, first: str, second: str, level: float = 0.95) -> intervals.Interval:
        return intervals.paired_ratio(*self.pair(first, second), level)
