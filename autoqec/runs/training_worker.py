"""A lane that trains rounds: each message is a round, each answer its metrics."""

from __future__ import annotations

import json

from autoqec.executors.protocol import Program, Worker
from autoqec.io.child_env import THREADS, kept
from autoqec.runner.schema import RunnerConfig
from autoqec.runs.worktree_runner import SubprocessRunner


class TrainingWorker(Worker):
    """`run-round` in the round's worktree. A round that another lane has trained to its end is not trained again, and one that was cut
    off resumes."""

    def answer(self, message: bytes) -> bytes:
        asked = json.loads(message)
        runner = SubprocessRunner(wall_clock_s=asked["wall_clock_s"], memory_gb=asked["memory_gb"])
        return runner(RunnerConfig.model_validate(asked["config"])).model_dump_json().encode()


def training(cpus: float, gpus: float) -> Program:
    """A training takes so many cores, and as many threads unless the user has set them."""
    threads = {**dict.fromkeys(THREADS, str(max(1, int(cpus)))), **kept(THREADS)}
    target = f"{TrainingWorker.__module__}:{TrainingWorker.__name__}"
    return Program(target, threads, cpus=cpus, gpus=gpus, is_kept=False)


def message_of(config: RunnerConfig, runner: SubprocessRunner) -> bytes:
    limits = {"wall_clock_s": runner.wall_clock_s, "memory_gb": runner.memory_gb}
    return json.dumps({"config": config.model_dump(mode="json"), **limits}).encode()
