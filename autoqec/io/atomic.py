"""Files that appear whole or not at all, whatever is killed when."""

from __future__ import annotations

import errno
import os
import stat
import tempfile
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path

from autoqec.io.crash_points import crash_point


def write_bytes(path: Path, data: bytes) -> None:
    """Replace `path` by `data`: temporary file in the same folder, fsync, rename, fsync of the folder.

    Only a regular file, or a link to one, is replaced: a rename would put a file in the place of /dev/null.
    """
    _check_replaceable(path)
    temporary = _written_beside(path, data)
    try:
        _rename(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    _sync_folder(path)


def write_text(path: Path, text: str) -> None:
    write_bytes(path, text.encode())


def write_together(files: Mapping[Path, bytes]) -> None:
    """Several files, all or none: if one cannot be written, what was there is there again.

    They are renamed in the order given once all are written. Killed in between, some are new and one may be missing: whoever reads
    them has to tell.
    """
    for path in files:
        _check_replaceable(path)
    with ExitStack() as scratch, ExitStack() as back:
        written: dict[Path, Path] = {}
        for path, data in files.items():
            written[path] = _written_beside(path, data)
            scratch.callback(written[path].unlink, missing_ok=True)
        *earlier, (last, last_written) = written.items()  # nothing can fail behind the last
        for path, temporary in earlier:
            if os.path.lexists(path):
                aside = temporary.with_suffix(".old")
                path.replace(aside)
                scratch.callback(aside.unlink, missing_ok=True)
                back.callback(aside.replace, path)
            else:
                back.callback(path.unlink, missing_ok=True)
            _rename(temporary, path)
        _rename(last_written, last)
        back.pop_all()
    for path in files:
        _sync_folder(path)


def _written_beside(path: Path, data: bytes) -> Path:
    crash_point(f"before writing {path.name}")
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        # tempfile takes dots by the letter, which behind a link is another folder.
        folder = os.path.realpath(path.parent)
        handle, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".tmp", dir=folder)
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from None  # nobody knows the temporary name
    temporary = Path(name)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        temporary.chmod(0o644)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    return temporary


def _rename(temporary: Path, path: Path) -> None:
    crash_point(f"before the rename to {path.name}")
    temporary.replace(path)


def _sync_folder(path: Path) -> None:
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
    crash_point(f"after writing {path.name}")


def _check_replaceable(path: Path) -> None:
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:  # or a link to nothing
        return
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, "Is a folder", str(path))
    if not stat.S_ISREG(mode):
        raise OSError(errno.EINVAL, "Is not a regular file", str(path))
