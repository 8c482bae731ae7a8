"""Is a decoder right as often as it says? Log-odds per shot, held against failures.

A shot with log-odds m is expected to fail with probability 1 / (1 + e^m).
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.optimize import minimize

from autoqec.stats.intervals import Interval, wilson

Floats = npt.NDArray[np.floating[Any]]
Bools = npt.NDArray[np.bool_]

EDGES = (-math.inf, 0.0, 0.5, 1.0, 2.0, 3.0, 5.0, 8.0, 12.0, math.inf)
"""Of the bins of log-odds."""
SHARES = (0.001, 0.003, 0.01, 0.022, 0.05, 0.1)
"""Of shots to discard, the least sure first."""
FEWEST_FAILURES = 20
"""To fit two numbers to."""
_FAR = 50.0
"""Log-odds beyond which no shot tells anything."""


def failure_chance(log_odds: Floats) -> npt.NDArray[np.float64]:
    """Probability of failure that log-odds of being right stand for."""
    return 1.0 / (1.0 + np.exp(np.clip(log_odds.astype(np.float64), -700.0, 700.0)))


class ConfidenceMap(NamedTuple):
    """Log-odds m become scale * m + offset."""

    scale: float
    offset: float

    def __call__(self, log_odds: Floats) -> npt.NDArray[np.float64]:
        return self.scale * log_odds.astype(np.float64) + self.offset


def fit_map(log_odds: Floats, failed: Bools) -> ConfidenceMap | None:
    """The map under which these failures are likeliest, never a falling one; None where there are too few of them.

    Use it on other shots: on its own ones it makes the sums agree by construction.
    """
    if failed.sum() < FEWEST_FAILURES:
        return None
    m = np.clip(log_odds.astype(np.float64), -_FAR, _FAR)
    sign = np.where(failed, -1.0, 1.0)

    def loss(numbers: npt.NDArray[np.float64]) -> tuple[float, npt.NDArray[np.float64]]:
        surprise = sign * (numbers[0] * m + numbers[1])
        slope = -sign * failure_chance(surprise)
        return float(np.logaddexp(0.0, -surprise).mean()), np.array([(slope * m).mean(), slope.mean()])

    found = minimize(
        loss, np.array([1.0, 0.0]), jac=True, method="L-BFGS-B", bounds=[(0.0, None), (None, None)]
    )
    return ConfidenceMap(float(found.x[0]), float(found.x[1]))


class Bin(NamedTuple):
    """Shots with log-odds in [low, high). expected: failures by what they say, mapped: by the map."""

    low: float
    high: float
    shots: int
    failures: int
    expected: float
    mapped: float | None


def reliability(log_odds: Floats, failed: Bools, fitted: ConfidenceMap | None = None) -> list[Bin]:
    """By bins of log-odds; empty ones are left out."""
    raw = failure_chance(log_odds)
    mapped = None if fitted is None else failure_chance(fitted(log_odds))
    place = np.digitize(log_odds, EDGES[1:-1])
    return [
        Bin(
            EDGES[n],
            EDGES[n + 1],
            int(at.sum()),
            int(failed[at].sum()),
            float(raw[at].sum()),
            None if mapped is None else float(mapped[at].sum()),
        )
        for n in range(len(EDGES) - 1)
        if (at := place == n).any()
    ]


class Kept(NamedTuple):
    """What is left when a share of the shots is discarded. below: log-odds of the surest discarded shot."""

    share: float
    below: float
    shots: int
    failures: int


def after_discarding(log_odds: Floats, failed: Bools) -> list[Kept]:
    """For every share: the least sure shots are discarded, ties in the order of the shots."""
    order = np.argsort(log_odds, kind="stable")
    sorted_failed = failed[order]
    counts = [(share, round(share * len(failed))) for share in SHARES]
    return [
        Kept(share, float(log_odds[order[n - 1]]), len(failed) - n, int(sorted_failed[n:].sum()))
        for share, n in counts
        if n
    ]


def lowered(failures: int, shots: int, kept: Kept, level: float) -> tuple[float | None, Interval]:
    """How many times lower the LER of the kept shots is than that of all; the interval is that of the failures' share that is
    left, given how many there are."""
    left = kept.shots / shots if shots else 1.0
    low, high = wilson(kept.failures, failures, level)
    value = left * failures / kept.failures if kept.failures else None
    return value, (left / high if high else math.inf, left / low if low else math.inf)
