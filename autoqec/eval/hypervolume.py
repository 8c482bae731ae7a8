"""Hypervolume of a front: one number for how much its members gain and how cheap they are, together.

A member covers the box between it and the reference point: its gain in LER, times the decades of FLOPs, times
the decades of parameters by which it is cheaper than the reference. The hypervolume is the volume of the
union of the boxes, in units of LER x decades^2. Costs below 1 count as 1. A member beyond the reference
covers nothing.
"""

from __future__ import annotations

import math
from bisect import insort
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from autoqec.eval.front_schema import ParetoRow

Point = tuple[float, float, float]


@dataclass(frozen=True)
class Reference:
    """The corner that every box shares. Fixed, so that rounds and runs can be compared."""

    delta: float = 0.0
    flops_per_syndrome: int = 10**9
    n_params: int = 10**7

    def point(self, row: ParetoRow) -> Point:
        return self.box(row.delta_vs_baseline_holdout, row.flops_per_syndrome, row.n_params)

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


def hypervolume(rows: Iterable[ParetoRow], reference: Reference = REFERENCE) -> float:
    return volume(reference.point(row) for row in rows)


def hypervolume_by_round(
    rows: Sequence[ParetoRow], reference: Reference = REFERENCE
) -> list[tuple[int, float]]:
    """The hypervolume after each round. Give dominated rows as well: they counted in their time."""
    rounds = sorted({row.round for row in rows})
    return [(last, hypervolume((row for row in rows if row.round <= last), reference)) for last in rounds]
