"""For tests of deadlines, whatever the speed of the machine: what must have happened before the deadline is waited for."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from itertools import count


def ever_longer(first_s: float) -> Iterator[float]:
    """Deadlines to try one after the other, until one leaves enough time for what must come before it."""
    return (first_s * 2**n for n in count())


def soon(condition: Callable[[], object], *, within_s: float = 600.0) -> None:
    """Waits for what another process does; an error if it never happens."""
    end = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.05)
