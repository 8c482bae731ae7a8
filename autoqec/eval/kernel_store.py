"""The verifier's own compiled kernels, kept where no round can write, with the hash of every file under a mark of its own.

numba keeps machine code behind an index that is a pickle: whoever can write such a file has a program in every process that
loads it. The verifier therefore never loads what lies in the caches of the user or of the package. Its processes get a copy
of this store, file by file as recorded; what they compile besides is recorded, too.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import numba

from autoqec.errors import InputError
from autoqec.eval.secret import Secret
from autoqec.io import atomic
from autoqec.io.hashing import sha256_bytes, sha256_json
from autoqec.io.locks import locked
from autoqec.io.scratch import scratch_folder
from autoqec.io.untrusted_file import read_regular
from autoqec.layout import KernelDir
from autoqec.sandbox.installed import installed_root
from autoqec.sandbox.kernel_cache import KERNELS, fingerprint

COMPILING = "compiling kernels"
"""What a watcher is told."""
_PURPOSE = "compiled kernels"
_SEAL = "seal.json"
_MAX_FILE = 64 << 20
_WARM_S = 600.0


@dataclass(frozen=True)
class KernelStore:
    """The kernels of the installed package, as compiled by this numba on this machine."""

    files: KernelDir = field(default_factory=KernelDir)

    @cached_property
    def _secret(self) -> Secret:
        return Secret.of(self.files.secret)

    @contextmanager
    def opened(self, progress: Callable[[str, int, int], None] | None = None) -> Iterator[Path]:
        """A copy to work with, as numba's cache folder, for the time being. New kernels that are in it at the end are kept.

        The first use on a machine compiles those that predecoders run on. A failure only costs the time it would have saved.
        progress: called with (what, 0 or 1, 1) before and after.
        """
        with scratch_folder("kernels") as folder:
            if not (known := self._copy(folder)):
                if progress is not None:
                    progress(COMPILING, 0, 1)
                _warm(folder)
                self.keep(folder)
                if progress is not None:
                    progress(COMPILING, 1, 1)
                known = _files(folder)
            try:
                yield folder
            finally:
                if _files(folder).keys() - known.keys():
                    self.keep(folder)

    @property
    def _folder(self) -> Path:
        root = installed_root()
        stamps = sorted((path.name, path.stat().st_mtime_ns) for path in (root / KERNELS).glob("*.py"))
        facts = [
            fingerprint(root / KERNELS),
            stamps,
            str(root),
            numba.__version__,
            sys.version,
            platform.machine(),
        ]
        return self.files.version(sha256_json(facts))

    def _copy(self, folder: Path) -> dict[str, str]:
        """Copies what is recorded and as it was recorded; returns the hashes. Nothing, if anything differs."""
        try:
            seal = json.loads(read_regular(self._folder / _SEAL, limit=_MAX_FILE))
            files: dict[str, str] = seal["files"]
            if not self._secret.wrote(_PURPOSE, self._content(files), seal["mark"]):
                return {}
            data = {
                name: read_regular(self._folder / digest, limit=_MAX_FILE) for name, digest in files.items()
            }
        except (InputError, ValueError, KeyError, TypeError, RecursionError):
            return {}
        if any(sha256_bytes(content) != files[name] for name, content in data.items()):
            return {}
        for name, content in data.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(content)
        return files

    def keep(self, folder: Path) -> None:
        """Records the files of a working copy. Where another process has recorded others meanwhile, the larger set stays."""
        files = _files(folder)
        with locked(self.files.lock):
            self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            with scratch_folder("kernels-now") as now:
                if len(self._copy(now)) > len(files):
                    return
            for name, digest in files.items():
                atomic.write_bytes(self._folder / digest, (folder / name).read_bytes())
            seal = {"files": files, "mark": self._secret.mark(_PURPOSE, self._content(files))}
            atomic.write_text(self._folder / _SEAL, json.dumps(seal, indent=1) + "\n")

    def _content(self, files: dict[str, str]) -> str:
        return sha256_json([self._folder.name, files])


def _files(folder: Path) -> dict[str, str]:
    """Name and hash of every compiled kernel below a cache folder."""
    found = sorted(path for ending in ("nbi", "nbc") for path in folder.rglob(f"*.{ending}"))
    return {str(path.relative_to(folder)): sha256_bytes(path.read_bytes()) for path in found}


def _warm(folder: Path) -> None:
    """Compiles into `folder`. -P: nothing is imported from the working directory."""
    command = [sys.executable, "-P", "-c", "from autoqec.sandbox.warm import main; main()"]
    environment = {**os.environ, **trusted_environment(), "NUMBA_CACHE_DIR": str(folder)}
    subprocess.run(command, capture_output=True, timeout=_WARM_S, check=False, env=environment)


def trusted_environment() -> dict[str, str]:
    """For the verifier's own processes: the modules that this process would import."""
    return {"PYTHONPATH": os.pathsep.join(str(Path(entry).absolute()) for entry in sys.path)}
