"""Compiled kernels for confined workers, which may not share a cache with anyone else.

Compiling the belief-propagation kernel takes longer than many verifications. The installed package keeps its machine code
where numba puts it; a worker whose kernel sources are the same, byte by byte, starts with a copy of it.
"""

from __future__ import annotations

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

_KERNELS = Path("autoqec", "decoders", "backends", "_kernels")
_WARM_S = 600.0


def installed_root() -> Path:
    """The folder that holds the `autoqec` package of this process."""
    return Path(__file__).resolve().parents[2]


def ensure_compiled() -> None:
    """Has this package's kernels compiled, once per version of them. A failure only costs the time it would have saved."""
    import numba

    sources = {name: sha256_bytes(data) for name, data in _sources(installed_root() / _KERNELS).items()}
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
    if _sources(ours) != _sources(theirs):
        return []
    inside: str = InTreeCacheLocator.get_suitable_cache_subpath(str(theirs / "__init__.py"))
    source = str(ours / "__init__.py")
    places = [
        locator(kernels_for, source).get_cache_path()
        for locator in (InTreeCacheLocator, UserWideCacheLocator)
    ]
    found = [[*Path(place).glob("*.nbi"), *Path(place).glob("*.nbc")] for place in places]
    return [(inside, file) for file in sorted(next((files for files in found if files), []))]


def copy_kernels(kernels: Iterable[tuple[str, Path]], cache: Path) -> None:
    """Puts compiled kernels where a process with the cache folder `cache` looks for them."""
    for place, file in kernels:
        (cache / place).mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, cache / place / file.name)


def _sources(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.glob("*.py")}
