"""Whose code this process runs, and whether another folder holds the same."""

from __future__ import annotations

import os
import site
from collections.abc import Sequence
from pathlib import Path

_PACKAGES = ("autoqec", "cli")


def installed_root() -> Path:
    """The folder that holds the `autoqec` package of this process."""
    return Path(__file__).resolve().parents[2]


def python_path(root: Path) -> dict[str, str]:
    """The variable that has Python find the package in `root`, unless it does anyway: site-packages in front of the standard
    library could shadow parts of it."""
    return {} if str(root) in site.getsitepackages() else {"PYTHONPATH": str(root)}


def is_same_package(root: Path, packages: Sequence[str] = _PACKAGES) -> bool:
    """Whether the `packages`, or parts of them, in `root` are, file by file and byte by byte, those that this process runs.

    Links, and anything else that is not a plain file, are not the same. What Python itself writes into `__pycache__` is not
    looked at: whoever finds two packages the same runs the installed one.
    """
    ours = installed_root()
    for package in packages:
        wanted, found = _files(ours / package), _files(root / package)
        if wanted is None or found is None or wanted.keys() != found.keys():
            return False
        if any(wanted[name].read_bytes() != found[name].read_bytes() for name in wanted):
            return False
    return True


def _files(folder: Path) -> dict[str, Path] | None:
    """By name, a single file by none; None if something in it is not a plain file."""
    if folder.is_file() and not folder.is_symlink():
        return {"": folder}
    if folder.is_symlink() or not folder.is_dir():
        return None
    files = {}
    waiting = [folder]
    while waiting:
        with os.scandir(waiting.pop()) as entries:
            for entry in entries:
                path = Path(entry.path)
                if entry.is_dir(follow_symlinks=False):
                    waiting += [] if entry.name == "__pycache__" else [path]
                elif entry.is_file(follow_symlinks=False):
                    files[path.relative_to(folder).as_posix()] = path
                else:
                    return None
    return files
