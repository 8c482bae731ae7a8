"""Files that someone else has written, or that stand where a file should be: read once, whole, within a limit."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from autoqec.errors import InputError


@contextmanager
def open_regular(
    path: str | Path, *, hint: str | None = None, where: str | None = None, links: bool = False
) -> Iterator[BinaryIO]:
    """A regular file, open for reading; folders, pipes and devices are refused without waiting for them.

    where: names the file in errors; by default its path. links: follows a symbolic link, for files that the user names.
    """
    where = os.fspath(path) if where is None else where
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | (0 if links else os.O_NOFOLLOW)
    try:
        handle = os.open(path, flags)
    except (OSError, ValueError) as error:
        raise InputError(_reason(error, links=links), where=where, hint=hint) from None
    mode = os.fstat(handle).st_mode
    if not stat.S_ISREG(mode):
        os.close(handle)
        raise InputError(
            "is a folder" if stat.S_ISDIR(mode) else "is not a regular file", where=where, hint=hint
        )
    with os.fdopen(handle, "rb") as file:
        yield file


def read_regular(
    path: str | Path, *, limit: int, hint: str | None = None, where: str | None = None, links: bool = False
) -> bytes:
    """The bytes of a regular file, read once; one of more than `limit` bytes is refused."""
    where = os.fspath(path) if where is None else where
    with open_regular(path, hint=hint, where=where, links=links) as file:
        try:
            there = max(
                os.fstat(file.fileno()).st_size, 1 << 16
            )  # memory for all that is asked for is taken at once
            data = file.read(min(limit, there) + 1)
        except OSError as error:
            raise InputError(f"cannot be read: {error.strerror or error}", where=where, hint=hint) from None
    if len(data) > limit:
        size = f"{limit >> 20} MiB" if limit > 1 << 20 else f"{limit} bytes"
        raise InputError(f"is larger than {size}", where=where, hint=hint)
    return data


def read_text(
    path: str | Path, *, limit: int, hint: str | None = None, where: str | None = None, links: bool = False
) -> str:
    """The text of a regular file in UTF-8, without its byte order mark."""
    where = os.fspath(path) if where is None else where
    return decoded(read_regular(path, limit=limit, hint=hint, where=where, links=links), where=where)


def is_there(path: Path) -> bool:
    """Whether something has this path; no also for a path that nothing can have."""
    try:
        return path.exists()
    except OSError:
        return False


def decoded(data: bytes, *, where: str) -> str:
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(
            f"is not a text file: byte {error.start} is not UTF-8",
            where=where,
            hint="save the file as UTF-8 text",
        ) from None


def _reason(error: Exception, *, links: bool) -> str:
    if isinstance(error, FileNotFoundError):
        return "no such file"
    if isinstance(error, OSError):
        if not links and error.errno == errno.ELOOP:
            return "is a symbolic link"
        if isinstance(error, IsADirectoryError):
            return "is a folder"
        return f"cannot be opened: {error.strerror or error}"
    return f"is not a path: {error}"  # a NUL, or half a character
