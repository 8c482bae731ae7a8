"""A run with its plan: what its rounds share. The loop and `autoqec step` both work through it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from autoqec.agents.failures import RoleFailure
from autoqec.errors import AutoQECError, InputError
from autoqec.eval import pareto
from autoqec.eval.verify import VerifyOptions, verify_together
from autoqec.executors.protocol import Executor
from autoqec.io.jsonl import Row
from autoqec.layout import RunDir, runs_folder
from autoqec.runs import run_log
from autoqec.runs.experiment import Experiment, Verifier
from autoqec.runs.names import check_run_id, slug_of
from autoqec.runs.plan import SPARE_CONFIRMATIONS, Plan, read_plan, save_plan
from autoqec.runs.reconcile import Report, reconcile
from autoqec.runs.repository import Repository
from autoqec.runs.results import results
from autoqec.runs.run import Run
from autoqec.runs.run_info import locate_env
from autoqec.runs.snapshot import Snapshots
from autoqec.runs.worktree_runner import Runner, SubprocessRunner
from autoqec.search.proposal import Proposal

NO_HYPOTHESIS = "no hypothesis"
Progress = Callable[[str, int, int], None]


class Paused(AutoQECError):
    """Something is left for a person to decide before the run can resume."""

    exit_code = 3


@dataclass(frozen=True)
class Full:
    """Why no further round may begin. is_complete: all rounds of the plan are done or in flight."""

    reason: str
    hint: str
    is_complete: bool = False


class ResearchRun:
    """The caller holds `run.exclusive()` where several processes might work on the run.

    runner: trains a round; by default `run-round` in its worktree. executor: where rounds are verified; by default here. now: what a
    proposal is a function of, read off the disk.
    """

    def __init__(self, run: Run, plan: Plan, runner: Runner | None = None) -> None:
        self.run, self.plan = run, plan
        self._runner = runner
        self.executor: Executor | None = None
        self.now = Snapshots(run, plan)

    @classmethod
    def begin(
        cls, workspace: Path, env: str, repository: Repository, plan: Plan, run_id: str | None = None
    ) -> ResearchRun:
        """A new run. One of that id that was killed before it had a plan is started again."""
        made = None if run_id is None else RunDir(runs_folder(workspace) / check_run_id(run_id))
        if made is not None and made.about.exists() and not made.plan.exists():
            run = Run.open(made.path)
            if (run.info.env, run.info.training_profile) != (locate_env(env)[0], plan.profile):
                raise InputError(
                    f"was started for {run.info.env} with profile {run.info.training_profile}",
                    where=str(made.path),
                    hint="choose another run id",
                )
        else:
            run = Run.create(workspace, env, repository, training_profile=plan.profile, run_id=run_id)
        save_plan(run.files, plan)
        return cls(run, plan)

    @classmethod
    def open(cls, folder: Path) -> ResearchRun:
        run = Run.open(folder)
        return cls(run, read_plan(run.files))

    def replan(self, **changes: Any) -> None:
        """Other rounds or budgets than those that the run was started with; the caller holds the run."""
        self.plan = self.plan.model_copy(update=changes)
        self.now = Snapshots(self.run, self.plan)
        save_plan(self.run.files, self.plan)

    def bring_in_order(self, spent_usd: Callable[[int], float | None] = lambda _: None) -> Report:
        """Start-up reconciliation; the caller holds the run. spent_usd: what the answers of a round cost."""
        for experiment in Experiment.in_flight(self.run):
            experiment.note_rest()
        report = reconcile(
            self.run, record=lambda over: self.record(over, cost_usd=spent_usd(over.name.round))
        )
        if report.pauses:
            raise Paused(
                "; ".join(report.pauses),
                where=str(self.run.files.path),
                hint="decide about it by hand; `autoqec reconcile` says when nothing is left",
            )
        if not self.plan.is_smoke:
            pareto.publish(self.run.files.path)
        self.publish()
        return report

    def room(self) -> Full | None:
        """Why no further round may begin; None if one may."""
        left = self.now.seconds_left(with_flight=True)
        if self.now.rounds_done() + len(self.run.journals()) >= self.plan.rounds:
            return Full(
                f"all {self.plan.rounds} rounds of the plan are done or in flight",
                "finish those in flight, end the run, or plan more: autoqec step begin --run RUN_DIR --rounds N",
                is_complete=True,
            )
        if left is not None and left <= 0:
            return Full(
                f"the budget of {self.plan.budget_minutes:g} minutes is used up",
                "end the run, or give it more: autoqec step begin --run RUN_DIR --budget-minutes M",
            )
        return None

    def propose(self, proposal: Proposal) -> Experiment:
        """Begins the round and makes its worktree; a conflict of its parents ends it."""
        experiment = Experiment.begin(self.run, proposal)
        experiment.prepare()
        return experiment

    def propose_nothing(self, failure: RoleFailure) -> Experiment:
        """A round that says that the Ideator had no answer."""
        told = failure.row()
        return self.propose(
            Proposal(
                hypothesis=NO_HYPOTHESIS, slug=slug_of(f"no {told['role']}"), details={"role_failure": told}
            )
        )

    def runner(self, stage: Callable[[str], None] | None = None) -> Runner:
        """stage: called with `compiling` and `training` as they begin."""
        return self._runner or self.subprocess_runner(stage)

    def subprocess_runner(self, stage: Callable[[str], None] | None = None) -> SubprocessRunner:
        """`run-round` in the round's worktree, for as long as the plan and its budget allow."""
        left = self.now.seconds_left()
        limit = self.plan.round_s if left is None else max(60.0, min(self.plan.round_s, left))
        memory_gb = self.plan.memory_gb / self.plan.parallel
        return SubprocessRunner(wall_clock_s=limit, memory_gb=memory_gb, stage=stage or (lambda _what: None))

    def verifier(self, progress: Progress | None = None) -> Verifier | None:
        """None for a smoke run, which verifies nothing."""
        if self.plan.is_smoke:
            return None
        options = VerifyOptions(
            executor=self.executor,
            shots=self.plan.shots_verify(self.now.env.spec.eval_protocol),
            confirmations=self.plan.rounds + SPARE_CONFIRMATIONS,
            repo=self.run.repository.root,
            base=self.run.info.base_commit,
            progress=progress,
        )
        return lambda folders: verify_together(folders, self.now.env, options)[0]

    def record(self, experiment: Experiment, cost_usd: float | None = None) -> Row:
        """What is left of a round that was trained or has ended; then its worktree goes, and the run's log is written anew."""
        report = None if experiment.is_over else experiment.verify(self.verifier())
        row = experiment.record(report=report, cost_usd=cost_usd)
        experiment.close()
        self.publish()
        return row

    def publish(self) -> None:
        """What a person reads of the run."""
        run_log.publish(self.run, self.plan, self.now.context())

    def results(self) -> dict[str, Any]:
        return results(self.run, self.plan)
