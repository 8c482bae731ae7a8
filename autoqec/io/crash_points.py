"""Points at which a test can kill this process: crash safety is tested where the crash would be, not by sleeping.

`AUTOQEC_CRASH_AT=17` kills at the 17th point passed, `AUTOQEC_CRASH_AT="before git commit-tree"` at the first point of
that name. `AUTOQEC_CRASH_LOG=file` appends the name of every point passed. Children of AutoQEC are not given these variables.
"""

from __future__ import annotations

import os
import signal
from itertools import count
from pathlib import Path

_passed = count(1)


def restart() -> None:
    """Counts from one again: for a test that forks."""
    global _passed
    _passed = count(1)


def crash_point(name: str) -> None:
    """Kill this process here, as a power cut would, if the test asked for it; otherwise nothing."""
    wanted = os.environ.get("AUTOQEC_CRASH_AT")
    log = os.environ.get("AUTOQEC_CRASH_LOG")
    if wanted is None and log is None:
        return
    number = next(_passed)
    if log is not None:
        with Path(log).open("a") as file:
            file.write(f"{name}\n")
    if wanted in (str(number), name):
        os.kill(os.getpid(), signal.SIGKILL)
