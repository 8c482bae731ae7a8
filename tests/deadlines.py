"""For tests of deadlines, whatever the speed of the machine: what must have happened before the deadline is waited for."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count


def ever_longer(first_s: float) -> Iterator[float]:
    """Deadlines to try one after the other, until one leaves enough time for what must come before it."""
    return (first_s * 2**n for n in count())
