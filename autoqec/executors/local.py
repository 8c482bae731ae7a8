"""Lanes on this machine, on pipes alone. They need neither sockets nor semaphores, so they also work behind the walls of a sandbox.

One process imports the worker and forks the lanes: plain forks of a threaded parent can deadlock, and every process by itself would
import for seconds. A lane ends when its pipe does, also in the middle of its work, whatever became of the process that started it.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import select
import signal
import subprocess
import sys
import threading
from multiprocessing.connection import Connection, wait
from pathlib import Path

from autoqec.executors.protocol import MOST_LOSSES, Outbox, Program, Worker
from autoqec.io.cores import available_cores
from autoqec.io.scratch import scratch_folder

_SERVER = "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN); from autoqec.executors.local import serve; serve()"
_TELL, _ASK = b"t", b"a"
_LARGEST = 1 << 30
_CLOSE_S = 10.0


class LocalExecutor:
    """cores: by default all that this process may use."""

    name = "local"

    def __init__(self, cores: int | None = None) -> None:
        self.cores = cores or available_cores()

    def share(self, count: int) -> tuple[float, float]:
        return max(1, self.cores // count), 0.0

    def check(self, cpus: float, gpus: float) -> None:
        """This machine does not count them."""

    def lanes(self, program: Program, count: int) -> LocalLanes:
        return LocalLanes(program, count)


class LocalLanes:
    """A lost lane is not replaced while others are left; when none is, all start again."""

    def __init__(self, program: Program, count: int, *, most_losses: int = MOST_LOSSES) -> None:
        self._held = contextlib.ExitStack()
        self._target, self._count = program.target, count
        self._told: bytes | None = None
        self._busy: dict[Connection, int] = {}
        self._outbox = Outbox(most_losses)
        try:
            self._variables = self._environment(program)
            self._start()
        except BaseException:
            self._held.close()
            raise

    def _start(self) -> None:
        jobs, answers = ([os.pipe() for _ in range(self._count)] for _ in range(2))
        theirs = [end for (job, _), (_, answer) in zip(jobs, answers, strict=True) for end in (job, answer)]
        try:
            self._server = subprocess.Popen(
                [sys.executable, "-P", "-c", _SERVER, self._target, *map(str, theirs)],
                stdin=subprocess.DEVNULL,
                pass_fds=theirs,
                env=self._variables,
            )
        finally:
            for end in theirs:
                os.close(end)
        self._jobs = {
            Connection(answer, writable=False): Connection(job, readable=False)
            for (_, job), (answer, _) in zip(jobs, answers, strict=True)
        }
        """By the pipe that a lane answers on, the one that it is asked on."""
        if self._told is not None:
            self.tell(self._told)

    def _environment(self, program: Program) -> dict[str, str]:
        """The modules that this process would import, from the same places. -P: the working directory is not one of them."""
        path = os.pathsep.join(str(Path(entry).absolute()) for entry in sys.path)
        variables = {**os.environ, "PYTHONPATH": path, **program.variables}
        strange = {name for name, folder in program.folders.items() if not folder.is_dir()}
        variables |= {name: str(folder) for name, folder in program.folders.items()}
        if program.is_private or strange:
            own = self._held.enter_context(scratch_folder("lanes"))
            variables |= {name: str(own / name) for name in strange}
            if program.is_private:
                variables |= {"TMPDIR": str(own), "AUTOQEC_CACHE": str(own / "cache")}
        return variables

    @property
    def _idle(self) -> list[Connection]:
        return [lane for lane in self._jobs if lane not in self._busy]

    @property
    def has_room(self) -> bool:
        free = len(self._idle) if self._jobs else self._count  # which start again with the next message
        return free > len(self._outbox)

    def tell(self, message: bytes) -> None:
        self._told = message
        for job in self._jobs.values():
            with contextlib.suppress(BrokenPipeError):  # it has died: its next answer says so
                job.send_bytes(_TELL + message)

    def send(self, message: bytes) -> int:
        number = self._outbox.add(message)
        self._hand_out()
        return number

    def _hand_out(self) -> None:
        for lane in self._idle[: len(self._outbox)]:
            number, message = self._outbox.take()
            self._busy[lane] = number
            with contextlib.suppress(BrokenPipeError):
                self._jobs[lane].send_bytes(_ASK + message)

    def receive(self) -> tuple[int, bytes]:
        while True:
            if not self._jobs:
                self._server.wait()
                self._start()
            self._hand_out()
            lane = wait(list(self._busy))[0]
            assert isinstance(lane, Connection)
            number = self._busy.pop(lane)
            try:
                answer = lane.recv_bytes(_LARGEST)
            except (EOFError, OSError):
                for end in (lane, self._jobs.pop(lane)):
                    end.close()
                self._outbox.lost(number)
                continue
            self._outbox.answered(number)
            return number, answer

    def stop(self) -> None:
        self._server.terminate()
        self.close()

    def close(self) -> None:
        for answer, job in self._jobs.items():
            job.close()
            answer.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._server.wait(_CLOSE_S)
        self._server.terminate()
        self._server.wait()
        self._held.close()


def serve() -> None:
    """The process that forks the lanes. Arguments: the worker's class, and descriptors, two for each lane: its messages, its answers."""
    module, _, name = sys.argv[1].partition(":")
    kind: type[Worker] = getattr(importlib.import_module(module), name)
    ends = list(map(int, sys.argv[2:]))
    pairs = list(zip(ends[::2], ends[1::2], strict=True))
    children: list[int] = []

    def stop(*_: object) -> None:
        for child in children:
            with contextlib.suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)
        os._exit(1)

    signal.signal(signal.SIGTERM, stop)
    for own in pairs:
        child = os.fork()
        if child == 0:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            for end in {end for pair in pairs for end in pair} - set(own):
                os.close(end)  # a pipe ends when nobody is left to write to it
            _work(kind, *own)
            os._exit(0)
        children.append(child)
    for end in ends:
        os.close(end)
    for child in children:
        os.waitpid(child, 0)


def _work(kind: type[Worker], messages: int, answers: int) -> None:
    busy = threading.Event()
    threading.Thread(target=_end_with_pipe, args=(messages, busy), daemon=True).start()
    asked, answered = Connection(messages, writable=False), Connection(answers, readable=False)
    worker = kind()
    try:
        with contextlib.suppress(EOFError, BrokenPipeError):
            while True:
                message = asked.recv_bytes()
                busy.set()
                if message[:1] == _TELL:
                    worker.tell(message[1:])
                else:
                    answered.send_bytes(worker.answer(message[1:]))
                busy.clear()
    finally:
        worker.close()


def _end_with_pipe(messages: int, busy: threading.Event) -> None:
    """Ends a lane whose answer nobody waits for. One without work sees the end of its pipe itself."""
    watch = select.poll()
    watch.register(messages, 0)  # nothing but the end
    watch.poll()
    busy.wait()
    os._exit(1)
