"""The worker processes of a verification, and the tasks handed out to them."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from multiprocessing.connection import Connection, wait
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from autoqec.errors import AutoQECError
from autoqec.eval.kernel_store import trusted_environment
from autoqec.eval.verifier_worker import Task
from autoqec.eval.worker_results import decode, result_type
from autoqec.eval.worker_setup import NO_SETUP, WorkerSetup
from autoqec.io.child_env import ONE_THREAD
from autoqec.io.cores import available_cores
from autoqec.io.scratch import scratch_folder

MAX_WORKERS = 16
MAX_RESULT = 1 << 30


class VerifierPool:
    """Worker processes; use it as a context manager, so that they and their confined processes end with it.

    kernels: folder of compiled ones, as `KernelStore` hands it out.
    """

    def __init__(self, kernels: Path, count: int | None = None) -> None:
        self._processes: list[tuple[subprocess.Popen[bytes], Connection]] = []
        self._held = contextlib.ExitStack()
        self._scratch = self._held.enter_context(scratch_folder("verify"))
        self._kernels = kernels
        self._setup = NO_SETUP
        self.count = count or min(available_cores(), MAX_WORKERS)

    def __enter__(self) -> Self:
        try:
            for _ in range(self.count):
                self._processes.append(_start(self._scratch, self._kernels))
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def equip(self, setup: WorkerSetup) -> None:
        """Gives every worker the problems and models of the tasks that follow."""
        self._setup = setup
        for _, connection in self._processes:
            connection.send(setup)

    def renew(self) -> None:
        """The same problems and models, in confined processes that were asked nothing yet."""
        self.equip(self._setup)

    @property
    def models(self) -> frozenset[str]:
        """Names of the models that the workers hold."""
        return frozenset(self._setup.models)

    def run(self, tasks: Sequence[Task], progress: Callable[[Any], None] | None = None) -> list[Any]:
        """The results of all tasks, in their order; tasks are started in that order as workers come free."""
        results: list[Any] = [None] * len(tasks)
        for index, result in self._finished(tasks):
            results[index] = result
            if progress is not None:
                progress(result)
        return results

    def _finished(self, tasks: Sequence[Task]) -> Iterator[tuple[int, Any]]:
        idle = [connection for _, connection in self._processes]
        busy: dict[Connection, int] = {}
        following = iter(enumerate(tasks))
        while True:
            while idle and (step := next(following, None)) is not None:
                connection = idle.pop()
                connection.send(step[1])
                busy[connection] = step[0]
            if not busy:
                return
            for ready in wait(list(busy)):
                connection = ready  # type: ignore[assignment]
                index = busy.pop(connection)
                try:
                    payload = connection.recv_bytes(MAX_RESULT)
                except (EOFError, OSError):
                    raise AutoQECError(
                        "a process of the verifier ended unexpectedly",
                        where="verify",
                        hint="was the machine out of memory?",
                    ) from None
                idle.append(connection)
                yield index, decode(payload, result_type(type(tasks[index])))

    def close(self) -> None:
        for _, connection in self._processes:
            connection.close()
        for process, _ in self._processes:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(timeout=2)
            process.kill()  # its worker goes with it
            process.wait()
        self._processes = []
        self._held.close()


def _start(scratch: Path, kernels: Path) -> tuple[subprocess.Popen[bytes], Connection]:
    """A process that runs `verifier_worker.main`. It is trusted: it imports what this process would, from the same places.

    -P: the working directory is not one of them. It may be the checkout that is being judged.
    """
    ours, theirs = socket.socketpair()
    with theirs:
        process = subprocess.Popen(
            [
                sys.executable,
                "-P",
                "-c",
                "from autoqec.eval.verifier_worker import main; main()",
                str(theirs.fileno()),
            ],
            stdin=subprocess.DEVNULL,
            pass_fds=[theirs.fileno()],
            env={
                **os.environ,
                **ONE_THREAD,
                **trusted_environment(kernels),
                "TMPDIR": str(scratch),
                "AUTOQEC_CACHE": str(scratch / "cache"),  # what lies in the user's is not believed
            },
        )
    return process, Connection(ours.detach())
