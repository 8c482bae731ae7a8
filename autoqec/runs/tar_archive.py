"""Tar archives that may come from anybody: only plain files, only inside the folder, only so many bytes."""

from __future__ import annotations

import gzip
import io
import tarfile
from collections.abc import Mapping
from contextlib import AbstractContextManager
from pathlib import Path, PurePosixPath
from typing import BinaryIO

from autoqec.errors import InputError
from autoqec.io.untrusted_file import open_regular

MAX_MEMBERS = 100_000
MAX_BYTES = 16 << 30


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
    """Extracts an archive into an empty folder.

    Raises:
        InputError: it is not an archive, or an entry is a link or a device, leads out of the folder, comes twice, or is more
            than a folder should hold. What was extracted before stays: the folder is the caller's to remove.
    """
    where = "archive" if isinstance(archive, bytes) else str(archive)
    total = 0
    seen: set[str] = set()
    try:
        with _source(archive) as source, tarfile.open(fileobj=source, mode="r|*") as tar:
            for entry in tar:
                path = PurePosixPath(entry.name)
                if entry.type in (tarfile.XGLTYPE, tarfile.XHDTYPE):
                    continue
                if path.is_absolute() or ".." in path.parts or "\\" in entry.name or not path.parts:
                    raise InputError(f"entry {entry.name[:120]!r} leads out of the folder", where=where)
                if entry.isdir():
                    continue
                if not entry.isfile():
                    raise InputError(f"entry {entry.name[:120]!r} is not a plain file", where=where)
                total += entry.size
                if total > MAX_BYTES or len(seen) >= MAX_MEMBERS:
                    raise InputError(
                        f"holds more than {MAX_BYTES >> 30} GiB or {MAX_MEMBERS} files", where=where
                    )
                if str(path) in seen:
                    raise InputError(f"entry {entry.name[:120]!r} comes twice", where=where)
                seen.add(str(path))
                _write(tar, entry, folder / path)
    except (tarfile.TarError, EOFError, OSError, gzip.BadGzipFile) as error:
        raise InputError(f"cannot be read: {error}", where=where) from error


def _source(archive: Path | bytes) -> AbstractContextManager[BinaryIO]:
    return io.BytesIO(archive) if isinstance(archive, bytes) else open_regular(archive, links=True)


def _write(tar: tarfile.TarFile, entry: tarfile.TarInfo, target: Path) -> None:
    content = tar.extractfile(entry)
    if content is None:
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    with target.open("xb") as file:
        while block := content.read(1 << 20):
            file.write(block)
