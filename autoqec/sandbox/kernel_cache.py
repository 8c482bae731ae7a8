"""Compiled kernels for confined processes. Compiling takes longer than many verifications.

The installed package keeps its machine code where numba puts it, and no confined process writes there. One whose kernel
sources are the same, byte by byte, starts with a copy of it, and shares a cache with nobody.
"""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

from autoqec import layout
from autoqec.io import atomic
from autoqec.io.hashing import sha256_bytes, sha256_json
from autoqec.io.locks import locked
from autoqec.sandbox.installed import installed_root, python_path

_KERNELS = Path("autoqec", "decoders", "backends", "_kernels")
_WARM_S = 600.0


def ensure_compiled(warm: str = "autoqec.sandbox.warm", *words: str) -> None:
    """Has this package's kernels compiled, once per version of them. A failure only costs the time it would have saved.

    warm: the module, run with `words`, that uses them.
    """
    import numba

    sources = _fingerprint(installed_root() / _KERNELS)
    machine = [numba.__version__, sys.version, platform.machine()]
    marker = layout.compiled_kernels(sha256_json([sources, str(installed_root()), warm, *words, *machine]))
    if marker.exists():
        return
    with locked(marker.with_suffix(".lock")):
        if not marker.exists():
            done = subprocess.run(
                [sys.executable, "-P", "-m", warm, *words],
                capture_output=True,
                timeout=_WARM_S,
                check=False,
                cwd=installed_root(),
                env={**os.environ, **python_path(installed_root())},
            )
            atomic.write_text(marker, f"exit code {done.returncode}\n")


def kernels_for(code: Path) -> list[tuple[str, Path]]:
    """(folder below numba's cache folder, file) for each compiled kernel that fits the code at `code`."""
    from numba.core import config
    from numba.core.caching import InTreeCacheLocator, UserProvidedCacheLocator, UserWideCacheLocator

    ours, theirs = installed_root() / _KERNELS, code / _KERNELS
    if _fingerprint(ours) != _fingerprint(theirs):
        return []
    inside: str = InTreeCacheLocator.get_suitable_cache_subpath(str(theirs / "__init__.py"))
    source = str(ours / "__init__.py")
    chosen = [UserProvidedCacheLocator] if config.CACHE_DIR else []
    places = [
        locator(kernels_for, source).get_cache_path()
        for locator in (*chosen, InTreeCacheLocator, UserWideCacheLocator)
    ]
    found = [_compiled(Path(place)) for place in places]
    return [(inside, file) for file in sorted(next((files for files in found if files), []))]


def copy_kernels(kernels: Iterable[tuple[str, Path]], cache: Path) -> None:
    """Puts compiled kernels where a process with the cache folder `cache` looks for them."""
    for place, file in kernels:
        (cache / place).mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, cache / place / file.name)


def _compiled(folder: Path) -> list[Path]:
    return [*folder.glob("*.nbi"), *folder.glob("*.nbc")]


def _fingerprint(folder: Path) -> str:
    return sha256_json({path.name: sha256_bytes(path.read_bytes()) for path in folder.glob("*.py")})
