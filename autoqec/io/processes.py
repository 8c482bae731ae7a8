"""Child processes that end when they must, with all that they started.

`run` puts a watchdog between this process and the command. The watchdog ends the command and every descendant of it,
whatever session they moved to, when the deadline passes, when the command itself ends, and when the process that
called `run` ends: also if that one is killed. This file is the watchdog's program, too, and imports nothing of AutoQEC then.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

DEADLINE_CODE = 124
_SET_CHILD_SUBREAPER = 36


@dataclass(frozen=True)
class Ended:
    """How a command ended. code: its exit status, negative for a signal; after the deadline, that of the watchdog."""

    code: int
    stdout: bytes
    stderr: bytes
    past_deadline: bool


def watched(command: Sequence[str], deadline_s: float, *, open_input: bool = False) -> list[str]:
    """The command line of a watchdog over `command`. It also ends all of it when its standard input, a pipe, is closed.

    open_input: the command's own input stays open, and empty, for as long as the watchdog lives; else there is none.
    """
    words = [repr(deadline_s), "open" if open_input else "none"]
    return [sys.executable, "-I", "-S", str(Path(__file__).resolve()), *words, *command]


def run(
    command: Sequence[str],
    *,
    cwd: Path,
    environment: Mapping[str, str],
    deadline_s: float,
    guard: Path | None = None,
) -> Ended:
    """Runs a command to its end or to the deadline; nothing of it is alive afterwards.

    guard: a lock file that is held while anything of the command may be alive, so that whoever takes over from a killed
    caller can wait for it.
    """
    from autoqec.io.locks import locked

    with contextlib.ExitStack() as stack:
        handles: tuple[int, ...] = ()
        if guard is not None:
            handles = (stack.enter_context(locked(guard)),)
        process = subprocess.Popen(
            watched(command, deadline_s),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=cwd,
            env=dict(environment),
            pass_fds=handles,
            start_new_session=True,
        )
        outputs: dict[str, bytes] = {}
        readers = [
            threading.Thread(target=_drain, args=(pipe, name, outputs), daemon=True)
            for name, pipe in (("out", process.stdout), ("err", process.stderr))
        ]
        for reader in readers:
            reader.start()
        try:
            code = process.wait()
        except BaseException:
            process.stdin.close()  # type: ignore[union-attr]
            process.wait()
            raise
        for reader in readers:
            reader.join()
        process.stdin.close()  # type: ignore[union-attr]
    code = exit_status(code)
    return Ended(code, outputs["out"], outputs["err"], past_deadline=code == DEADLINE_CODE)


def exit_status(code: int) -> int:
    """Negative for a signal. A watchdog, as shells do, passes a death by signal on as 128 + signal."""
    return 128 - code if 128 < code < 160 else code


def _drain(pipe: object, name: str, outputs: dict[str, bytes]) -> None:
    outputs[name] = pipe.read()  # type: ignore[attr-defined]


def descendants(root: int) -> list[int]:
    """Process ids below `root`, from /proc or `ps`."""
    children: dict[int, list[int]] = {}
    for pid, parent in _parents():
        children.setdefault(parent, []).append(pid)
    found, waiting = [], [root]
    while waiting:
        for pid in children.get(waiting.pop(), []):
            found.append(pid)
            waiting.append(pid)
    return found


def tree(root: int) -> list[int]:
    """A process and all below it."""
    return [root, *descendants(root)]


def cpu_seconds(root: int) -> float:
    """CPU seconds of a process and all below it, those of threads that have ended included; 0 where there is no /proc."""
    ticks = 0
    with contextlib.suppress(OSError, ValueError, IndexError):
        for pid in tree(root):
            fields = _stat(pid)
            ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def thread_seconds(root: int) -> list[tuple[float, float]] | None:
    """Of each thread of a process and all below it: seconds on a core, and seconds that it was ready and waited for one.
    None where the kernel does not tell.
    """
    found = []
    try:
        for pid in tree(root):
            for task in Path(f"/proc/{pid}/task").iterdir():
                ran, waited, _ = (task / "schedstat").read_text().split()
                found.append((1e-9 * int(ran), 1e-9 * int(waited)))
    except (OSError, ValueError):
        return None
    return found


def is_open(path: Path) -> bool:
    """Whether a process of this user has the file open; False where there is no /proc."""
    for descriptor in Path("/proc").glob("[0-9]*/fd/*"):
        with contextlib.suppress(OSError):
            if descriptor.readlink() == path:
                return True
    return False


def _stat(pid: int) -> list[str]:
    """Fields of /proc/<pid>/stat from the state on. The name before them is in brackets and may hold anything, brackets too."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()


def _parents() -> list[tuple[int, int]]:
    proc = Path("/proc")
    if (proc / "self" / "stat").exists():
        pairs = []
        for entry in proc.iterdir():
            if entry.name.isdecimal():
                with contextlib.suppress(OSError, ValueError):
                    pairs.append((int(entry.name), int(_stat(int(entry.name))[1])))
        return pairs
    listing = subprocess.run(["ps", "-A", "-o", "pid=,ppid="], capture_output=True, text=True, check=True)
    return [(int(pid), int(parent)) for pid, parent in map(str.split, listing.stdout.splitlines())]


def _kill_descendants() -> None:
    """Until none is left: a process may start another while the list is read."""
    while True:
        alive = [pid for pid in descendants(os.getpid()) if pid != os.getpid()]
        for pid in alive:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        try:
            while os.waitpid(-1, 0 if alive else os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            pass
        if not alive:
            return


def _watch(deadline_s: float, stdin: str, command: list[str]) -> int:
    with contextlib.suppress(OSError, AttributeError):
        # Orphans of the command become children of the watchdog (Linux; elsewhere they are found while their parents live).
        ctypes.CDLL(None).prctl(_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    given = subprocess.PIPE if stdin == "open" else subprocess.DEVNULL
    process = subprocess.Popen(command, stdin=given, start_new_session=True)
    ended = threading.Event()

    def caller_is_gone() -> None:
        os.read(0, 1)
        if not ended.is_set():
            _kill_descendants()
            os._exit(DEADLINE_CODE)

    def stop(signum: int, _: FrameType | None) -> None:
        _kill_descendants()
        os._exit(128 + signum)

    for name in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(name, stop)
    threading.Thread(target=caller_is_gone, daemon=True).start()
    try:
        code = process.wait(timeout=deadline_s)
    except subprocess.TimeoutExpired:
        code = DEADLINE_CODE
    ended.set()
    _kill_descendants()
    return code if code >= 0 else 128 - code


if __name__ == "__main__":
    sys.exit(_watch(float(sys.argv[1]), sys.argv[2], sys.argv[3:]))
