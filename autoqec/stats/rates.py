"""Logical error rates in other units than the shot, and Lambda. All conversions are monotone: bounds convert as estimates do.

A shot of R readout rounds and K observables fails if any observable is wrong. The conversions take the K observables for independent
and alike, and rounds for independent flips of an observable, as sinter's `shot_error_rate_to_piece_error_rate` does.
"""

from __future__ import annotations

import math

from autoqec.stats.intervals import Interval


def per_qubit(ler: float, qubits: int) -> float:
    """Of one of `qubits` observables in a shot: 1 - (1 - ler)^(1 / qubits)."""
    return -math.expm1(math.log1p(-ler) / qubits) if ler < 1 else 1.0


def per_round(ler: float, rounds: int, qubits: int = 1) -> float:
    """Of any observable in one of `rounds` readout rounds. Of one observable, x per shot is (1 - (1 - 2 x)^(1 / rounds)) / 2 per
    round; x of 1/2 and more tells nothing of a round, and is 1/2."""
    x = per_qubit(ler, qubits)
    one = -math.expm1(math.log1p(-2 * x) / rounds) / 2 if x < 0.5 else 0.5
    return -math.expm1(qubits * math.log1p(-one))


def suppression(
    small: float, small_bounds: Interval, large: float, large_bounds: Interval, steps: float = 1.0
) -> tuple[float | None, Interval]:
    """Lambda: how much lower the rate `large` of a larger distance is than `small`, per step of 2 in distance, and its interval.

    The two rates are of independent shots. The interval is Donner and Zou's (Stat. Methods Med. Res. 21, 2012) for the
    ratio, from the interval of each rate, on the logarithmic scale. Without failures at the larger distance there is no estimate.
    """
    if small <= 0 or large <= 0:
        low = small_bounds[0] / large_bounds[1] if large_bounds[1] > 0 else 0.0
        return None, (low ** (1 / steps), math.inf)
    (low_1, high_1), (low_2, high_2) = small_bounds, large_bounds
    ratio = math.log(small / large)
    below = math.hypot(_distance(low_1, small), _distance(large, high_2))
    above = math.hypot(_distance(small, high_1), _distance(low_2, large))
    return math.exp(ratio / steps), (math.exp((ratio - below) / steps), _exp((ratio + above) / steps))


def _distance(low: float, high: float) -> float:
    return math.inf if low <= 0 else math.log(high / low)


def _exp(value: float) -> float:
    return math.exp(value) if value < 700 else math.inf
