"""Compiled kernels for confined workers and for worktrees. Compiling takes longer than many verifications.

The installed package keeps its machine code where numba puts it; the verifier has a store of its own, `eval.kernel_store`.
A worker whose kernel sources are the same, byte by byte, starts with a copy, and shares a cache with nobody. Worktrees with the same sources share
one cache, which starts with what the installed package has compiled if its sources are the same, too.
"""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from collections.abc import Iterable
from pathlib import Path

from autoqec import layout
from autoqec.io.hashing import sha256_bytes, sha256_json

KERNELS = Path("autoqec", "decoders", "backends", "_kernels")


def installed_root() -> Path:
    """The folder that holds the `autoqec` package of this process."""
    return Path(__file__).resolve().parents[2]


def kernels_for(code: Path, cache: Path | None = None) -> list[tuple[str, Path]]:
    """(folder below numba's cache folder, file) for each compiled kernel that fits the code at `code`.

    cache: numba's cache folder to take them from, by default that of this process.
    """
    from numba import config
    from numba.core.caching import InTreeCacheLocator, UserWideCacheLocator

    ours, theirs = installed_root() / KERNELS, code / KERNELS
    if fingerprint(ours) != fingerprint(theirs):
        return []

    def inside(folder: Path) -> str:
        return str(InTreeCacheLocator.get_suitable_cache_subpath(str(folder / "__init__.py")))

    source = str(ours / "__init__.py")
    chosen = cache or (Path(config.CACHE_DIR) if config.CACHE_DIR else None)
    if chosen is not None:
        places = [chosen / inside(ours)]
    else:
        locators = (InTreeCacheLocator, UserWideCacheLocator)
        places = [Path(locator(kernels_for, source).get_cache_path()) for locator in locators]
    found = [_compiled(place) for place in places]
    return [(inside(theirs), file) for file in sorted(next((files for files in found if files), []))]


def copy_kernels(kernels: Iterable[tuple[str, Path]], cache: Path) -> None:
    """Puts compiled kernels where a process with the cache folder `cache` looks for them."""
    for place, file in kernels:
        (cache / place).mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, cache / place / file.name)


def share_kernels(worktree: Path) -> None:
    """Links the shared cache into a worktree, where numba looks for it."""
    folder = worktree / KERNELS
    if not folder.is_dir():
        return
    key = fingerprint(folder)
    cache = layout.kernel_cache(key)
    if not cache.is_dir():
        cache.parent.mkdir(parents=True, exist_ok=True)
        draft = Path(tempfile.mkdtemp(prefix=".draft-", dir=cache.parent))
        ours = installed_root() / KERNELS
        if fingerprint(ours) == key:
            for file in _compiled(ours / "__pycache__"):
                shutil.copyfile(file, draft / file.name)
        with contextlib.suppress(OSError):  # another process was faster
            draft.rename(cache)
        shutil.rmtree(draft, ignore_errors=True)
    link = folder / "__pycache__"
    if link.is_dir() and not link.is_symlink():
        shutil.rmtree(link)
    link.unlink(missing_ok=True)
    link.symlink_to(cache.resolve())


def _compiled(folder: Path) -> list[Path]:
    return [*folder.glob("*.nbi"), *folder.glob("*.nbc")]


def fingerprint(folder: Path) -> str:
    return sha256_json({path.name: sha256_bytes(path.read_bytes()) for path in folder.glob("*.py")})
