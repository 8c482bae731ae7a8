"""Child processes that end when they must, with all that they started.

`run` puts a watchdog between this process and the command. The watchdog ends the command and every descendant of it,
whatever session they moved to, when the deadline passes, when the command itself ends, and when the process that
called `run` ends: also if that one is killed. Own code, not psutil, which is not there under `python -I -S`.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from autoqec.io import watchdog
from autoqec.io.watchdog import DEADLINE_CODE, stat_fields, tree


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
    return [sys.executable, "-I", "-S", str(Path(watchdog.__file__).resolve()), *words, *command]


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


def cpu_seconds(root: int) -> float:
    """CPU seconds of a process and all below it, those of threads that have ended included; 0 where there is no /proc."""
    ticks = 0
    with contextlib.suppress(OSError, ValueError, IndexError):
        for pid in tree(root):
            fields = stat_fields(pid)
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
