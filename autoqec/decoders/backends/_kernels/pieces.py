"""What all kernels share: a batch of shots in pieces over threads, read-only views, a hash of sources.

The kernels release the interpreter lock and share nothing but their inputs, so any number of Python threads may
run batches at the same time; numba's own threading layers would not allow that everywhere.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from typing import Any, TypeVar

import numpy.typing as npt

from autoqec.errors import InputError
from autoqec.io.cores import available_cores

Result = TypeVar("Result")


def in_pieces(
    work: Callable[[int, int], Result], shots: int, threads: int | None, *, worth_a_thread: int
) -> list[Result]:
    """[work(start, stop), ...] over pieces of `shots`; `threads=None` takes one per available core. `work` must not call this again."""
    if threads is not None and threads < 1:
        raise InputError(
            f"threads is {threads}", where="threads", hint="give 1 or more, or None for all cores"
        )
    most = available_cores() if threads is None else threads
    threads = min(most, shots // worth_a_thread)
    if threads <= 1:
        return [work(0, shots)] if shots else []
    # Several pieces per thread, because shots differ in what they cost.
    pieces = min(4 * threads, shots // worth_a_thread)
    bounds = [shots * i // pieces for i in range(pieces + 1)]
    return list(_pool(most, os.getpid()).map(work, bounds[:-1], bounds[1:]))


@lru_cache(maxsize=4)
def _pool(threads: int, _process: int) -> ThreadPoolExecutor:
    """Threads that stay: starting sixteen takes as long as matching a hundred shots on them. A forked process has none of its parent's."""
    return ThreadPoolExecutor(threads)


def read_only(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """A read-only view: writable and read-only arrays are different types, and compile twice, to numba."""
    view = array.view()
    view.flags.writeable = False
    return view


def sources_of(*patterns: str) -> str:
    """Hash of the kernel files of these names.

    numba's disk cache notices changes of the compiled function's own file only. A compiled function that reads this
    hash from its closure is compiled again when one of those files changes.
    """
    files = sorted(path for pattern in patterns for path in Path(__file__).parent.glob(pattern))
    return sha256(b"".join(path.read_bytes() for path in files)).hexdigest()
