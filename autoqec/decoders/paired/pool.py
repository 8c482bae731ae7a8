"""Worker processes on pipes alone. They need neither sockets nor semaphores, so they also work behind the walls of a sandbox.

One process imports the worker and forks the others: plain forks of a threaded parent can deadlock, and every process by
itself would import for seconds. A worker ends when its pipe does, whatever became of the process that started it.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import signal
import subprocess
import sys
from collections.abc import Iterator
from multiprocessing.connection import Connection, wait
from pathlib import Path

from autoqec.decoders.paired import worker
from autoqec.errors import AutoQECError
from autoqec.io.child_env import ONE_THREAD

_SERVER = "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN); from autoqec.decoders.paired.pool import serve; serve()"


class WorkerPool:
    def __init__(self, workers: int) -> None:
        jobs, answers = ([os.pipe() for _ in range(workers)] for _ in range(2))
        theirs = [end for (job, _), (_, answer) in zip(jobs, answers, strict=True) for end in (job, answer)]
        path = os.pathsep.join(str(Path(entry).absolute()) for entry in sys.path)
        try:
            self._server = subprocess.Popen(
                [sys.executable, "-P", "-c", _SERVER, *map(str, theirs)],
                stdin=subprocess.DEVNULL,
                pass_fds=theirs,
                env={**os.environ, **ONE_THREAD, "PYTHONPATH": path},
            )
        finally:
            for end in theirs:
                os.close(end)
        self._jobs = {
            Connection(answer, writable=False): Connection(job, readable=False)
            for (_, job), (answer, _) in zip(jobs, answers, strict=True)
        }
        """By the pipe that a worker answers on, the one that it is asked on."""

    def run(self, jobs: Iterator[worker.Job]) -> Iterator[worker.Done]:
        """Answers in the order in which they come. A worker has one job at a time, so that no pipe can fill up at both ends."""
        idle, busy = list(self._jobs), set[Connection]()
        while True:
            while idle and (job := next(jobs, None)) is not None:
                with contextlib.suppress(BrokenPipeError):  # it has died: its answer says so
                    self._jobs[idle[-1]].send(job)
                busy.add(idle.pop())
            if not busy:
                return
            for ready in wait(list(busy)):
                assert isinstance(ready, Connection)
                try:
                    answer = ready.recv()
                except (EOFError, ConnectionResetError):
                    raise AutoQECError("a worker process ended while it decoded", where="decoders") from None
                busy.remove(ready)
                idle.append(ready)
                if isinstance(answer, Exception):
                    raise answer
                yield answer

    def stop(self) -> None:
        """Ends the workers at once."""
        self._server.terminate()
        self.close()

    def close(self) -> None:
        """Ends the workers when each is done with its job."""
        for answer, job in self._jobs.items():
            job.close()
            answer.close()
        self._server.wait()


def serve() -> None:
    """The process that forks the workers; the arguments are descriptors, two for each: its jobs, its answers."""
    ends = list(map(int, sys.argv[1:]))
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
            _work(*own)
            os._exit(0)
        children.append(child)
    for end in ends:
        os.close(end)
    for child in children:
        os.waitpid(child, 0)


def _work(jobs: int, answers: int) -> None:
    worker.initialise()
    asked, answered = Connection(jobs, writable=False), Connection(answers, readable=False)
    with contextlib.suppress(EOFError, BrokenPipeError):
        while True:
            job = asked.recv()
            try:
                answer: object = worker.run(job)
            except Exception as error:
                answer = error
            answered.send(answer if _can_travel(answer) else AutoQECError(repr(answer)[:1000]))


def _can_travel(answer: object) -> bool:
    """Not every exception comes back from its pickle."""
    if isinstance(answer, worker.Done):
        return True
    try:
        pickle.loads(pickle.dumps(answer))
    except Exception:
        return False
    return True
