"""What child processes learn of this process's environment. Each is given named variables only: keys and tokens have other names."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping

from autoqec.io.cores import COUNT

THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS", COUNT)
LIMITS = ("CUDA_VISIBLE_DEVICES", *THREADS)
"""Set by the user on threads, cores and GPUs."""

CHILD = (
    "PATH", "HOME", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "TMPDIR", "XDG_CACHE_HOME", "AUTOQEC_CACHE", "VIRTUAL_ENV",
    "CUDA_HOME", "LD_LIBRARY_PATH", "NUMBA_CACHE_DIR", *LIMITS,
)  # fmt: skip
"""For any child: where programs and caches are, the language, and the limits that the user set on threads and GPUs."""

NETWORK = (
    "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy",
    "SSL_CERT_FILE", "SSL_CERT_DIR", "NODE_EXTRA_CA_CERTS",
)  # fmt: skip
"""For programs that call a service."""

HOMES = ("AUTOQEC_HOME", "XDG_DATA_HOME")
"""Where the verifier keeps its secret. For processes of the installed package that have to hide it from others."""

GIT = ("PATH", "HOME", "TMPDIR", "XDG_CONFIG_HOME")
"""For git in the user's own repositories."""

ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
"""Keeps native libraries to one thread, where there are as many processes as cores."""


def kept(names: Iterable[str], environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Those of the variables that are set."""
    return {name: environ[name] for name in names if name in environ}


def child_environment(*names: str, **more: str) -> dict[str, str]:
    """The environment of a child: the variables of any child, those named besides, and `more` as given."""
    return {**kept((*CHILD, *names)), **more}
