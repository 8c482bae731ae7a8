"""What holds for every test session: a cache folder of its own, so that nothing from earlier runs can make a test pass, and signals."""

import os
import signal
import sys
import tempfile
from pathlib import Path

import pytest

# As in the Makefile, for a pytest that is started by hand: test processes run side by side, and a test that forks must not
# leave threads behind that the child would wait for.
for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"):
    os.environ.setdefault(_name, "1")
sys.path.append(
    str(Path(__file__).parent)
)  # hostile_files and deadlines, which several packages' tests share


@pytest.fixture(scope="session", autouse=True)
def _own_cache(pytestconfig: pytest.Config) -> object:
    """The verifier's kernels are compiled once for a checkout: they are known by the hashes of their sources."""
    kernels = pytestconfig.rootpath / ".pytest_cache" / "autoqec-kernels"
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setenv("AUTOQEC_CACHE", folder)
        patch.setenv("AUTOQEC_KERNELS", str(kernels))
        patch.delenv("COLUMNS", raising=False)  # tables are as wide as they need, wherever the tests run
        yield


@pytest.fixture(scope="session", autouse=True)
def _children_can_be_interrupted() -> None:
    """A shell's background job ignores Ctrl-C, and so would every process that a test starts and interrupts."""
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
