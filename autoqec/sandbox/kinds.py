"""The ways to confine a program on this machine, strongest first, and a probe that finds out which ones hold.

A sandbox turns a command into one that runs confined: it reads the system, the interpreter and `readable`,
writes `writable` alone, and reaches no network. Paths keep their names inside. What a sandbox claims is not
believed: `probe` runs a program in it that tries the forbidden acts, and looks from outside whether one went
through.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
import socket
import subprocess
import sys
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from autoqec.io.scratch import scratch_folder

_LAUNCHER = Path(__file__).with_name("_launch.py")

_SYSTEM = (
    "/usr",
    "/bin",
    "/sbin",
    "/lib",
    "/lib64",
    "/nix/store",
    "/etc/alternatives",
    "/etc/ld.so.cache",
    "/sys/devices/system/cpu",
)
_PROCESS = ("/proc/self", "/proc/cpuinfo", "/proc/meminfo")
_DEVICES = ("/dev/null", "/dev/zero", "/dev/random", "/dev/urandom")

DEFAULT_LIMITS: Mapping[str, int] = {"RLIMIT_CORE": 0, "RLIMIT_FSIZE": 1 << 30}
"""Bytes, by the names of the standard `resource` module."""

PROBE_TIMEOUT_S = 30.0


class Sandbox(ABC):
    """One way to confine a program."""

    name: ClassVar[str]
    confines: ClassVar[bool] = True
    reaches_gpus: ClassVar[bool] = True

    @abstractmethod
    def lacks(self) -> str | None:
        """What is missing for this sandbox to be tried at all, with a hint; None when nothing is."""

    @abstractmethod
    def wrap(
        self,
        argv: Sequence[str],
        *,
        readable: Sequence[Path] = (),
        writable: Sequence[Path] = (),
        hidden: Sequence[Path] = (),
        devices: Sequence[Path] = (),
        limits: Mapping[str, int] = DEFAULT_LIMITS,
        alone: bool = False,
    ) -> list[str]:
        """The command that runs `argv` confined; `argv[0]` is an absolute path.

        A folder inside a writable one is writable. The files of a `hidden` folder cannot be read though a folder
        around it can. `devices`: nodes, or folders of them, that can be used besides the usual harmless ones. With `alone` the program may
        start threads and no processes. When the walls cannot be put up, the command fails with
        a reason on stderr and `argv` does not run. Environment, deadline and process group are the caller's.
        """


def _interpreter() -> list[str]:
    """The folders this Python needs: the environment's and those of the installation behind it."""
    prefixes = [Path(sys.prefix), Path(sys.base_prefix), Path(sys.executable).resolve().parent.parent]
    named = dict.fromkeys(path for prefix in prefixes for path in (prefix, prefix.resolve()))
    # One that holds the user's home, as ~ does for ~/bin/python, would show all of it.
    return [str(path) for path in named if not Path.home().is_relative_to(path)]


def shows(path: Path) -> bool:
    """Whether every sandbox shows this path, as a part of the system or of the interpreter."""
    return any(path.resolve().is_relative_to(folder) for folder in (*_SYSTEM, *_interpreter()))


def _absolute(paths: Sequence[Path]) -> list[str]:
    """Each by the name it was given, under which the program looks for it, and by that of what it links to."""
    named = (name for path in paths for name in (os.path.normpath(path.absolute()), str(path.resolve())))
    return list(dict.fromkeys(named))


def _hidden(paths: Sequence[Path]) -> list[str]:
    """Each folder by every name under which the interpreter's folders show it."""
    names = {str(name) for path in paths for name in (path.absolute(), path.resolve())}
    for prefix in {Path(sys.prefix), Path(sys.base_prefix)}:
        for path in paths:
            if path.resolve().is_relative_to(prefix.resolve()):
                names.add(str(prefix / path.resolve().relative_to(prefix.resolve())))
    return sorted(name for name in names if Path(name).is_dir())


def _launch(
    walls: Sequence[str],
    argv: Sequence[str],
    *,
    readable: Sequence[str] = (),
    writable: Sequence[str] = (),
    hidden: Sequence[str] = (),
    devices: Sequence[str] = (),
    local_sockets: bool = False,
    limits: Mapping[str, int],
    alone: bool = False,
) -> list[str]:
    spec = {
        "walls": list(walls),
        "readable": list(readable),
        "writable": list(writable),
        "hidden": list(hidden),
        "devices": [*_DEVICES, *devices],
        "limits": dict(limits),
        "local_sockets": local_sockets,
        "alone": alone,
    }
    return [sys.executable, "-I", "-S", str(_LAUNCHER), json.dumps(spec), *argv]


class Bubblewrap(Sandbox):
    """The `bwrap` program builds the namespaces; resource limits and the system-call filter come on top."""

    name = "bubblewrap"

    def lacks(self) -> str | None:
        if sys.platform != "linux":
            return "Linux only"
        return (
            None if shutil.which("bwrap") else "not installed (Debian and Ubuntu: apt-get install bubblewrap)"
        )

    def wrap(
        self,
        argv: Sequence[str],
        *,
        readable: Sequence[Path] = (),
        writable: Sequence[Path] = (),
        hidden: Sequence[Path] = (),
        devices: Sequence[Path] = (),
        limits: Mapping[str, int] = DEFAULT_LIMITS,
        alone: bool = False,
    ) -> list[str]:
        command = [shutil.which("bwrap") or "bwrap", "--unshare-all", "--die-with-parent", "--new-session"]
        command += ["--cap-drop", "ALL", "--proc", "/proc", "--dev", "/dev"]
        binds = [(path, "--ro-bind-try") for path in (*_SYSTEM, *_interpreter(), str(_LAUNCHER))]
        binds += [(path, "--ro-bind") for path in _absolute(readable)]
        binds += [(path, "--bind") for path in _absolute(writable)]
        # Outer folders first: a later bind covers what an earlier one put at the same place or below.
        binds += [(path, "--dev-bind") for path in _absolute(devices)]
        for path, option in sorted(binds, key=lambda item: len(Path(item[0]).parts)):
            command += [option, path, path]
        covered = _hidden(hidden)
        for path in covered:
            command += ["--tmpfs", path]
        # What bubblewrap itself made is memory that the program could fill.
        for path in (*covered, "/dev", "/"):
            command += ["--remount-ro", path]
        filtered = _launch(
            ["rlimits", "seccomp"], argv, local_sockets=bool(devices), limits=limits, alone=alone
        )
        return [*command, "--", *filtered]


class Namespaces(Sandbox):
    """User, mount, process and network namespaces, where the kernel lets any user make them."""

    name = "namespaces"

    def lacks(self) -> str | None:
        return None if sys.platform == "linux" else "Linux only"

    def wrap(
        self,
        argv: Sequence[str],
        *,
        readable: Sequence[Path] = (),
        writable: Sequence[Path] = (),
        hidden: Sequence[Path] = (),
        devices: Sequence[Path] = (),
        limits: Mapping[str, int] = DEFAULT_LIMITS,
        alone: bool = False,
    ) -> list[str]:
        return _launch(
            ["namespaces", "rlimits", "seccomp"],
            argv,
            readable=[*_SYSTEM, *_interpreter(), *_absolute(readable)],
            writable=_absolute(writable),
            hidden=_hidden(hidden),
            devices=_absolute(devices),
            local_sockets=bool(devices),  # the driver of a graphics card opens one
            limits=limits,
            alone=alone,
        )


class Landlock(Sandbox):
    """Landlock for files, seccomp against sockets. Before Linux 6.12, signals still reach other processes.

    The driver of a graphics card wants a local socket, and those of others could be reached by one here: it is refused.
    """

    name = "landlock"
    reaches_gpus = False

    def lacks(self) -> str | None:
        return None if sys.platform == "linux" else "Linux only"

    def wrap(
        self,
        argv: Sequence[str],
        *,
        readable: Sequence[Path] = (),
        writable: Sequence[Path] = (),
        hidden: Sequence[Path] = (),
        devices: Sequence[Path] = (),
        limits: Mapping[str, int] = DEFAULT_LIMITS,
        alone: bool = False,
    ) -> list[str]:
        return _launch(
            ["rlimits", "landlock", "seccomp"],
            argv,
            readable=[*_SYSTEM, *_PROCESS, *_interpreter(), *_absolute(readable)],
            writable=_absolute(writable),
            hidden=_hidden(hidden),
            devices=_absolute(devices),
            limits=limits,
            alone=alone,
        )


class Unconfined(Sandbox):
    """No walls, resource limits only. What ran in it is to be stamped "unsandboxed"."""

    name = "none"
    confines = False

    def lacks(self) -> str | None:
        return None

    def wrap(
        self,
        argv: Sequence[str],
        *,
        readable: Sequence[Path] = (),
        writable: Sequence[Path] = (),
        hidden: Sequence[Path] = (),
        devices: Sequence[Path] = (),
        limits: Mapping[str, int] = DEFAULT_LIMITS,
        alone: bool = False,
    ) -> list[str]:
        return _launch(["rlimits"], argv, limits=limits)


SANDBOXES: tuple[Sandbox, ...] = (Bubblewrap(), Namespaces(), Landlock(), Unconfined())
"""Strongest first."""

_ATTEMPTS = """
import socket, sys
allowed, outside, secret, port, token = sys.argv[1:]
def attempt(act):
    try:
        act()
    except OSError as error:
        print(error)
attempt(lambda: open(allowed, "w").write(token))
attempt(lambda: open(outside, "w").write(token))
attempt(lambda: print(open(secret).read()))
attempt(lambda: socket.create_connection(("127.0.0.1", int(port)), timeout=5))
"""


@dataclass(frozen=True)
class SandboxReport:
    """What the probe found. `available`: the sandbox ran a program and no forbidden act went through."""

    name: str
    available: bool
    reason: str
    let_through: tuple[str, ...] = ()


def probe(sandbox: Sandbox) -> SandboxReport:
    """Try to write outside the allowed folder, read a planted secret and reach the network from `sandbox`."""
    if lacking := sandbox.lacks():
        return SandboxReport(sandbox.name, False, lacking)
    with scratch_folder("probe") as folder, socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        listener.setblocking(False)
        allowed, outside = folder / "allowed", folder / "outside"
        allowed.mkdir()
        outside.mkdir()
        token, secret = secrets.token_hex(16), secrets.token_hex(16)
        (outside / "secret").write_text(secret)
        arguments = [
            allowed / "written",
            outside / "written",
            outside / "secret",
            listener.getsockname()[1],
            token,
        ]
        argv = [sys.executable, "-I", "-S", "-c", _ATTEMPTS, *map(str, arguments)]
        try:
            done = subprocess.run(
                sandbox.wrap(argv, writable=[allowed]),
                cwd=allowed,
                env={"LANG": "C.UTF-8"},
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=PROBE_TIMEOUT_S,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            return SandboxReport(sandbox.name, False, str(error))
        written = allowed / "written"
        if done.returncode != 0 or not written.exists() or written.read_text() != token:
            lines = (done.stderr.strip() or done.stdout.strip()).splitlines()
            return SandboxReport(sandbox.name, False, lines[-1] if lines else f"exit code {done.returncode}")
        through = _went_through(outside / "written", secret in done.stdout, listener)
    if not sandbox.confines:
        return SandboxReport(sandbox.name, True, "resource limits only", through)
    if through:
        return SandboxReport(sandbox.name, False, f"does not prevent {', '.join(through)}", through)
    return SandboxReport(sandbox.name, True, "refused writing outside, reading a secret and the network")


def _went_through(outside: Path, secret_read: bool, listener: socket.socket) -> tuple[str, ...]:
    try:
        listener.accept()[0].close()
        connected = True
    except BlockingIOError:
        connected = False
    acts = {"writing outside": outside.exists(), "reading a secret": secret_read, "the network": connected}
    return tuple(name for name, happened in acts.items() if happened)


def strongest() -> Sandbox:
    """The strongest sandbox that works on this machine right now; `Unconfined` where none does."""
    return next(sandbox for sandbox in SANDBOXES if not sandbox.confines or probe(sandbox).available)
