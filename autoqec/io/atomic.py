"""Files that appear whole or not at all, whatever is killed when."""

from __future__ import annotations

import errno
import os
import stat
import tempfile
from pathlib import Path

from autoqec.io.crash_points import crash_point


def write_bytes(path: Path, data: bytes) -> None:
    """Replace `path` by `data`: temporary file in the same folder, fsync, rename, fsync of the folder.

    Only a regular file, or a link to one, is replaced: a rename would put a file in the place of /dev/null.
    """
    _check_replaceable(path)
    crash_point(f"before writing {path.name}")
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        handle, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".tmp", dir=path.parent)
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from None  # nobody knows the temporary name
    temporary = Path(name)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        temporary.chmod(0o644)
        crash_point(f"before the rename to {path.name}")
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
    crash_point(f"after writing {path.name}")


def write_text(path: Path, text: str) -> None:
    write_bytes(path, text.encode())


def _check_replaceable(path: Path) -> None:
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:  # or a link to nothing
        return
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, "Is a folder", str(path))
    if not stat.S_ISREG(mode):
        raise OSError(errno.EINVAL, "Is not a regular file", str(path))
