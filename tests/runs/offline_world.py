"""Whole runs of the loop in seconds: real git, real proposers, and a runner that trains nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tiny_runs import fake_runner, make_checkout

from autoqec.layout import runs_folder
from autoqec.runs.loop import Loop, Outcome
from autoqec.runs.plan import Plan, read_plan, save_plan
from autoqec.runs.proposer_adapters import ProposerAdapter, make_adapter
from autoqec.runs.repository import open_checkout
from autoqec.runs.research_run import ResearchRun
from autoqec.runs.run import Run
from autoqec.runs.worktrees import Limits

RUN_ID = "20260102-030405"
TIMES = ("started_at", "finished_at", "created_at", "begun_at", "rested_s")


def plan(**changes: Any) -> Plan:
    return Plan(**{"rounds": 4, "proposer": "templates", "memory_gb": 8.0, **changes})


def steps(workspace: Path, wanted: Plan) -> ResearchRun:
    """The run of a workspace, made or taken up."""
    folder = runs_folder(workspace) / RUN_ID
    if not (folder / "plan.json").exists():
        if not (workspace / "checkout").exists():
            make_checkout(workspace / "checkout")
        made = ResearchRun.begin(
            workspace, "surface_d3_depol", open_checkout(workspace / "checkout"), wanted, RUN_ID
        )
        folder = made.run.files.path
    run = Run.open(folder, Limits(min_free_gb=0.0))
    save_plan(run.files, wanted)
    return ResearchRun(run, read_plan(run.files), fake_runner)


def play(workspace: Path, wanted: Plan, author: ProposerAdapter | None = None) -> tuple[ResearchRun, Outcome]:
    taken = steps(workspace, wanted)
    outcome = Loop(taken, author or make_adapter(taken.plan, taken.run.files)).run()
    return taken, outcome


def without_times(value: Any) -> Any:
    """A row without what differs between two runs that did the same: times, random ids, and hashes of commits."""
    volatile = (*TIMES, "round_attempt_id", "commit_sha", "checkpoint_path", "training_log_path")
    return {name: inner for name, inner in value.items() if name not in volatile}
