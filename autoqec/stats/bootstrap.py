"""Paired bootstrap: whole shots are resampled, so that the two decoders stay paired.

Shots are exchangeable, so resampling them is one multinomial draw of the 2x2 table. Half a shot is added to
each cell that can hold a failure before resampling: an empty cell would stay empty in every draw, and an
interval could be a point.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from autoqec.errors import InputError
from autoqec.stats.intervals import Interval
from autoqec.stats.table import PairedTable

RESAMPLES = 10_000


@dataclass(frozen=True)
class BootstrapIntervals:
    """Percentile intervals: LER of baseline and candidate, difference (gain positive) and ratio."""

    ler_baseline: Interval
    ler_candidate: Interval
    difference: Interval
    ratio: Interval


def paired_bootstrap(
    table: PairedTable, level: float = 0.95, *, seed: int, resamples: int = RESAMPLES
) -> BootstrapIntervals:
    """All intervals from one set of resamples. Each holds the point estimate and has a width."""
    if not 0 < level < 1 or resamples < 100:
        raise InputError(
            f"level = {level}, resamples = {resamples}", hint="give 0 < level < 1 and resamples >= 100"
        )
    n = table.shots
    if n == 0:
        return BootstrapIntervals((0.0, 1.0), (0.0, 1.0), (-1.0, 1.0), (0.0, math.inf))
    cells = np.array([table.b, table.c, table.both], dtype=np.float64) + 0.5
    right = n - table.b - table.c - table.both + 0.5
    draws = np.random.default_rng(seed).multinomial(n, np.append(cells, right) / (n + 2), size=resamples)
    b, c, both = draws[:, 0], draws[:, 1], draws[:, 2]
    baseline, candidate = both + b, both + c
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.where(baseline + candidate > 0, baseline / candidate, 1.0)
    tail = (1 - level) / 2

    def interval(
        values: npt.NDArray[np.float64], estimate: float, minimum: float, maximum: float
    ) -> Interval:
        low, high = np.quantile(values, (tail, 1 - tail), method="inverted_cdf")
        low, high = min(float(low), estimate), max(float(high), estimate)
        if low == high:  # at a very low level; an interval has the width of one shot either way at least
            low, high = low - 1 / n, high + 1 / n
        return max(low, minimum), min(high, maximum)

    point_ratio = table.baseline_failures / table.candidate_failures if table.candidate_failures else math.inf
    if table.baseline_failures == table.candidate_failures == 0:
        point_ratio = 1.0
    return BootstrapIntervals(
        interval(baseline / n, table.baseline_failures / n, 0.0, 1.0),
        interval(candidate / n, table.candidate_failures / n, 0.0, 1.0),
        interval((b - c) / n, table.delta, -1.0, 1.0),
        interval(ratio, point_ratio, 0.0, math.inf),
    )
