"""Compiled kernels for confined processes. Compiling takes longer than many verifications.

The installed package keeps its machine code where numba puts it, and no confined process writes there; the verifier has a store
of its own, `eval.kernel_store`. A process whose kernel sources are the same, byte by byte, starts with a copy, and shares a
cache with nobody.
"""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

from autoqec import layout
from autoqec.io import atomic
from autoqec.io.hashing import sha256_bytes, sha256_json
from autoqec.io.locks import locked
from autoqec.sandbox.installed import installed_root, python_path

KERNELS = Path("autoqec", "decoders", "backends", "_kernels")
_WARM_S = 600.0


def ensure_compiled(
    warm: str = "autoqec.sandbox.warm", *words: str, begun: Callable[[], None] | None = None
) -> None:
    """Has this package's kernels compiled, once per version of them. A failure only costs the time it would have saved.

    warm: the module, run with `words`, that uses them. begun: called first, if there is anything to compile.
    """
    import numba

    sources = fingerprint(installed_root() / KERNELS)
    machine = [numba.__version__, sys.version, platform.machine()]
    marker = layout.compiled_kernels(sha256_json([sources, str(installed_root()), warm, *words, *machine]))
    if marker.exists():
        return
    with locked(marker.with_suffix(".lock")):
        if not marker.exists():
            if begun is not None:
                begun()
            done = subprocess.run(
                [sys.executable, "-P", "-m", warm, *words],
                capture_output=True,
                timeout=_WARM_S,
                check=False,
                cwd=installed_root(),
                env={**os.environ, **python_path(installed_root())},
            )
            atomic.write_text(marker, f"exit code {done.returncode}\n")


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


def _compiled(folder: Path) -> list[Path]:
    return [*folder.glob("*.nbi"), *folder.glob("*.nbc")]


def fingerprint(folder: Path) -> str:
    return sha256_json({path.name: sha256_bytes(path.read_bytes()) for path in folder.glob("*.py")})
