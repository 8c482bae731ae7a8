"""Temporary folders that end with their process: what a killed one left is removed by the next that makes its own."""

from __future__ import annotations

import contextlib
import fcntl
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from autoqec.io.removal import remove_tree

_PREFIX = "autoqec-"
_LOCK = ".autoqec-scratch"
"""Locked by the kernel while the folder's process lives, in whatever container."""


@contextmanager
def scratch_folder(kind: str) -> Iterator[Path]:
    """An empty folder for the block, in the system's temporary one."""
    _sweep(Path(tempfile.gettempdir()))
    folder = Path(tempfile.mkdtemp(prefix=f"{_PREFIX}{kind}-"))
    draft = folder / f"{_LOCK}.draft"
    handle = os.open(draft, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        draft.rename(folder / _LOCK)  # nobody can find it before it is locked
        yield folder
    finally:
        with contextlib.suppress(OSError):
            remove_tree(folder)
        os.close(handle)


def _sweep(root: Path) -> None:
    for lock in root.glob(f"{_PREFIX}*/{_LOCK}"):
        with contextlib.suppress(OSError):  # its process lives, or another one sweeps as well
            if lock.parent.lstat().st_uid != os.getuid():
                continue
            handle = os.open(lock, os.O_RDWR | os.O_NOFOLLOW)
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if not lock.parent.is_symlink():
                    remove_tree(lock.parent)
            finally:
                os.close(handle)
