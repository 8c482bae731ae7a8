"""How many cores this process may use, which can be fewer than the machine has."""

from __future__ import annotations

import os

COUNT = "PYTHON_CPU_COUNT"
"""The variable by which Python 3.13 and later are told; here for every version."""


def available_cores() -> int:
    told = os.environ.get(COUNT, "")
    if told.isdecimal() and int(told):
        return int(told)
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
