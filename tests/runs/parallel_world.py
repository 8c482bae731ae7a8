"""Whole runs with rounds side by side in seconds: real git, proposers and lanes, and a worker that trains nothing."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

from offline_world import steps
from tiny_runs import fake_runner

from autoqec.executors.local import LocalExecutor
from autoqec.executors.protocol import Program, Worker
from autoqec.runner.schema import RunnerConfig
from autoqec.runs.loop import Outcome
from autoqec.runs.parallel_loop import ParallelLoop
from autoqec.runs.plan import Plan
from autoqec.runs.proposer_adapters import ProposerAdapter, make_adapter
from autoqec.runs.research_run import ResearchRun

DEADLY = "deadly"
"""A file in the workspace: rounds whose numbers it holds end the lane that trains them, as often as they stand there."""


class FakeTraining(Worker):
    def answer(self, message: bytes) -> bytes:
        config = RunnerConfig.model_validate(json.loads(message)["config"])
        folder = Path(config.round_dir)
        deadly = folder.parents[2] / DEADLY
        numbers = deadly.read_text().split() if deadly.exists() else []
        number = folder.name.removeprefix("round_")
        if number in numbers:
            numbers.remove(number)
            deadly.write_text(" ".join(numbers))
            os.kill(os.getpid(), signal.SIGKILL)
        return fake_runner(config).model_dump_json().encode()


def play_parallel(
    workspace: Path, wanted: Plan, author: ProposerAdapter | None = None
) -> tuple[ResearchRun, Outcome]:
    taken = steps(workspace, wanted)
    author = author or make_adapter(taken.plan, taken.run.files)
    program = Program(f"{__name__}:FakeTraining")
    return taken, ParallelLoop(taken, author, LocalExecutor(), program).run()
