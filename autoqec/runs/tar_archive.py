"""Tar archives that may come from anybody: only plain files, only inside the folder, only so many bytes."""

from __future__ import annotations

import gzip
import io
import tarfile
import zlib
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path, PurePosixPath
from typing import IO

from autoqec.errors import InputError
from autoqec.io.untrusted_file import open_regular
from autoqec.sandbox.wire import one_line

MAX_MEMBERS = 100_000
MAX_BYTES = 16 << 30
_MAX_READ = 4 << 20
_MAX_NAME = 1000
_GZIP = b"\x1f\x8b"
_TOO_MUCH = f"holds more than {MAX_BYTES >> 30} GiB or {MAX_MEMBERS} entries"


def pack(target: Path, files: Mapping[str, Path]) -> None:
    """Writes a .tar.gz of files by their names in it. The same files give the same archive, byte by byte."""
    with (
        target.open("wb") as raw,
        gzip.GzipFile(filename="", mode="wb", fileobj=raw, mtime=0, compresslevel=6) as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as archive,
    ):
        for name, path in sorted(files.items()):
            entry = tarfile.TarInfo(name)
            entry.size = path.stat().st_size
            entry.mode = 0o644
            with path.open("rb") as content:
                archive.addfile(entry, content)


def unpack(archive: Path | bytes, folder: Path) -> None:
    """Extracts an archive, plain or gzipped, into an empty folder.

    Raises:
        InputError: it is not an archive, or an entry is a link or a device, leads out of the folder, comes twice, or is more
            than a folder should hold. What was extracted before stays: the folder is the caller's to remove.
    """
    where = "archive" if isinstance(archive, bytes) else str(archive)
    try:
        with ExitStack() as stack:
            source = stack.enter_context(
                io.BytesIO(archive) if isinstance(archive, bytes) else open_regular(archive, links=True)
            )
            is_packed = source.read(2) == _GZIP
            source.seek(0)
            packed = stack.enter_context(gzip.GzipFile(fileobj=source, mode="rb")) if is_packed else source
            tar = stack.enter_context(tarfile.TarFile(fileobj=_Bounded(packed, where), mode="r"))  # type: ignore[arg-type]
            _extract(tar, folder, where)
    except (tarfile.TarError, zlib.error, EOFError, OSError, ValueError, RecursionError) as error:
        raise InputError(f"cannot be read: {one_line(str(error))}", where=where) from error


class _Bounded:
    """What tarfile reads from. A header says how long it is, and tarfile would read as much at once."""

    def __init__(self, file: IO[bytes] | gzip.GzipFile, where: str) -> None:
        self._file, self._where = file, where
        self.seek, self.tell = file.seek, file.tell

    def read(self, size: int = -1) -> bytes:
        if not 0 <= size <= _MAX_READ:
            raise InputError(f"a header of more than {_MAX_READ >> 20} MiB", where=self._where)
        return self._file.read(size)


def _extract(tar: tarfile.TarFile, folder: Path, where: str) -> None:
    total = 0
    seen: set[str] = set()
    for number, entry in enumerate(tar):
        path = PurePosixPath(entry.name)
        shown = ascii(entry.name[:120])
        if number >= MAX_MEMBERS:
            raise InputError(_TOO_MUCH, where=where)
        if path.is_absolute() or ".." in path.parts or "\\" in entry.name or not path.parts:
            raise InputError(f"entry {shown} leads out of the folder", where=where)
        if not entry.name.isprintable() or len(entry.name) > _MAX_NAME:
            raise InputError(f"entry {shown} has a name that no file should have", where=where)
        if entry.isdir():
            continue
        if entry.type not in (tarfile.REGTYPE, tarfile.AREGTYPE):
            raise InputError(f"entry {shown} is not a plain file", where=where)
        total += entry.size
        if total > MAX_BYTES or len(seen) >= MAX_MEMBERS:
            raise InputError(_TOO_MUCH, where=where)
        if str(path) in seen:
            raise InputError(f"entry {shown} comes twice", where=where)
        seen.add(str(path))
        _write(tar, entry, folder / path)


def _write(tar: tarfile.TarFile, entry: tarfile.TarInfo, target: Path) -> None:
    content = tar.extractfile(entry)
    if content is None:
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    left = entry.size
    with target.open("xb") as file:
        while left and (block := content.read(min(left, 1 << 20))):
            left -= len(block)
            file.write(block)
    if left:
        raise EOFError("it ends in the middle of a file")
