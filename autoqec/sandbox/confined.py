"""A confined process that answers frames: started clean, bounded in time and memory, killed whole."""

from __future__ import annotations

import contextlib
import fcntl
import importlib.util
import os
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy.typing as npt

from autoqec.envs import problem_arrays
from autoqec.errors import AutoQECError
from autoqec.io import processes
from autoqec.io.child_env import ONE_THREAD
from autoqec.io.scratch import scratch_folder
from autoqec.sandbox import wire
from autoqec.sandbox.clean_env import clean_environment
from autoqec.sandbox.kernel_cache import copy_kernels
from autoqec.sandbox.kinds import DEFAULT_LIMITS, Sandbox

_SERVER = Path(__file__).with_name("_serve.py")
_CENSUS = _SERVER.parents[1] / "decoders" / "flop_census.py"
_PIPE_BYTES = 1 << 20
_LEAST_EXCUSE_S = 0.1
_HIDDEN = ("stim", "sinter", "pymatching")
"""Packages that a model has no business with: what samples, and what decodes after it."""

LIMITS = {
    **DEFAULT_LIMITS,
    "RLIMIT_AS": 12 << 30,
    "RLIMIT_FSIZE": 64 << 20,
    "RLIMIT_NOFILE": 256,
    "RLIMIT_CPU": 4 * 3600,
}


_PATIENCE = 8.0
"""So many times longer a request may take on a machine that is busy with other things."""


class WorkerDied(AutoQECError):
    """The confined process ended, broke the protocol or ran past its deadline; it is gone now."""


class Refused(AutoQECError):
    """The confined process works and refuses: what it was asked for raised an error."""


class ConfinedProcess:
    """One server process behind `sandbox`. Requests are answered one at a time.

    code: folder that holds the `autoqec` package whose model code runs. kernels: compiled kernels for that code, as (folder
    below numba's cache, file). There is no place where the process can write. lifetime_s: for all requests together; request_s: for one.
    Time in which the process was ready and others had the cores is not counted.
    """

    def __init__(
        self,
        sandbox: Sandbox,
        code: Path,
        *,
        kernels: Sequence[tuple[str, Path]] = (),
        lifetime_s: float = 3600.0,
        request_s: float = 120.0,
    ) -> None:
        self.sandbox = sandbox
        self._request_s = request_s
        self._left = lifetime_s
        self._asked = self._excused = 0.0
        self._held = contextlib.ExitStack()
        self._scratch = self._held.enter_context(scratch_folder("worker"))
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 (without a name: nothing can be put in its place)
        self._process: subprocess.Popen[bytes] | None = None
        try:
            self._start(code, kernels)
        except BaseException:
            self.close()
            raise

    def _start(self, code: Path, kernels: Sequence[tuple[str, Path]]) -> None:
        cache = self._scratch / "numba"
        cache.mkdir()
        copy_kernels(kernels, cache)
        argv = [sys.executable, "-I", "-B", "-X", "utf8", str(_SERVER), str(code)]
        command = self.sandbox.wrap(
            argv,
            readable=[
                code / "autoqec",
                _SERVER.parent,
                Path(problem_arrays.__file__),
                _CENSUS,
                self._scratch,
            ],
            hidden=[folder for name in _HIDDEN if (folder := _package(name)) is not None],
            limits=LIMITS,
            alone=True,
        )
        environment = {**clean_environment(self._scratch, numba=cache), **ONE_THREAD}
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            cwd=self._scratch,
            env=environment,
            start_new_session=True,
        )
        for pipe in (self._process.stdin, self._process.stdout):
            os.set_blocking(pipe.fileno(), False)  # type: ignore[union-attr]
            with contextlib.suppress(OSError, AttributeError):
                fcntl.fcntl(pipe.fileno(), fcntl.F_SETPIPE_SZ, _PIPE_BYTES)  # type: ignore[union-attr]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def request(self, kind: bytes, payload: bytes, *, at_most: int) -> bytearray:
        """The answer to a request, of any length up to `at_most`."""
        with self._clock():
            length = self._ask(kind, payload)
            if length > at_most:
                raise self._dead(f"answered {length} bytes where at most {at_most} are allowed")
            answer = bytearray(length)
            self._receive(memoryview(answer))
        return answer

    def request_into(self, kind: bytes, payload: bytes, out: npt.NDArray[Any]) -> None:
        """The answer to a request that must fill `out` to the byte."""
        with self._clock():
            length = self._ask(kind, payload)
            if length != out.nbytes:
                raise self._dead(f"answered {length} bytes where {out.nbytes} are due")
            self._receive(memoryview(out.data).cast("B"))

    @contextlib.contextmanager
    def _clock(self) -> Iterator[None]:
        """One request: it ends by its own deadline or by that of the whole process, and counts against the latter."""
        self._since, allowed = time.monotonic(), min(self._request_s, self._left)
        self._until, self._grace = self._since + allowed, _PATIENCE * allowed
        try:
            yield
        finally:
            took, granted = time.monotonic() - self._since, _PATIENCE * allowed - self._grace
            self._asked += took
            self._left -= max(took - granted, 0.0)

    def cpu_seconds(self) -> float | None:
        """CPU time that the process has used so far, as the kernel counts it; None where it does not say. The sum over its
        threads is the finer one, and lacks those that have ended; it fails where one ends while it is made.
        """
        root = self._live().pid
        known = processes.thread_seconds(root) or ()
        return max(sum(ran for ran, _ in known), processes.cpu_seconds(root)) or None

    def _excuse(self) -> float:
        """Seconds more for a request whose time is up: those for which others had the cores, once each."""
        elapsed = self._asked + time.monotonic() - self._since
        root = self._live().pid
        lost = lost_to_others(processes.thread_seconds(root) or (), elapsed, processes.cpu_seconds(root))
        more = min(lost - self._excused, self._grace)
        self._excused = max(lost, self._excused)
        self._grace -= max(more, 0.0)
        return more if more > _LEAST_EXCUSE_S else 0.0

    def _ask(self, kind: bytes, payload: bytes) -> int:
        """Sends a request and reads the head of its reply: the length of the answer. A refusal is raised."""
        self._send(memoryview(wire.header(kind, len(payload))))
        self._send(memoryview(payload))
        head = bytearray(wire.HEADER.size)
        self._receive(memoryview(head))
        answer, length = wire.HEADER.unpack(head)
        if bytes([answer]) == wire.ANSWER:
            return int(length)
        if bytes([answer]) != wire.REFUSAL or length > wire.MAX_TEXT:
            raise self._dead("broke the protocol")
        text = bytearray(length)
        self._receive(memoryview(text))
        raise Refused(wire.one_line(text.decode(errors="replace")), where="the model")

    def _send(self, data: memoryview) -> None:
        pipe = self._live().stdin.fileno()  # type: ignore[union-attr]
        while data:
            self._wait(pipe, select.POLLOUT)
            try:
                data = data[os.write(pipe, data) :]
            except BrokenPipeError:
                raise self._dead("ended") from None
            except BlockingIOError:
                continue

    def _receive(self, into: memoryview) -> None:
        pipe = self._live().stdout.fileno()  # type: ignore[union-attr]
        while into:
            self._wait(pipe, select.POLLIN)
            try:
                count = os.readv(pipe, [into])
            except BlockingIOError:
                continue
            if count == 0:
                raise self._dead("ended")
            into = into[count:]

    def _wait(self, pipe: int, event: int) -> None:
        poll = select.poll()
        poll.register(pipe, event)
        while (left := self._until - time.monotonic()) <= 0 or not poll.poll(1000 * left):
            if not (more := self._excuse()):
                raise self._dead("ran past its deadline")
            self._until += more

    def _live(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            raise WorkerDied("was closed", where="the model's process")
        return self._process

    def _dead(self, how: str) -> WorkerDied:
        last = ""
        with contextlib.suppress(OSError, ValueError):
            self._errors.seek(max(0, self._errors.seek(0, os.SEEK_END) - 4000))
            lines = self._errors.read().decode(errors="replace").strip().splitlines()
            last = f": {wire.one_line(lines[-1])}" if lines else ""
        self.close()
        return WorkerDied(f"{how}{last}", where="the model's process")

    def close(self) -> None:
        """Kills the process with all it has started, and removes its scratch folder."""
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, signal.SIGKILL)
            for pipe in (self._process.stdin, self._process.stdout):
                if pipe is not None:
                    with contextlib.suppress(BrokenPipeError):
                        pipe.close()
            self._process.wait()
            self._process = None
        self._errors.close()
        self._held.close()


def lost_to_others(threads: Iterable[tuple[float, float]], elapsed: float, ran: float) -> float:
    """Seconds of `elapsed` for which a process was ready and others had the cores.

    threads: of each, seconds on a core and seconds that it waited for one; ran: CPU seconds of all. Threads that wait for
    each other are not an excuse: a process lost no more time than it did not run.
    """
    return max(0.0, min(max((waited for _, waited in threads), default=0.0), elapsed - ran))


def _package(name: str) -> Path | None:
    found = importlib.util.find_spec(name)
    return Path(found.origin).parent if found is not None and found.origin is not None else None
