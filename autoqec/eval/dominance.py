"""The one rule by which rounds are better than others, on whatever shots their gain was measured.

Axes: gain (higher), FLOPs per syndrome (lower), parameters (lower).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

Axes = tuple[float, float, float]
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
