"""The process of one round: reads its job from a file, writes its metrics to another. Started by `supervise`; when
standard input ends, whoever started it is gone, and it ends, too."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from autoqec.io import atomic
from autoqec.runner.failure_kinds import failure_of
from autoqec.runner.schema import RoundMetrics, RunnerConfig

if TYPE_CHECKING:
    from autoqec.runner.team import Team


def main() -> None:
    job = json.loads(Path(sys.argv[1]).read_text())
    if len(sys.argv) > 2:
        _help(job, int(sys.argv[2]), int(sys.argv[3]), Path(sys.argv[4]))
        return
    threading.Thread(target=_end_with_caller, daemon=True).start()
    try:
        metrics = _run(job)
    except Exception as error:
        traceback.print_exc()
        metrics = RoundMetrics.model_validate(failure_of(error).metrics())
    atomic.write_text(Path(job["result"]), metrics.model_dump_json())


def _run(job: dict[str, Any]) -> RoundMetrics:
    from autoqec.runner.team import led, size_of

    config = RunnerConfig.model_validate(job["config"])
    size = size_of(config.processes) if config.campaign and not job["confined"] else 1
    with led(Path(sys.argv[1]), Path(sys.argv[1]).with_name("meeting"), size) as team:
        return _round(job, team)


def _help(job: dict[str, Any], rank: int, size: int, meeting: Path) -> None:
    """One process more for the training of a round, which another one leads."""
    from autoqec.runner.team import joined

    with joined(meeting, rank, size) as team:
        metrics = _round(job, team)
    if metrics.status != "ok":
        sys.exit(metrics.status_reason)


def _round(job: dict[str, Any], team: Team) -> RoundMetrics:
    # Imported here, so that a library that is missing is a failure of the round like any other.
    from autoqec.envs.environment import Environment
    from autoqec.envs.schema import EnvSpec
    from autoqec.runner import recorded
    from autoqec.runner.execute import Round
    from autoqec.runner.safety import Safety

    env = Environment(EnvSpec.model_validate(job["spec"]), root=Path(job["root"]), origin=job["origin"])
    config = RunnerConfig.model_validate(job["config"])
    progress = _bar() if job["progress"] and team.leads and sys.stderr.isatty() else None
    shots = recorded.taken(Path(job["train_shots"])) if "train_shots" in job else None
    safety, where = Safety(**job["safety"]), job["executor"]
    return Round(config, env, safety, progress=progress, executor=where, recorded=shots, team=team).run()


def _end_with_caller() -> None:
    os.read(sys.stdin.fileno(), 1)
    os.killpg(0, signal.SIGKILL)  # with the workers of this process, whose group is its own


def _bar() -> Callable[[int, int, float], None]:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    bar = Progress(
        TextColumn("training"), BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[loss]}"),
        TimeRemainingColumn(), console=Console(stderr=True), transient=True,
    )  # fmt: skip
    task = bar.add_task("training", total=None, loss="")
    bar.start()

    def update(step: int, steps: int, loss: float) -> None:
        bar.update(task, completed=step, total=steps, loss=f"loss {loss:.4g}")
        if step == steps:
            bar.stop()

    return update


if __name__ == "__main__":
    main()
