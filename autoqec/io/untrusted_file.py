"""Files from a folder that someone else has written."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from autoqec.errors import InputError


def read_regular(path: Path, *, limit: int, hint: str | None = None) -> bytes:
    """The bytes of a regular file, read once; links, pipes and files beyond `limit` bytes are refused."""
    where = str(path)
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        reason = "is a symbolic link" if path.is_symlink() else f"cannot be opened: {error.strerror}"
        raise InputError(reason, where=where, hint=hint) from error
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise InputError("is not a regular file", where=where, hint=hint)
    with os.fdopen(handle, "rb") as file:
        data = file.read(limit + 1)
    if len(data) > limit:
        raise InputError(f"is larger than {limit >> 20} MiB", where=where, hint=hint)
    return data
