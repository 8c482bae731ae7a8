"""Removing what someone else has made."""

from __future__ import annotations

import contextlib
import os
import secrets
import stat
from pathlib import Path


def remove_tree(path: Path) -> None:
    """Removes a file, a link or a folder with all in it, also if it was made read-only or nested deeper than a path may be
    long. Links are removed, not followed; what is not there is no error.
    """
    if path.is_symlink() or not path.is_dir():
        path.unlink(missing_ok=True)
        return
    with contextlib.suppress(OSError):
        path.parent.chmod(path.parent.stat().st_mode | stat.S_IRWXU)
    token, count = secrets.token_hex(8), 0
    waiting = [path]
    while waiting:
        folder = waiting[-1]
        folder.chmod(stat.S_IRWXU)
        below = []
        with os.scandir(folder) as entries:
            for entry in entries:
                if not entry.is_dir(follow_symlinks=False):
                    Path(entry.path).unlink()
                    continue
                inner = Path(entry.path)
                if folder != path:  # moved up, so that no name gets longer than it is
                    count += 1
                    inner.chmod(stat.S_IRWXU)
                    inner = inner.rename(path / f"{token}-{count}")
                below.append(inner)
        if below:
            waiting += below
        else:
            folder.rmdir()
            waiting.pop()
