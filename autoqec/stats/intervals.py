"""Intervals for logical error rates and for paired comparisons. Pure functions on counts; none collapses to a point.

Paired counts: over n shots, `b` only the first decoder failed, `c` only the second failed, `both` failed.
"""

from __future__ import annotations

import math

from scipy.special import bdtr, betaincinv, ndtri

Interval = tuple[float, float]


def _z(level: float) -> float:
    return float(ndtri(0.5 + level / 2))


def wilson(failures: int, shots: int, level: float = 0.95) -> Interval:
    """Wilson score interval of a failure probability."""
    if shots == 0:
        return 0.0, 1.0
    return _wilson_z(failures, shots, _z(level))


def _wilson_z(failures: int, shots: int, z: float) -> Interval:
    centre = (failures + z * z / 2) / (shots + z * z)
    half = z * math.sqrt(failures * (shots - failures) / shots + z * z / 4) / (shots + z * z)
    low = 0.0 if failures == 0 else centre - half
    high = 1.0 if failures == shots else centre + half
    return max(low, 0.0), min(high, 1.0)


def upper_bound(count: int, shots: int, level: float = 0.95) -> float:
    """The exact upper bound of a probability (Clopper and Pearson 1934): with this one, so few would be rarer than 1 - level."""
    return 1.0 if count >= shots else float(betaincinv(count + 1, shots - count, level))


def paired_difference(b: int, c: int, shots: int, level: float = 0.95) -> Interval:
    """Tango's score interval for p1 - p2 = (b - c) / n in matched pairs (Tango, Stat. Med. 17, 891 (1998))."""
    from scipy.optimize import brentq  # here: half a second for every command that only reads reports

    if shots == 0:
        return -1.0, 1.0
    z = _z(level)

    def score(delta: float) -> float:
        # Maximum-likelihood estimate of p21 under the constraint p12 - p21 = delta.
        a2 = 2 * shots
        a1 = -b - c + (2 * shots - b + c) * delta
        a0 = -c * delta * (1 - delta)
        p21 = (-a1 + math.sqrt(max(a1 * a1 - 4 * a2 * a0, 0.0))) / (2 * a2)
        variance = shots * (2 * p21 + delta * (1 - delta))
        excess = b - c - shots * delta
        return (
            excess / math.sqrt(variance)
            if variance > 0
            else math.copysign(math.inf, excess)
            if excess
            else 0.0
        )

    estimate = (b - c) / shots
    eps = 1e-12
    low = -1.0 if score(-1 + eps) <= z else float(brentq(lambda d: score(d) - z, -1 + eps, estimate))
    high = 1.0 if score(1 - eps) >= -z else float(brentq(lambda d: score(d) + z, estimate, 1 - eps))
    return low, high


def paired_ratio(b: int, c: int, both: int, level: float = 0.95) -> Interval:
    """Interval for the ratio of failure rates p1 / p2 = (both + b) / (both + c) in matched pairs.

    Bonett and Price's hybrid Wilson interval (Biometrics 62, 2006), conditional on the discordant shots.
    """
    n = both + b + c
    if n == 0:
        return 0.0, math.inf
    z = _z(level)
    p1, p2 = (both + b + 1) / (n + 2), (both + c + 1) / (n + 2)
    s1, s2 = math.sqrt((1 - p1) / (both + b + 1)), math.sqrt((1 - p2) / (both + c + 1))
    narrow = z * math.sqrt((b + c + 2) / ((both + b + 1) * (both + c + 1))) / (s1 + s2)
    low_1, high_1 = _wilson_z(both + b, n, narrow)
    low_2, high_2 = _wilson_z(both + c, n, narrow)
    return low_1 / high_2, high_1 / low_2 if low_2 > 0 else math.inf


def mcnemar_exact(b: int, c: int) -> float:
    """Two-sided exact McNemar p-value: are the discordant shots a fair coin?"""
    if b + c == 0:
        return 1.0
    return min(1.0, 2 * float(bdtr(min(b, c), b + c, 0.5)))


def mcnemar_one_sided(b: int, c: int) -> float:
    """Exact one-sided McNemar p-value of "the second is no better": P(at least b of b + c | fair coin)."""
    return float(bdtr(c, b + c, 0.5)) if b + c else 1.0
