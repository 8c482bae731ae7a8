"""Locks between processes, held by the kernel: a killed holder leaves none behind. Own code, not filelock: git and children inherit some of them."""

from __future__ import annotations

import errno
import fcntl
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from autoqec.errors import AutoQECError, InputError


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
    handle = _opened(path)
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


def _opened(path: Path) -> int:
    """The lock file, made if it is missing. The folder may be a stranger's: a link or a pipe in its place is refused."""
    try:
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK, 0o644)
    except OSError as error:
        if error.errno not in (errno.ELOOP, errno.EISDIR, errno.ENXIO):
            raise
        handle = None
    if handle is not None and stat.S_ISREG(os.fstat(handle).st_mode):
        return handle
    if handle is not None:
        os.close(handle)
    raise InputError(
        "is not a lock file", where=str(path), hint="remove it, unless it leads to something of yours"
    )


def is_held(path: str | Path) -> bool:
    """Whether a process holds the lock file `path`. Neither makes the file nor keeps the lock."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOFOLLOW)
    except OSError:
        return False
    try:
        if not stat.S_ISREG(os.fstat(handle).st_mode):  # the folder may be a stranger's
            return False
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(handle)
    return False
