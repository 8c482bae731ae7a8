"""One round from proposal to history. Every step can be called again, and goes on where a killed process left off.

    begin      the intent is on disk                        RoundLifecycle.begin(run, proposal)
    prepare    branch, worktree, parents merged             a conflict ends the round with a row
    configure  the config is handed over                    or whoever codes edits the worktree
    commit     mechanism files, code and record on the branch
    train      a runner in the worktree; out of scope: not trained
    point      the pointer on the branch and beside the artifacts
    record     the row in history
    close      the worktree is removed; the branch stays

The journal says what is intended; what was reached is read off the branch, the artifacts and the history.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Literal

from autoqec.decoders.dsl_schema import PredecoderDSL, canonical_dict
from autoqec.errors import AutoQECError, InputError
from autoqec.eval import scope
from autoqec.eval.schema import VerifyReport
from autoqec.io import atomic
from autoqec.io.clock import timestamp
from autoqec.io.jsonl import Row
from autoqec.io.locks import locked
from autoqec.io.validate import validate_model
from autoqec.layout import ExperimentDir
from autoqec.runner.schema import Failure, FailureKind, RoundMetrics, RunnerConfig
from autoqec.runner.supervise import metrics_of_attempt, write_metrics
from autoqec.runs import fork_graph
from autoqec.runs.compose import check_composition
from autoqec.runs.documents import branch_record, committed_config, pointer_of, runner_config
from autoqec.runs.journal import Journal, JournalFile
from autoqec.runs.mechanisms import from_files, read_files, replace_files, to_files, write_inside
from autoqec.runs.pointer import Pointer, read_pointer
from autoqec.runs.repository import commit_files
from autoqec.runs.rows import conflict_row, refused_row, round_row
from autoqec.runs.run import Proposal, Run
from autoqec.runs.worktree_runner import Runner, SubprocessRunner, believable, failed_metrics
from autoqec.runs.worktrees import ComposeConflict, Worktree
from autoqec.sandbox.kernel_cache import share_kernels

Stage = Literal["begun", "prepared", "committed", "trained", "pointed", "recorded"]


class RoundLifecycle:
    """One round in flight. An object serves one thread; any process may take a round up with `in_flight`."""

    def __init__(self, run: Run, file: JournalFile) -> None:
        self.run = run
        self._file = file
        self.name = file.journal.name
        self.git = run.repository.git
        self.worktree = Worktree(run.repository, self.name, self.git)
        self.files = run.files.round(self.name.round)
        self._record = ExperimentDir("").record(self.name.run_id, self.name.round)

    @classmethod
    def begin(cls, run: Run, proposal: Proposal) -> RoundLifecycle:
        return cls(run, run.begin(proposal))

    @classmethod
    def in_flight(cls, run: Run) -> list[RoundLifecycle]:
        """The rounds that a killed process, or one that is still at work, has begun."""
        return [cls(run, file) for file in run.journals()]

    @property
    def journal(self) -> Journal:
        return self._file.journal

    @property
    def stage(self) -> Stage:
        """The last step that is done."""
        if self.run.history.of_attempt(self.journal.round_attempt_id) is not None:
            return "recorded"
        if self.journal.row is not None:
            has_pointer = self.journal.pointer_sha is not None or self.journal.commit_sha is None
            return "pointed" if has_pointer else "trained"
        if self.journal.commit_sha is not None:
            return "committed"
        return "prepared" if self.journal.prepared else "begun"

    @property
    def is_over(self) -> bool:
        """The round ended before training: nothing is left but to record it."""
        return self.journal.row is not None and self.journal.commit_sha is None

    def prepare(self) -> Path | None:
        """Branch and worktree with all parents; the worktree's folder, or None if the parents conflict."""
        if self.is_over:
            self._drop()
            return None
        if self.journal.prepared and self.git.branch(self.name.branch) is not None:
            self.worktree.make()
            return self.worktree.path
        first, *others = self.journal.parents
        with self.git.lock():
            self.worktree.clear_locks()
            if self.git.branch(self.name.branch) is None:
                self.git.create_ref(f"refs/heads/{self.name.branch}", first)
            self.worktree.remove()  # a killed merge leaves one that looks whole and is not
            self.worktree.make()
        try:
            self.worktree.merge(others)
            if self.journal.compose_mode == "pure":
                check_composition(self.git, self.journal.parents, self._tip())
        except ComposeConflict as conflict:
            self._end(conflict_row(self.journal, conflict))
            return None
        self._file.save(prepared=True)
        return self.worktree.path

    def configure(self, config: dict[str, Any], commit_message: str | None = None) -> None:
        """What `commit` writes into the worktree. Without it, the round is what the worktree's files say then."""
        if self.journal.compose_mode == "pure":
            raise InputError(
                "a pure compose round is the merge itself", where="compose_mode", hint="use with_edit"
            )
        dsl = validate_model(config, PredecoderDSL, where="config")
        self._file.save(config=canonical_dict(dsl), commit_message=commit_message)

    def commit(self) -> str:
        """Everything that defines the round, on its branch; returns the commit that is its provenance."""
        if self.journal.commit_sha is not None:
            return self.journal.commit_sha
        self.prepare()
        tip = self._tip()
        if self._says_attempt(tip):  # killed between the commit and the journal
            self._file.save(commit_sha=tip)
            return tip
        if self.journal.config is not None:
            dsl = validate_model(self.journal.config, PredecoderDSL, where="config")
            replace_files(self.worktree.path, to_files(dsl, read_files(self.worktree.path)))
        dsl = from_files(read_files(self.worktree.path))
        write_inside(self.worktree.path, branch_record(self.journal, self.run.info, dsl))
        sha = self.worktree.commit_all(tip, self._message())
        self._file.save(commit_sha=sha)
        return sha

    def hand_out(self) -> RunnerConfig:
        """What a runner outside of this program is to train, in the worktree as it was committed. `train` then takes what it
        left."""
        config = self._runner_config(self.commit())
        if self.journal.row is None:
            self.files.path.mkdir(parents=True, exist_ok=True)
            share_kernels(self.worktree.path)
            self._file.save(training=True)
        return config

    def train(self, runner: Runner | None = None) -> RoundMetrics:
        """Trains and validates what was committed. A round that changes more than it may is not trained."""
        if self.journal.row is not None:
            return validate_model(self.journal.row, RoundMetrics, where="journal")
        commit = self.commit()
        config = self._runner_config(commit)
        self.files.path.mkdir(parents=True, exist_ok=True)
        metrics = self._refused(config, commit)
        if metrics is None and self.journal.training:
            with locked(self.run.files.guard(self.name.round)), locked(self.files.lock):
                metrics = metrics_of_attempt(self.files, self.journal.round_attempt_id)
        if metrics is None:
            self._file.save(training=True)
            metrics = self._trained(config, commit, runner)
        metrics = believable(metrics, config, commit)
        self._file.save(row=round_row(self.journal, metrics, self.run.history.rows()))
        return metrics

    def point(self) -> Pointer:
        """The pointer: beside the artifacts, and committed on the branch."""
        if self.journal.row is None or self.journal.commit_sha is None:
            raise AutoQECError(
                f"round {self.name.round} has no result to point at", where="point", hint="train it"
            )
        commit = self.journal.commit_sha
        dsl = committed_config(self.git, self.name, commit)
        pointer = pointer_of(self.journal, self.run.info, dsl, self.files)
        atomic.write_bytes(self.files.pointer, pointer.to_json())
        if self.journal.pointer_sha is None:
            with self.git.lock():
                self.worktree.clear_locks()
                tip = self._tip()
                if tip == commit:
                    content = {self._record.pointer.as_posix(): pointer.to_json()}
                    sha = commit_files(self.git, commit, content, f"Pointer of round {self.name.round}\n")
                    self.git.move_ref(f"refs/heads/{self.name.branch}", sha, before=commit)
                else:
                    sha = self._pointer_commit(tip)
            self._file.save(pointer_sha=sha)
        return pointer

    def record(
        self,
        *,
        verdict: str | None = None,
        report: VerifyReport | None = None,
        cost_usd: float | None = None,
        **details: Any,
    ) -> Row:
        """The row in history; what was recorded before stays as it is. The verifier's verdict is the last word."""
        if self.journal.row is None:
            raise AutoQECError(
                f"round {self.name.round} has no result to record yet", where="record", hint="train it"
            )
        if report is not None:
            verdict = self._checked(report).verdict
        said = {"verdict": verdict, "cost_usd": cost_usd, "finished_at": timestamp()}
        self.run.history.append({**self.journal.details, **details, **self.journal.row, **said})
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

    def abandon(self, reason: str, kind: FailureKind = "given_up") -> None:
        """Ends a round that got no config that can be trained: a row, and no branch."""
        if self.journal.commit_sha is None and self.journal.row is None:
            self._end(refused_row(self.journal, Failure(kind, reason)))

    def complete(
        self, config: dict[str, Any] | None = None, *, runner: Runner | None = None, **outcome: Any
    ) -> Row:
        """All steps that are left. config: for a round that has none yet; outcome: for `record`."""
        if self.stage == "begun":
            self.prepare()
        if self.stage == "prepared" and config is not None and self.journal.config is None:
            self.configure(config)
        if self.stage != "recorded":
            if not self.is_over:
                self.train(runner)
                self.point()
            self.record(**outcome)
        row = self.run.history.of_attempt(self.journal.round_attempt_id) or {}
        self.close()
        return row

    def note(self, **details: Any) -> None:
        """What the history row will say besides the metrics."""
        self._file.save(details={**self.journal.details, **details})

    @property
    def config(self) -> PredecoderDSL | None:
        """What was committed; None before that."""
        commit = self.journal.commit_sha
        return None if commit is None else committed_config(self.git, self.name, commit)

    def out_of_scope(self) -> list[str]:
        """What was committed and may not be changed by a round."""
        return scope.violations(
            self.git,
            self.run.info.base_commit,
            self.journal.parents,
            self.journal.commit_sha or "",
            self._record.path.as_posix(),
            is_pure=self.journal.compose_mode == "pure",
        )

    def _runner_config(self, commit: str) -> RunnerConfig:
        dsl = committed_config(self.git, self.name, commit)
        return runner_config(self.journal, self.run.info, dsl, files=self.files, worktree=self.worktree.path)

    def _end(self, row: Row) -> None:
        self._file.save(row=row)
        self._drop()

    def _drop(self) -> None:
        """Leaves the metrics of a round that is over. Removes the worktree, and the branch if nothing but merges was committed;
        else reconciliation keeps it."""
        write_metrics(self.files, validate_model(self.journal.row, RoundMetrics, where="journal"))
        with self.git.lock():
            self.worktree.clear_locks()
            self.worktree.remove()
            tip = self.git.branch(self.name.branch)
            if tip is not None and not self.git(
                "rev-list", "--no-merges", tip, "--not", *self.journal.parents
            ):
                self.git.delete_ref(f"refs/heads/{self.name.branch}", before=tip)

    def _tip(self) -> str:
        tip = self.git.branch(self.name.branch)
        if tip is None:
            raise AutoQECError(
                f"branch {self.name.branch} is gone while its round is in flight",
                hint="run autoqec reconcile",
            )
        return tip

    def _says_attempt(self, commit: str) -> bool:
        content = self.git.file_at(commit, self._record.attempt.as_posix())
        return (
            content is not None
            and json.loads(content).get("round_attempt_id") == self.journal.round_attempt_id
        )

    def _message(self) -> str:
        subject = self.journal.commit_message or f"Round {self.name.round}: {self.journal.hypothesis}"
        clean = (
            "".join(char for char in subject if char.isprintable() or char == "\n").strip() or self.name.slug
        )
        return f"{clean}\n\nAutoQEC-Attempt: {self.journal.round_attempt_id}\n"

    def _refused(self, config: RunnerConfig, commit: str) -> RoundMetrics | None:
        bad = self.out_of_scope()
        if not bad:
            return None
        reason = f"the branch changes what a round may not change: {', '.join(bad)}"
        metrics = failed_metrics(
            config, commit, Failure("out_of_scope", reason, facts={"paths": ", ".join(bad)})
        )
        write_metrics(self.files, metrics)
        return metrics

    def _trained(self, config: RunnerConfig, commit: str, runner: Runner | None) -> RoundMetrics:
        self.worktree.reset(commit)
        share_kernels(self.worktree.path)
        return (runner or SubprocessRunner())(config)

    def _pointer_commit(self, tip: str) -> str:
        """The tip, if it is the pointer's commit: a killed process had come that far."""
        content = self.git.file_at(tip, self._record.pointer.as_posix())
        attempt = None if content is None else read_pointer(content, where=self.name.branch).round_attempt_id
        if attempt != self.journal.round_attempt_id:
            raise AutoQECError(
                f"branch {self.name.branch} was moved to {tip[:12]} while its round ran",
                where=str(self.run.repository.root),
                hint=f"look at it, then move it back: git branch -f {self.name.branch} {self.journal.commit_sha}",
            )
        return tip

    def _checked(self, report: VerifyReport) -> VerifyReport:
        """A report that speaks of this round."""
        if (report.branch, report.commit_sha) not in (
            (None, None),
            (self.name.branch, self.journal.commit_sha),
        ):
            raise InputError(f"speaks of {report.branch} at {report.commit_sha}", where="verification report")
        if isinstance(self.journal.fork_from, list) and report.paired_eval_bundle_id is None:
            raise InputError("a compose round is verified on a paired bundle", where="paired_eval_bundle_id")
        return report
