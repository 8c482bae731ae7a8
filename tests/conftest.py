"""What holds for every test session: a cache folder of its own, so that nothing from earlier runs can make a test pass, and signals."""

import os
import signal
import sys
import tempfile
from pathlib import Path

import pytest

from autoqec.io.child_env import THREADS

# As in the Makefile, for a pytest that is started by hand: test processes run side by side, and a test that forks must not
# leave threads behind that the child would wait for.
for _name in THREADS:
    os.environ.setdefault(_name, "1")
sys.path.append(
    str(Path(__file__).parent)
)  # hostile_files and deadlines, which several packages' tests share


@pytest.fixture(scope="session", autouse=True)
def _own_cache(pytestconfig: pytest.Config) -> object:
    """Kernels alone are kept, and compiled once for a checkout and all its test processes: the hashes of their sources name them."""
    kept = pytestconfig.rootpath / ".pytest_cache"
    compiled = kept / "autoqec-compiled"
    compiled.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        (Path(folder) / "compiled").symlink_to(compiled)
        patch.setenv("AUTOQEC_CACHE", folder)
        patch.setenv("AUTOQEC_KERNELS", str(kept / "autoqec-kernels"))
        patch.delenv("COLUMNS", raising=False)  # tables are as wide as they need, wherever the tests run
        _fill_kernel_store(kept)
        yield


def _fill_kernel_store(kept: Path) -> None:
    """The verifier would compile all over again what the package has: it trusts nobody's cache. Here both are of this checkout, and the
    store is given all that earlier sessions have compiled."""
    from autoqec.eval.kernel_store import KernelStore
    from autoqec.io.locks import locked
    from autoqec.sandbox.installed import installed_root
    from autoqec.sandbox.kernel_cache import copy_kernels, ensure_compiled, kernels_for

    with locked(kept / "autoqec-filling.lock"), tempfile.TemporaryDirectory() as folder:
        ensure_compiled()
        copy_kernels(kernels_for(installed_root()), Path(folder))
        KernelStore().keep(Path(folder))


@pytest.fixture(scope="session", autouse=True)
def _children_can_be_interrupted() -> None:
    """A shell's background job ignores Ctrl-C, and so would every process that a test starts and interrupts."""
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
