"""Append-only JSON lines: a row is there whole or not at all, whoever writes at the same time and whatever is killed.

A row is one `os.write` on an O_APPEND descriptor, then fsync. A write that was cut off leaves a last line without its
newline: it is not a row, and it is removed before the next one is written. A broken line before the last was not left by
a crash, and is refused.
"""

from __future__ import annotations

import errno
import json
import os
import stat
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NoReturn

from pydantic import BaseModel

from autoqec.errors import AutoQECError, InputError
from autoqec.io import atomic
from autoqec.io.crash_points import crash_point
from autoqec.io.locks import locked
from autoqec.io.validate import validate_model

Row = dict[str, Any]


class JsonLines:
    """One file of rows. Reading again parses only what was appended since.

    model: what readers of the rows rely on; a row that breaks it is refused. Keys that it does not know are kept.
    """

    def __init__(self, path: Path, model: type[BaseModel] | None = None) -> None:
        self.path = path
        self._model = model
        self._lock = path.with_name(f".{path.name}.lock")
        self._rows: list[Row] = []
        self._parsed = 0

    def rows(self) -> list[Row]:
        """All whole rows. Needs no lock: a line that is being written is not a row yet."""
        try:
            with open(self.path, "rb", opener=_regular) as file:
                if file.seek(0, os.SEEK_END) < self._parsed:  # another file took its place
                    self._rows, self._parsed = [], 0
                file.seek(self._parsed)
                data = file.read()
        except FileNotFoundError:
            self._rows, self._parsed = [], 0
            return []
        except OSError as error:
            raise InputError(f"cannot be read: {error.strerror}", where=str(self.path)) from None
        whole = data[: data.rfind(b"\n") + 1]
        for line in whole.split(b"\n")[:-1]:
            self._rows.append(self._parse(line))
            self._parsed += len(line) + 1
        return list(self._rows)

    def append(self, row: Row, *, unless: Callable[[Sequence[Row]], bool] | None = None) -> bool:
        """Writes one row, unless the rows before it say otherwise; says whether it did.

        `unless` sees all rows while no other process can add one.
        """
        line = json.dumps(row, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode() + b"\n"
        try:
            with locked(self._lock):
                self._cut_torn_line()
                if unless is not None and unless(self.rows()):
                    return False
                crash_point(f"before appending to {self.path.name}")
                self._write(line)
                crash_point(f"after appending to {self.path.name}")
        except OSError as error:
            raise AutoQECError(
                f"cannot append a row: {error.strerror}",
                where=str(self.path),
                hint="free some space or make the folder writable, then run the same command again",
            ) from error
        return True

    def repair(self) -> bytes:
        """Removes a torn last line and returns what it held; empty if there was none."""
        if not self.path.exists():
            return b""
        with locked(self._lock):
            return self._cut_torn_line()

    def torn(self) -> bytes:
        """What `repair` would remove."""
        self.rows()  # a broken line further up is refused
        if not self.path.exists():
            return b""
        with self.path.open("rb") as file:
            file.seek(self._parsed)
            return file.read()

    def _cut_torn_line(self) -> bytes:
        torn = self.torn()
        if torn:
            crash_point(f"before cutting {self.path.name}")
            handle = os.open(self.path, os.O_WRONLY)
            try:
                os.ftruncate(handle, self._parsed)
                os.fsync(handle)
            finally:
                os.close(handle)
        return torn

    def _write(self, line: bytes) -> None:
        if not self.path.exists():
            atomic.write_bytes(self.path, b"")  # makes the name durable, too
        handle = os.open(self.path, os.O_WRONLY | os.O_APPEND)
        try:
            before = os.fstat(handle).st_size
            try:
                written = os.write(handle, line)
                if written != len(line):
                    raise OSError(errno.ENOSPC, f"only {written} of {len(line)} bytes fit on the disk")
                os.fsync(handle)
            except OSError:
                os.ftruncate(handle, before)
                raise
        finally:
            os.close(handle)

    def _parse(self, line: bytes) -> Row:
        try:
            row = json.loads(line, parse_constant=_no_constant)
        except (ValueError, RecursionError):
            row = None
        if not isinstance(row, dict):
            raise InputError(
                f"line {len(self._rows) + 1} is not a JSON object: {line[:60]!r}",
                where=str(self.path),
                hint="restore the file from a backup: a crash can damage its last line only",
            )
        if self._model is not None:
            validate_model(row, self._model, where=f"{self.path}: row {len(self._rows) + 1}")
        return row


def _regular(path: str, flags: int) -> int:
    """Opens without waiting for the other end of a pipe, which is refused."""
    handle = os.open(path, flags | os.O_NONBLOCK)
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise InputError("is not a regular file", where=path)
    return handle


def _no_constant(text: str) -> NoReturn:
    raise ValueError(f"{text} is not JSON")
