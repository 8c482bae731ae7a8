"""The order in which a sweep takes the detectors: few of them should be open at a time. No torch here: baselines run without it."""

from __future__ import annotations

import math
import random

import numpy as np

from autoqec.envs.problem import CheckMatrix

_ORDERS = 48
"""Orders of the detectors that are tried."""


def sweep_order(problem: CheckMatrix, most: float = math.inf, tries: int = _ORDERS) -> list[int] | None:
    """The order of the detectors that costs the least of those that are tried. None where more than `most` are open at a time in all of them."""
    return min(_orders(problem, most, tries), default=(0.0, None))[1]


def _orders(problem: CheckMatrix, most: float, tries: int) -> list[tuple[float, list[int]]]:
    """What it costs to go through the detectors in some order that keeps few of them open at a time, at most so many, and the order."""
    beside = _beside(problem)
    tried = (_greedy(beside, random.Random(seed), most) for seed in range(tries))
    return [found for found in tried if found is not None]


def _beside(problem: CheckMatrix) -> list[set[int]]:
    """For each detector those that share a fault with it, itself included."""
    together = (problem.h.astype(np.int64) @ problem.h.T.astype(np.int64)).tocsr()
    rows = np.split(together.indices, together.indptr[1:-1])
    return [{*row.tolist(), detector} for detector, row in enumerate(rows)]


def _greedy(beside: list[set[int]], rng: random.Random, most: float) -> tuple[float, list[int]] | None:
    """Always on where the fewest new detectors are opened. None where they become too many."""
    left, is_open = set(range(len(beside))), set[int]()
    order: list[int] = []
    cost = 0.0
    while left:
        among = is_open or {rng.choice(sorted(left))}
        chosen = min(sorted(among), key=lambda each: (len((beside[each] & left) - is_open), rng.random()))
        is_open |= beside[chosen] & left
        if len(is_open) > most:
            return None
        cost += 2.0 ** len(is_open)
        left.discard(chosen)
        is_open.discard(chosen)
        order.append(chosen)
    return cost, order
