"""Dominance and hypervolume: the one rule by which rounds are better than others, on whatever shots their gain was measured.

Axes: gain in LER (higher is better), FLOPs per syndrome (lower), parameters (lower).

A round covers the box between it and the reference point: its gain, times the decades of FLOPs, times the decades of
parameters by which it is cheaper than the reference. The hypervolume of a front is the volume of the union of the boxes, in
units of LER x decades^2. Costs below 1 count as 1. A round beyond the reference covers nothing. Three axes and a few rounds: no library is needed.
"""

from __future__ import annotations

import math
from bisect import insort
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

Axes = tuple[float, float, float]
Point = tuple[float, float, float]
T = TypeVar("T")


def dominates(a: Axes, b: Axes) -> bool:
    """A gains no less and costs no more on both axes, and they are not the same point. A strict partial order."""
    return a != b and a[0] >= b[0] and a[1] <= b[1] and a[2] <= b[2]


def non_dominated(items: Iterable[T], axes: Callable[[T], Axes]) -> list[T]:
    """The items that no other dominates, in their order."""
    items = list(items)
    points = [axes(item) for item in items]
    return [
        item
        for item, mine in zip(items, points, strict=True)
        if not any(dominates(other, mine) for other in points)
    ]


@dataclass(frozen=True)
class Reference:
    """The corner that every box shares. Fixed, so that rounds and runs can be compared."""

    delta: float = 0.0
    flops_per_syndrome: int = 10**9
    n_params: int = 10**7

    def box(self, delta: float, flops_per_syndrome: float, n_params: float) -> Point:
        """Extent of a box along delta, decades of FLOPs and decades of parameters."""
        return (
            delta - self.delta,
            math.log10(self.flops_per_syndrome / max(flops_per_syndrome, 1)),
            math.log10(self.n_params / max(n_params, 1)),
        )


REFERENCE = Reference()


def volume(points: Iterable[Point]) -> float:
    """Exact volume of the union of the boxes from the origin to each point.

    Sweeps from the highest first coordinate down: between two neighbours the cross-section is the union of
    the rectangles seen so far.
    """
    inside = sorted((point for point in points if min(point) > 0), reverse=True)
    seen: list[tuple[float, float]] = []
    total = 0.0
    for i, (height, x, y) in enumerate(inside):
        insort(seen, (x, y))
        below = inside[i + 1][0] if i + 1 < len(inside) else 0.0
        if height > below:
            total += (height - below) * _area(seen)
    return total


def _area(rectangles: Sequence[tuple[float, float]]) -> float:
    """Area of the union of rectangles from the origin; sorted by rising first coordinate."""
    area = top = 0.0
    for i in range(len(rectangles) - 1, -1, -1):
        x, y = rectangles[i]
        if y > top:
            area += x * (y - top)
            top = y
    return area
