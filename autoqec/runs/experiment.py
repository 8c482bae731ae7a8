"""One round from proposal to history: the object that owns its state. All its steps are here, so that they are decided once.

    begin      the intent is on disk
    prepare    branch, worktree, parents merged             a conflict ends the round with a row
    code       the config is checked, handed over and committed; a repeat is sent back or skipped
    train      a runner in the worktree, then the pointer; what is out of scope is not trained
    analyse    a verdict on the metrics
    verify     the verifier's report on a candidate
    record     the row in front, history and fork graph
    close      the worktree is removed; the branch stays
    fail       ends a round that gets no config: a row, and no branch

Every step can be called again, by any process, and resumes where a killed one stopped: the journal says what is intended, and
what was reached is read off the branch, the artifacts and the history.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any, Literal, NamedTuple

from autoqec.agents.failures import RoleFailure
from autoqec.agents.fences import one_line
from autoqec.decoders.dsl_schema import PredecoderDSL, canonical_dict, canonical_hash
from autoqec.errors import AutoQECError, InputError
from autoqec.eval.pareto import read_front
from autoqec.eval.report_store import written_report
from autoqec.eval.schema import VerifyReport
from autoqec.io import atomic
from autoqec.io.clock import timestamp
from autoqec.io.hashing import sha256_file
from autoqec.io.jsonl import Row
from autoqec.io.locks import locked
from autoqec.io.validate import validate_model
from autoqec.runner.schema import Failure, RoundMetrics, RunnerConfig
from autoqec.runner.supervise import metrics_of_attempt, write_metrics
from autoqec.runs import fork_graph
from autoqec.runs.documents import pointer_of, runner_config
from autoqec.runs.front import checked, parent_folders, put_on_front, report_left, verification_of
from autoqec.runs.pointer import Pointer
from autoqec.runs.round_state import RoundState
from autoqec.runs.rows import conflict_row, refused_row, round_row
from autoqec.runs.run import Run
from autoqec.runs.worktree_runner import Runner, SubprocessRunner, believable, failed_metrics
from autoqec.runs.worktrees import ComposeConflict
from autoqec.search.analyst import Analysis, analyse
from autoqec.search.checks import parent_config
from autoqec.search.distance import find_repeat
from autoqec.search.feasibility import estimate
from autoqec.search.proposal import Proposal, RoundContext

Verifier = Callable[[list[Path]], VerifyReport]
"""Verifies the round in the first folder, on the same shots as those in the others."""


class Coded(NamedTuple):
    """What became of a config. duplicate: sent back; skipped, refused: the round has ended, and its row says why."""

    status: Literal["committed", "duplicate", "skipped", "refused"]
    reason: str | None = None


class Experiment(RoundState):
    """One round in flight and its steps. An object serves one thread."""

    @classmethod
    def begin(cls, run: Run, proposal: Proposal) -> Experiment:
        """A new round; an attempt that is in flight is found again."""
        return cls(run, run.begin(proposal))

    @classmethod
    def in_flight(cls, run: Run) -> list[Experiment]:
        """The rounds that a killed process, or one that is still at work, has started."""
        return [cls(run, file) for file in run.journals()]

    @classmethod
    def numbered(cls, run: Run, number: int) -> Experiment:
        flying = {experiment.name.round: experiment for experiment in cls.in_flight(run)}
        if number not in flying:
            known = ", ".join(map(str, flying)) or "none"
            raise InputError(f"round {number} is not in flight", where="--round", hint=f"in flight: {known}")
        return flying[number]

    def prepare(self) -> Path | None:
        """Branch and worktree with all parents; the worktree's folder, or None if the round has ended: the parents conflict, or a
        role's failure is on record."""
        if self.needs_code and (failed := self.journal.details.get("role_failure")) is not None:
            reason = f"the {failed['role']} gave no answer ({failed['kind']}): {failed['reason']}"
            self._end(refused_row(self.journal, Failure("role_failed", reason)))
            return None
        if self.is_over:
            self._drop()
            return None
        if self.journal.prepared and self.branch.exists:
            self.worktree.make()
            return self.worktree.path
        try:
            self.branch.make(self.journal.parents, is_pure=self.journal.proposal.compose_mode == "pure")
        except ComposeConflict as conflict:
            self._end(conflict_row(self.journal, conflict))
            return None
        self._file.save(prepared=True)
        return self.worktree.path

    def code(self, coded: Proposal, context: RoundContext, *, is_final: bool = True) -> Coded:
        """Commits the round with the config of the proposal; a pure compose round is its merge. A repeat of an earlier round is
        sent back once, and then skipped and recorded.

        is_final: it was sent back before, by whoever asked for it.
        """
        if self.is_over:
            return Coded("refused", (self.journal.row or {}).get("status_reason"))
        if self.needs_code:
            repeat = None if coded.compose_mode == "pure" else self._take(coded, context, is_final=is_final)
            if repeat is not None:
                return repeat
            try:
                self._check_budgets(context)
                self.commit()
            except InputError as error:  # what is in the worktree is not a config
                self.fail(Failure("config_invalid", str(error)))
                return Coded("refused", str(error))
        refused = self.refusal()
        return Coded("committed") if refused is None else Coded("refused", refused)

    def configure(self, config: dict[str, Any], commit_message: str | None = None) -> None:
        """What `commit` writes into the worktree. Without it, the round is what the worktree's files say then."""
        if self.journal.proposal.compose_mode == "pure":
            raise InputError(
                "a pure compose round is the merge itself", where="compose_mode", hint="use with_edit"
            )
        dsl = validate_model(config, PredecoderDSL, where="config")
        self._file.save(config=canonical_dict(dsl), commit_message=commit_message)

    def commit(self) -> str:
        """Everything that defines the round, on its branch; returns the commit that is its provenance."""
        if self.journal.commit_sha is None:
            self.prepare()
            self._file.save(commit_sha=self.branch.commit(self.journal))
        return str(self.journal.commit_sha)

    def refusal(self) -> str | None:
        """Why what was committed is not trained, on record before any process starts."""
        if not self.branch.out_of_scope(self.journal):
            return None
        self.train()
        return str((self.journal.row or {}).get("status_reason"))

    def hand_out(self) -> RunnerConfig:
        """What a runner outside of this program is to train, in the worktree as it was committed. `train` then takes what it
        left."""
        config = self._runner_config(self.commit())
        if self.journal.row is None:
            if not self.journal.training:
                self.worktree.reset(self.name.branch)
            self.files.path.mkdir(parents=True, exist_ok=True)
            self._file.save(training=True)
        return config

    def train(self, runner: Runner | None = None) -> RoundMetrics:
        """Trains and validates what was committed, and points at it. A round that changes more than it may is not trained."""
        if self.journal.row is None:
            commit = self.commit()
            config = self._runner_config(commit)
            self.files.path.mkdir(parents=True, exist_ok=True)
            metrics = self._refused(config, commit)
            if metrics is None and self.journal.training:
                with locked(self.run.files.guard(self.name.round)), locked(self.files.lock):
                    metrics = metrics_of_attempt(self.files, self.journal.round_attempt_id)
            if metrics is None:
                self._file.save(training=True)
                self.worktree.reset(commit)
                metrics = (runner or SubprocessRunner())(config)
            metrics = believable(metrics, config, commit)
            self._file.save(row=round_row(self.journal, metrics, self.run.history.rows()))
        if not self.is_over:
            self.write_pointer()
        return validate_model(self.journal.row, RoundMetrics, where="journal")

    def write_pointer(self) -> Pointer:
        """The pointer: beside the artifacts, and committed on the branch."""
        if self.journal.row is None or self.journal.commit_sha is None:
            raise AutoQECError(
                f"round {self.name.round} has no result to point at", where="pointer", hint="train it"
            )
        dsl = self.branch.config(self.journal.commit_sha)
        pointer = pointer_of(self.journal, self.run.info, dsl, self.files)
        atomic.write_bytes(self.files.pointer, pointer.to_json())
        if self.journal.pointer_sha is None:
            self._file.save(pointer_sha=self.branch.add_pointer(pointer))
        return pointer

    def analyse(self, analyst: Callable[[Row], Analysis] | None = None) -> dict[str, Any]:
        """The analysis on record. If there is none yet, the analyst is asked; by default it is the rule."""
        found: dict[str, Any] | None = self.journal.details.get("analysis")
        if found is None:
            given = self._rule(self.result) if analyst is None else analyst(self.result)
            found = {**asdict(given), "corrections": list(given.corrections)}
            self.note(analysis=found)
        return found

    def verify(self, verifier: Verifier | None) -> VerifyReport | None:
        """The report on a candidate; None for a round that is not one, and where nobody verifies."""
        self.analyse()
        if verifier is None or not self.is_candidate:
            return None
        details = self.journal.details
        if details.get("report_sha256") is not None:
            return written_report(self.files.path)
        if details.get("verify_error") is not None:
            return None
        report = report_left(self.files.path, is_composed=isinstance(self.journal.proposal.fork_from, list))
        if report is None:
            try:
                report = verifier([self.files.path, *parent_folders(self.run, self.journal)])
            except AutoQECError as error:
                self.note(verify_error=str(error))
                return None
        self.note(report_sha256=sha256_file(self.files.report))
        return report

    def record(
        self, *, verdict: str | None = None, report: VerifyReport | None = None, cost_usd: float | None = None
    ) -> Row:
        """Front, history and fork graph; what was recorded before stays as it is. The verifier's verdict is the last word, and
        before that the analysis. verdict: of a round that nobody analysed."""
        if self.journal.row is None:
            raise AutoQECError(
                f"round {self.name.round} has no result to record yet", where="record", hint="train it"
            )
        known, coder = self.row, self.proposal.coder
        verdict = (known.get("analysis") or {}).get("verdict", verdict)
        admission = None
        if report is not None:
            verdict = checked(report, self.journal).verdict
            commit = str(self.journal.commit_sha)
            trained = [known.get("config_hash"), self.branch.modules(commit)]
            admission = put_on_front(self.run.files.path, report, self.journal, trained)
        facts = {
            "dsl_config": known.get("dsl_config"),
            "config_hash": known.get("config_hash"),
            "coder": coder and {key: coder.get(key) for key in ("tier", "rationale", "commit_message")},
            "verification": verification_of(report, admission),
        }
        outcome = {"verdict": verdict, "cost_usd": cost_usd, "finished_at": timestamp()}
        self.run.history.append({**self.journal.known, **facts, **self.journal.row, **outcome})
        self.run.history.publish()
        fork_graph.publish(self.run)
        return self.run.history.of_attempt(self.journal.round_attempt_id) or {}

    def close(self) -> None:
        """Removes the worktree; the round is no longer in flight."""
        if self.stage != "recorded":
            raise AutoQECError(
                f"round {self.name.round} is not recorded yet", where="close", hint="record it first"
            )
        if self.is_over:
            self._drop()
        self.worktree.remove()
        self._file.close()

    def fail(self, why: Failure | RoleFailure) -> None:
        """Ends a round that got no config that can be trained: a row, and no branch."""
        if not self.needs_code:
            return
        if isinstance(why, RoleFailure):
            self.note(role_failure=why.row())
            self.prepare()
        else:
            self._end(refused_row(self.journal, why))

    def complete(
        self, config: dict[str, Any] | None = None, *, runner: Runner | None = None, **outcome: Any
    ) -> Row:
        """All steps that are left, without analysis and verification. config: for a round that has none yet; outcome: for
        `record`."""
        if self.stage == "begun":
            self.prepare()
        if self.stage == "prepared" and config is not None and self.journal.config is None:
            self.configure(config)
        if self.stage != "recorded":
            if not self.is_over:
                self.train(runner)
            self.record(**outcome)
        row = self.run.history.of_attempt(self.journal.round_attempt_id) or {}
        self.close()
        return row

    def _take(self, coded: Proposal, context: RoundContext, *, is_final: bool) -> Coded | None:
        """Hands the config over, unless it repeats an earlier round."""
        dsl = coded.dsl
        config, details = canonical_dict(dsl), self.journal.details
        repeat = find_repeat(config, context.tried)
        if repeat is None:
            self._file.save(proposal=coded)
            self.configure(config, one_line(coded.commit_message or "", 200) or None)
            return None
        if not is_final and details.get("sent_back") is None:
            self.note(sent_back=repeat)
            return Coded("duplicate", repeat)
        self.note(dsl_config=config, config_hash=canonical_hash(dsl))
        self.fail(Failure("repeat", f"skipped: {repeat}"))
        return Coded("skipped", repeat)

    def _check_budgets(self, context: RoundContext) -> None:
        """In a run that refuses what is over budget. A pure compose round has the config of its merged parents."""
        if not context.refuse_over_budget:
            return
        config = self.journal.config or parent_config(self.journal.proposal.fork_from, context)
        if over := estimate(PredecoderDSL.model_validate(config), context).over_budget:
            raise InputError(
                f"over budget: {'; '.join(over)}",
                where="dsl_config",
                hint="make it cheaper, or start a run without --refuse-over-budget",
            )

    def _runner_config(self, commit: str) -> RunnerConfig:
        dsl = self.branch.config(commit)
        return runner_config(self.journal, self.run.info, dsl, files=self.files, worktree=self.worktree.path)

    def _refused(self, config: RunnerConfig, commit: str) -> RoundMetrics | None:
        bad = self.branch.out_of_scope(self.journal)
        if not bad:
            return None
        reason = f"the branch changes what a round may not change: {', '.join(bad)}"
        metrics = failed_metrics(
            config, commit, Failure("out_of_scope", reason, facts={"paths": ", ".join(bad)})
        )
        write_metrics(self.files, metrics)
        return metrics

    def _rule(self, row: Row) -> Analysis:
        return analyse(row, [member.model_dump(mode="json") for member in read_front(self.run.files.path)])

    def _end(self, row: Row) -> None:
        self._file.save(row=row)
        self._drop()

    def _drop(self) -> None:
        """Leaves the metrics of a round that is over, and neither worktree nor branch."""
        write_metrics(self.files, validate_model(self.journal.row, RoundMetrics, where="journal"))
        self.branch.drop(self.journal.parents)
