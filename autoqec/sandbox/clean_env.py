"""The environment variables of a confined process: made from nothing, with all its caches in a folder of its own."""

from __future__ import annotations

import os
from pathlib import Path

from autoqec.io.child_env import LIMITS, kept
from autoqec.sandbox.kinds import shows


def clean_environment(scratch: Path, *, numba: Path) -> dict[str, str]:
    """scratch: the process's home. numba: where its compiled kernels are. The user's limits on threads and GPUs stay."""
    libraries = os.environ.get("LD_LIBRARY_PATH", "").split(os.pathsep)
    visible = [folder for folder in libraries if folder and shows(Path(folder))]
    return {
        **kept(LIMITS),
        **({"LD_LIBRARY_PATH": os.pathsep.join(visible)} if visible else {}),
        "LANG": "C.UTF-8",
        "LOGNAME": "confined",  # its user id has no name, which torch asks for
        "PATH": "/usr/bin:/bin",
        "HOME": str(scratch),
        "TMPDIR": str(scratch),
        "TORCHINDUCTOR_CACHE_DIR": str(scratch),
        "TRITON_CACHE_DIR": str(scratch),
        "NUMBA_CACHE_DIR": str(numba),
        "PYTHONNOUSERSITE": "1",
    }
