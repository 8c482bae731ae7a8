"""Walks up the fork graph."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

T = TypeVar("T")


def ancestors(starts: Iterable[T], parents: Callable[[T], Iterable[T]]) -> set[T]:
    """All that can be reached from `starts` by `parents`, without them unless one is above another. Cycles end."""
    found: set[T] = set()
    waiting = list(starts)
    while waiting:
        new = set(parents(waiting.pop())) - found
        found |= new
        waiting += new
    return found
