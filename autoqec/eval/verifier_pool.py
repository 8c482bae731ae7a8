"""The worker processes of a verification, and the tasks handed out to them."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from autoqec.eval.kernel_store import trusted_environment
from autoqec.eval.verifier_worker import Task, TaskWorker
from autoqec.eval.worker_results import decode, result_type
from autoqec.eval.worker_setup import NO_SETUP, WorkerSetup
from autoqec.executors.local import LocalExecutor
from autoqec.executors.protocol import Executor, Lanes, Program, run
from autoqec.io.child_env import ONE_THREAD

MAX_WORKERS = 16
"""On one machine; a cluster gives as many as it has cores."""


class VerifierPool:
    """Worker processes; use it as a context manager, so that they and their confined processes end with it.

    kernels: folder of compiled ones, as `KernelStore` hands it out. executor: where they are; by default on this machine.
    """

    def __init__(self, kernels: Path, count: int | None = None, executor: Executor | None = None) -> None:
        self._program = Program(
            f"{TaskWorker.__module__}:{TaskWorker.__name__}",
            {**ONE_THREAD, **trusted_environment()},
            folders={"NUMBA_CACHE_DIR": kernels},
            is_private=True,  # what lies in the user's cache is not believed
        )
        self._executor = executor or LocalExecutor()
        self._lanes: Lanes | None = None
        self._setup = NO_SETUP
        most = MAX_WORKERS if isinstance(self._executor, LocalExecutor) else self._executor.cores
        self.count = count or min(self._executor.cores, most)

    def __enter__(self) -> Self:
        self._lanes = self._executor.lanes(self._program, self.count)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._lanes is not None:
            self._lanes.close() if kind is None else self._lanes.stop()

    def equip(self, setup: WorkerSetup) -> None:
        """Gives every worker the problems and models of the tasks that follow."""
        assert self._lanes is not None
        self._setup = setup
        self._lanes.tell(pickle.dumps(setup))

    def renew(self) -> None:
        """The same problems and models, in confined processes that were asked nothing yet."""
        self.equip(self._setup)

    @property
    def models(self) -> frozenset[str]:
        """Names of the models that the workers hold."""
        return frozenset(self._setup.models)

    def run(self, tasks: Sequence[Task], progress: Callable[[Any], None] | None = None) -> list[Any]:
        """The results of all tasks, in their order; tasks are started in that order as workers come free."""
        assert self._lanes is not None
        results: list[Any] = [None] * len(tasks)
        for index, answer in run(self._lanes, map(pickle.dumps, tasks)):
            results[index] = decode(answer, result_type(type(tasks[index])))
            if progress is not None:
                progress(results[index])
        return results
