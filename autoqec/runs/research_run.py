"""The steps of a round, each a function of what is on disk: the loop and `autoqec step` both take them.

    propose -> code -> run -> analyse -> verify -> record

Every step may be taken again, and by another process: it then finds what was done, and answers the same.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any, Literal

from autoqec.agents.failures import RoleFailure
from autoqec.agents.fences import one_line
from autoqec.agents.schemas import CoderResponse, IdeatorResponse
from autoqec.decoders.dsl_schema import PredecoderDSL, canonical_dict, canonical_hash
from autoqec.errors import AutoQECError, InputError
from autoqec.eval.report_store import written_report
from autoqec.eval.schema import VerifyReport
from autoqec.eval.verify import VerifyOptions, verify_together
from autoqec.io.hashing import sha256_file
from autoqec.io.validate import validate_model
from autoqec.layout import RunDir, runs_folder
from autoqec.runs import run_log
from autoqec.runs.experiment import RoundLifecycle
from autoqec.runs.front import parents_of, put_on_front, report_left, verification_of
from autoqec.runs.names import check_run_id, slug_of
from autoqec.runs.plan import SPARE_CONFIRMATIONS, Plan, read_plan, save_plan
from autoqec.runs.repository import Repository
from autoqec.runs.run import Proposal, Run, locate_env
from autoqec.runs.snapshot import Snapshots, rounds_of
from autoqec.runs.worktree_runner import Runner, SubprocessRunner
from autoqec.search.analyst import Analysis, analyse
from autoqec.search.checks import check_fork, parent_config, resolve
from autoqec.search.distance import find_repeat
from autoqec.search.feasibility import estimate
from autoqec.search.proposal import BASELINE

NO_HYPOTHESIS = "no hypothesis"
Coded = Literal["committed", "duplicate", "skipped", "refused"]
Progress = Callable[[str, int, int], None]


class Steps:
    """The steps of one run. The caller holds `run.exclusive()` where several processes might work on it.

    runner: trains a round; by default `run-round` in its worktree.
    """

    def __init__(self, run: Run, plan: Plan, runner: Runner | None = None) -> None:
        self.run, self.plan = run, plan
        self._runner = runner
        self.now = Snapshots(run, plan)

    @classmethod
    def begin(
        cls, workspace: Path, env: str, repository: Repository, plan: Plan, run_id: str | None = None
    ) -> Steps:
        """A new run. One of that id that was killed before it had a plan is begun again."""
        made = None if run_id is None else RunDir(runs_folder(workspace) / check_run_id(run_id))
        if made is not None and made.about.exists() and not made.plan.exists():
            run = Run.open(made.path)
            if (run.info.env, run.info.training_profile) != (locate_env(env)[0], plan.profile):
                raise InputError(
                    f"was begun for {run.info.env} with profile {run.info.training_profile}",
                    where=str(made.path),
                    hint="choose another run id",
                )
        else:
            run = Run.create(workspace, env, repository, training_profile=plan.profile, run_id=run_id)
        save_plan(run.files, plan)
        return cls(run, plan)

    @classmethod
    def open(cls, folder: Path) -> Steps:
        run = Run.open(folder)
        return cls(run, read_plan(run.files))

    def replan(self, **changes: Any) -> None:
        """Other rounds or budgets than those that the run was begun with; the caller holds the run."""
        self.plan = self.plan.model_copy(update=changes)
        self.now = Snapshots(self.run, self.plan)
        save_plan(self.run.files, self.plan)

    def round(self, number: int) -> RoundLifecycle:
        """The round in flight with this number."""
        flying = RoundLifecycle.in_flight(self.run)
        for lifecycle in flying:
            if lifecycle.name.round == number:
                return lifecycle
        known = ", ".join(str(lifecycle.name.round) for lifecycle in flying) or "none"
        raise InputError(f"round {number} is not in flight", where="--round", hint=f"in flight: {known}")

    def recorded(self, number: int) -> dict[str, Any] | None:
        """The row of a round that is over."""
        rows = rounds_of(self.run.history.rows())
        return next((dict(row) for row in rows if row.get("round") == number), None)

    def propose(
        self,
        said: IdeatorResponse,
        *,
        origin: dict[str, Any],
        code: CoderResponse | None = None,
        attempt: str | None = None,
    ) -> RoundLifecycle:
        """Begins the round and makes its worktree; a conflict of its parents ends it.

        code: the Coder's answer, where it is known by now; it is kept with the intent.
        """
        context = self.now.context()
        given = {} if attempt is None else {"round_attempt_id": attempt}
        begun = {
            lifecycle.journal.round_attempt_id: lifecycle for lifecycle in RoundLifecycle.in_flight(self.run)
        }
        if attempt in begun:
            lifecycle = begun[attempt]
        else:
            check_fork(said.fork_from, said.compose_mode, context)
            proposal = Proposal(
                hypothesis=said.hypothesis,
                slug=slug_of(said.hypothesis),
                fork_from=resolve(said.fork_from, context),
                compose_mode=said.compose_mode,
                details={
                    "idea": said.model_dump(mode="json"),
                    "coder": None if code is None else code.model_dump(mode="json"),
                    "origin": origin,
                },
                **given,
            )
            lifecycle = RoundLifecycle.begin(self.run, proposal)
        lifecycle.prepare()
        return lifecycle

    def fail(self, failure: RoleFailure, lifecycle: RoundLifecycle | None = None) -> RoundLifecycle:
        """Ends a round for which a role had no answer; without one, a round that says so."""
        said = failure.row()
        if lifecycle is None:
            proposal = Proposal(
                hypothesis=NO_HYPOTHESIS,
                slug=slug_of(f"no {said['role']}"),
                fork_from=BASELINE,
                details={"role_failure": said},
            )
            lifecycle = RoundLifecycle.begin(self.run, proposal)
        else:
            lifecycle.note(role_failure=said)
        self.end_failed(lifecycle)
        return lifecycle

    def end_failed(self, lifecycle: RoundLifecycle) -> bool:
        """Ends a round if a role's failure is on record for it; a killed process may have come no further than that."""
        said = lifecycle.journal.details.get("role_failure")
        if said is not None:
            reason = f"the {said['role']} gave no answer ({said['kind']}): {said['reason']}"
            lifecycle.abandon(reason, "role_failed")
        return said is not None

    def code(
        self,
        lifecycle: RoundLifecycle,
        said: CoderResponse,
        *,
        is_final: bool,
        origin: dict[str, Any] | None = None,
    ) -> tuple[Coded, str | None]:
        """Commits the config. A repeat of an earlier round is sent back once, and then skipped and recorded.

        is_final: it was sent back before, by whoever asked for it.
        """
        if lifecycle.journal.commit_sha is not None:
            return "committed", None
        if lifecycle.is_over:
            return "refused", (lifecycle.journal.row or {}).get("status_reason")
        details = lifecycle.journal.details
        dsl = validate_model(said.dsl_config, PredecoderDSL, where="dsl_config")
        repeat = find_repeat(canonical_dict(dsl), rounds_of(self.run.history.rows()))
        if repeat is not None:
            if not is_final and details.get("sent_back") is None:
                lifecycle.note(sent_back=repeat)
                return "duplicate", repeat
            lifecycle.note(dsl_config=canonical_dict(dsl), config_hash=canonical_hash(dsl))
            lifecycle.abandon(f"skipped: {repeat}", "repeat")
            return "skipped", repeat
        lifecycle.note(
            coder=said.model_dump(mode="json"), origin={**(details.get("origin") or {}), **(origin or {})}
        )
        lifecycle.configure(canonical_dict(dsl), one_line(said.commit_message or "", 200) or None)
        return self.commit(lifecycle)

    def commit(self, lifecycle: RoundLifecycle) -> tuple[Coded, str | None]:
        """The commit of a round that has all it needs: a pure compose round needs nothing."""
        try:
            self._check_cost(lifecycle)
            lifecycle.commit()
        except InputError as error:  # what stands in the worktree is no config
            lifecycle.abandon(str(error), "config_invalid")
            return "refused", str(error)
        return "committed", None

    def _check_cost(self, lifecycle: RoundLifecycle) -> None:
        """In a run that refuses what is over budget. A pure compose round has the config of its merged parents."""
        journal = lifecycle.journal
        if not self.plan.refuse_over_budget or journal.commit_sha is not None:
            return
        context = self.now.context(journal.round)
        config = journal.config or parent_config(journal.fork_from, context)
        if over := estimate(PredecoderDSL.model_validate(config), context).over_budget:
            raise InputError(
                f"over budget: {'; '.join(over)}",
                where="dsl_config",
                hint="make it cheaper, or begin a run without --refuse-over-budget",
            )

    def train(self, lifecycle: RoundLifecycle) -> None:
        if lifecycle.is_over:
            return
        lifecycle.train(self._runner or self.runner())
        lifecycle.point()

    def runner(self) -> SubprocessRunner:
        """`run-round` in the round's worktree, for as long as the plan and its budget allow."""
        left = self.now.seconds_left()
        limit = self.plan.round_s if left is None else max(60.0, min(self.plan.round_s, left))
        return SubprocessRunner(wall_clock_s=limit, memory_gb=self.plan.memory_gb)

    def row_so_far(self, lifecycle: RoundLifecycle) -> dict[str, Any]:
        """What is known about a trained round, as history will say it."""
        dsl = lifecycle.config
        config = (
            {} if dsl is None else {"dsl_config": canonical_dict(dsl), "config_hash": canonical_hash(dsl)}
        )
        return {**lifecycle.journal.details, **config, **(lifecycle.journal.row or {})}

    def result(self, lifecycle: RoundLifecycle) -> dict[str, Any]:
        """The same, of a round that has one."""
        if lifecycle.journal.row is None:
            raise InputError(
                f"round {lifecycle.name.round} has no result yet", where="analyse", hint="train it first"
            )
        return self.row_so_far(lifecycle)

    def analyse(self, lifecycle: RoundLifecycle, given: Analysis | None = None) -> dict[str, Any]:
        """The analysis on record; `given` is taken if there is none yet, else the rule's."""
        found: dict[str, Any] | None = lifecycle.journal.details.get("analysis")
        if found is None:
            row, front = self.result(lifecycle), self.now.context(lifecycle.name.round).pareto
            given = given or analyse(row, front)
            found = {**asdict(given), "corrections": list(given.corrections)}
            lifecycle.note(analysis=found)
        return found

    def verify(self, lifecycle: RoundLifecycle, progress: Progress | None = None) -> VerifyReport | None:
        """The verifier's report on a candidate; None for a round that is none."""
        if self.plan.is_smoke or self.analyse(lifecycle)["verdict"] != "candidate":
            return None
        files, details = lifecycle.files, lifecycle.journal.details
        if details.get("report_sha256") is not None:
            return written_report(files.path)
        if details.get("verify_error") is not None:
            return None
        report = report_left(files.path, is_composed=isinstance(lifecycle.journal.fork_from, list))
        if report is not None:
            lifecycle.note(report_sha256=sha256_file(files.report))
            return report
        options = VerifyOptions(
            shots=self.plan.shots_verify(self.now.env.spec.eval_protocol),
            confirmations=self.plan.rounds + SPARE_CONFIRMATIONS,
            repo=self.run.repository.root,
            base=self.run.info.base_commit,
            progress=progress,
        )
        folders = [files.path, *parents_of(lifecycle)]
        try:
            report = verify_together(folders, self.now.env, options)[0]
        except AutoQECError as error:
            lifecycle.note(verify_error=str(error))
            return None
        lifecycle.note(report_sha256=sha256_file(files.report))
        return report

    def record(self, lifecycle: RoundLifecycle, cost_usd: float | None = None) -> dict[str, Any]:
        """Pareto, history, log; then the worktree goes."""
        details = lifecycle.journal.details
        facts = self.row_so_far(lifecycle)
        report, verdict = None, None
        if not lifecycle.is_over:
            report = self.verify(lifecycle)
            verdict = self.analyse(lifecycle)["verdict"]
        admission = put_on_front(lifecycle, report) if report is not None else None
        coder = details.get("coder") or {}
        extra: dict[str, Any] = {
            "dsl_config": facts.get("dsl_config"),
            "config_hash": facts.get("config_hash"),
            "coder": {key: coder.get(key) for key in ("tier", "rationale", "commit_message")}
            if coder
            else None,
            "verification": verification_of(report, admission),
        }
        row = lifecycle.record(verdict=verdict, report=report, cost_usd=cost_usd, **extra)
        lifecycle.close()
        run_log.publish(self.run, self.plan, self.now.context())
        return row
