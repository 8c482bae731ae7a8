"""The checks of `autoqec doctor`. Libraries load in processes of their own: one that crashes is a finding."""

from __future__ import annotations

import importlib.metadata
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import autoqec
from autoqec import layout
from autoqec.io.cores import available_cores
from autoqec.sandbox import kinds

Status = Literal["ok", "warn", "fail"]

OLDEST_PYTHON = (3, 11)
GIB = 1 << 30
LITTLE_DISK = 2 * GIB
LITTLE_MEMORY = 4 * GIB
LOAD_TIMEOUT_S = 120.0


@dataclass(frozen=True)
class Check:
    """One line of the report; a `hint` goes with every status but "ok"."""

    name: str
    status: Status
    detail: str
    hint: str | None = None


@dataclass(frozen=True)
class Library:
    """A distribution, the module it is imported as, and how to get it."""

    name: str
    module: str
    install: str
    required: bool = False
    use: str = ""


_ACCELERATORS = """
import json, torch
count = torch.cuda.device_count() if torch.cuda.is_available() else 0
found = [torch.cuda.get_device_name(i) for i in range(count)]
print(json.dumps(found + (["Apple GPU (MPS)"] if torch.backends.mps.is_available() else [])))
"""

_REINSTALL = "make setup, or: pip install --force-reinstall {}"

TORCH = Library("torch", "torch", 'pip install "autoqec[learn]"', use="training predecoders")
LIBRARIES = (
    *(
        Library(name, name, _REINSTALL.format(name), required=True)
        for name in ("stim", "pymatching", "sinter", "ldpc", "numpy", "scipy", "numba", "pydantic")
    ),
    Library("safetensors", "safetensors", 'pip install "autoqec[learn]"', use="exporting weights"),
    Library("matplotlib", "matplotlib", 'pip install "autoqec[plot]"', use="figures"),
    Library("relay-bp", "relay_bp", "pip install relay-bp (x86_64 only)", use="the Relay-BP baseline"),
    Library(
        "tesseract-decoder",
        "tesseract_decoder",
        "pip install --pre tesseract-decoder (Python 3.12 or newer, x86_64 or macOS)",
        use="the Tesseract baseline",
    ),
    Library("onnx", "onnx", "pip install onnx", use="exporting models"),
    Library("mcp", "mcp", 'pip install "autoqec[mcp]"', use="serving tools to coding agents"),
    Library("optuna", "optuna", "pip install optuna", use="searching hyperparameters"),
)


def all_checks() -> list[Check]:
    return [
        *_python(),
        *_libraries(),
        *_hardware(),
        *_git(),
        *_sandbox(),
        *_folders(),
    ]


def _python() -> Iterator[Check]:
    yield Check("autoqec", "ok", autoqec.__version__)
    version = platform.python_version()
    if sys.version_info[:2] >= OLDEST_PYTHON:
        yield Check("python", "ok", f"{version} ({sys.executable})")
    else:
        wanted = ".".join(map(str, OLDEST_PYTHON))
        yield Check("python", "fail", version, f"install Python {wanted} or newer")


def _libraries() -> list[Check]:
    with ThreadPoolExecutor(max_workers=2) as pool:
        learning = pool.submit(check_torch_and_gpu)
        return [*pool.map(check_library, LIBRARIES), *learning.result()]


def check_library(library: Library) -> Check:
    """Whether a library is installed and loads."""
    return _load(library, f"import {library.module}")[0]


def check_torch_and_gpu() -> list[Check]:
    """Together, since torch takes seconds to load."""
    torch, printed = _load(TORCH, _ACCELERATORS)
    if torch.status != "ok":
        return [torch, Check("gpu", "ok", "not looked for: torch does not load")]
    names = ", ".join(json.loads(printed))
    return [torch, Check("gpu", "ok", names or "none that torch can use; AutoQEC runs on the CPU")]


def _load(library: Library, code: str) -> tuple[Check, str]:
    """The finding, and the last line that `code` printed."""
    trouble: Status = "fail" if library.required else "warn"
    try:
        version = importlib.metadata.version(library.name)
    except importlib.metadata.PackageNotFoundError:
        need = "AutoQEC needs it" if library.required else f"optional, for {library.use}"
        return Check(library.name, trouble, f"not installed ({need})", library.install), ""
    exit_code, printed = _run([sys.executable, "-c", code], timeout_s=LOAD_TIMEOUT_S)
    if exit_code != 0:
        detail = f"{version} is installed but does not load: {printed}"
        return Check(library.name, trouble, detail, library.install), ""
    return Check(library.name, "ok", version), printed


def _hardware() -> Iterator[Check]:
    yield Check(
        "cpu",
        "ok",
        f"{_cpu_model()}, {available_cores()} cores usable, {platform.machine()} {platform.system()}",
    )
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    little = memory < LITTLE_MEMORY
    hint = "train with smaller batches, or on a machine with more memory" if little else None
    yield Check("memory", "warn" if little else "ok", f"{memory / GIB:.1f} GiB", hint)


def _cpu_model() -> str:
    if sys.platform == "darwin":
        return _run(["sysctl", "-n", "machdep.cpu.brand_string"])[1]
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    named = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(named, platform.processor() or "unknown model")


def _git() -> Iterator[Check]:
    if not shutil.which("git"):
        yield Check("git", "fail", "not found", "install git (Debian and Ubuntu: apt-get install git)")
        return
    yield Check("git", "ok", _run(["git", "--version"])[1].removeprefix("git version "))
    code, name = _run(["git", "config", "user.name"])
    if code == 0 and name:
        yield Check("git user.name", "ok", "set")
    else:
        yield Check("git user.name", "warn", "not set", 'git config --global user.name "Your Name"')


def _sandbox() -> Iterator[Check]:
    reports = [kinds.probe(sandbox) for sandbox in kinds.SANDBOXES if sandbox.confines]
    holds = [report for report in reports if report.available]
    hint = "install bubblewrap (Debian and Ubuntu: apt-get install bubblewrap), or use Linux 5.13 or newer"
    if holds:
        yield Check("sandbox", "ok", f"untrusted code runs in: {holds[0].name}")
    else:
        yield Check("sandbox", "warn", "none: untrusted code is not confined, and reports say so", hint)
    for report in reports:
        state = "available" if report.available else "unavailable"
        # A weaker sandbox that is missing matters only when no stronger one holds.
        quiet = report.available or bool(holds)
        detail = f"{state}: {report.reason}"
        yield Check(f"sandbox {report.name}", "ok" if quiet else "warn", detail, None if quiet else hint)


def _folders() -> Iterator[Check]:
    cache = layout.cache_root()
    try:
        cache.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=cache):
            pass
        yield Check("cache", "ok", f"{cache} can be written")
        yield _disk("disk (cache)", cache)
    except OSError as error:
        hint = "set AUTOQEC_CACHE to a folder you can write; without one, nothing is reused between runs"
        yield Check("cache", "warn", f"{cache} cannot be written: {error.strerror}", hint)
    yield _disk("disk (here)", Path.cwd())


def _disk(name: str, folder: Path) -> Check:
    free = shutil.disk_usage(folder).free
    detail = f"{free / GIB:.1f} GiB free in {folder}"
    if free >= LITTLE_DISK:
        return Check(name, "ok", detail)
    return Check(name, "warn", detail, f"free some space: {LITTLE_DISK / GIB:.0f} GiB is enough to begin")


def _run(argv: Sequence[str], *, timeout_s: float = 30.0) -> tuple[int, str]:
    """Exit code and last line: of the output, or of the errors when it failed."""
    try:
        done = subprocess.run(
            argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=timeout_s, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return -1, str(error)
    lines = (done.stdout if done.returncode == 0 else done.stderr or done.stdout).strip().splitlines()
    if done.returncode < 0:
        lines = [f"killed by signal {-done.returncode}"]
    return done.returncode, lines[-1] if lines else f"exit code {done.returncode}" if done.returncode else ""
