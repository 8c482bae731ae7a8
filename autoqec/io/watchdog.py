# ruff: noqa: PTH110, PTH123, PTH208
"""The watchdog between a process and a command that it runs: see `io.processes`, which starts this file as a program.

It starts before every command, so it imports nothing of AutoQEC, and of the library only what starts fast: no pathlib.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import threading

DEADLINE_CODE = 124
_SET_CHILD_SUBREAPER = 36


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


def stat_fields(pid: int) -> list[str]:
    """Fields of /proc/<pid>/stat from the state on. The name before them is in brackets and may hold anything, brackets too."""
    with open(f"/proc/{pid}/stat") as file:
        return file.read().rpartition(")")[2].split()


def _parents() -> list[tuple[int, int]]:
    if os.path.exists("/proc/self/stat"):
        pairs = []
        for name in os.listdir("/proc"):
            if name.isdecimal():
                with contextlib.suppress(OSError, ValueError):
                    pairs.append((int(name), int(stat_fields(int(name))[1])))
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

    def stop(signum: int, _: object) -> None:
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
