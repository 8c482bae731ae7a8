"""Locks between processes, held by the kernel: a killed holder leaves none behind."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from autoqec.errors import AutoQECError


@contextmanager
def locked(path: str | Path, *, wait: bool = True) -> Iterator[int]:
    """Hold the lock file `path` while the block runs, alone among all processes and threads of the machine.

    The file is made if it is missing, holds the process id of its last holder, and is never removed: deleting
    a lock file would let two processes hold two files of one name. The lock is not re-entrant: a block that
    takes it twice waits for itself. With `wait=False` a lock that is held is an error that names the holder.
    Yields the descriptor: a child that is handed it keeps the lock should this process be killed.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(handle, 32, 0).decode(errors="replace").strip() or "unknown"
            raise AutoQECError(
                f"is locked by process {holder}", where=str(path), hint="wait until that process ends"
            ) from None
        os.ftruncate(handle, 0)
        os.pwrite(handle, f"{os.getpid()}\n".encode(), 0)
        try:
            yield handle
        finally:
            # explicitly: a child forked inside the block shares this handle and would keep the lock
            fcntl.flock(handle, fcntl.LOCK_UN)
    finally:
        os.close(handle)


def is_held(path: str | Path) -> bool:
    """Whether a process holds the lock file `path`. Neither makes the file nor keeps the lock."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(handle)
    return False
