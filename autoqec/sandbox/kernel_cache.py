"""Compiled kernels for confined workers and for worktrees. Compiling takes longer than many verifications.

The installed package keeps its machine code where numba puts it, and no round writes there. A worker whose kernel sources
are the same, byte by byte, starts with a copy of it, and shares a cache with nobody. Worktrees with the same sources share
one cache, which starts with what the installed package has compiled if its sources are the same, too.
"""

from __future__ import annotations

import contextlib
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

from autoqec import layout
from autoqec.io import atomic
from autoqec.io.hashing import sha256_bytes, sha256_json
from autoqec.io.locks import locked

_KERNELS = Path("autoqec", "decoders", "backends", "_kernels")
_WARM_S = 600.0


def installed_root() -> Path:
    """The folder that holds the `autoqec` package of this process."""
    return Path(__file__).resolve().parents[2]


def ensure_compiled() -> None:
    """Has this package's kernels compiled, once per version of them. A failure only costs the time it would have saved."""
    import numba

    sources = _fingerprint(installed_root() / _KERNELS)
    key = sha256_json([sources, str(installed_root()), numba.__version__, sys.version, platform.machine()])
    marker = layout.compiled_kernels(key)
    if marker.exists():
        return
    with locked(marker.with_suffix(".lock")):
        if not marker.exists():
            command = [sys.executable, "-c", "from autoqec.sandbox.warm import main; main()"]
            done = subprocess.run(
                command, capture_output=True, timeout=_WARM_S, check=False, cwd=installed_root()
            )
            atomic.write_text(marker, f"exit code {done.returncode}\n")


def kernels_for(code: Path) -> list[tuple[str, Path]]:
    """(folder below numba's cache folder, file) for each compiled kernel that fits the code at `code`."""
    from numba.core.caching import InTreeCacheLocator, UserWideCacheLocator

    ours, theirs = installed_root() / _KERNELS, code / _KERNELS
    if _fingerprint(ours) != _fingerprint(theirs):
        return []
    inside: str = InTreeCacheLocator.get_suitable_cache_subpath(str(theirs / "__init__.py"))
    source = str(ours / "__init__.py")
    places = [
        locator(kernels_for, source).get_cache_path()
        for locator in (InTreeCacheLocator, UserWideCacheLocator)
    ]
    found = [_compiled(Path(place)) for place in places]
    return [(inside, file) for file in sorted(next((files for files in found if files), []))]


def copy_kernels(kernels: Iterable[tuple[str, Path]], cache: Path) -> None:
    """Puts compiled kernels where a process with the cache folder `cache` looks for them."""
    for place, file in kernels:
        (cache / place).mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, cache / place / file.name)


def share_kernels(worktree: Path) -> None:
    """Links the shared cache into a worktree, where numba looks for it."""
    folder = worktree / _KERNELS
    if not folder.is_dir():
        return
    key = _fingerprint(folder)
    cache = layout.kernel_cache(key)
    if not cache.is_dir():
        cache.parent.mkdir(parents=True, exist_ok=True)
        draft = Path(tempfile.mkdtemp(prefix=".draft-", dir=cache.parent))
        ours = installed_root() / _KERNELS
        if _fingerprint(ours) == key:
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


def _fingerprint(folder: Path) -> str:
    return sha256_json({path.name: sha256_bytes(path.read_bytes()) for path in folder.glob("*.py")})
