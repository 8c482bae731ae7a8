"""Start-up reconciliation: what branches, worktrees, journals and history say is brought to agree.

Every action can be repeated, and destroys nothing that is committed. Rounds in flight are not drift: the loop
resumes them. What only a person can decide is left as it is and named, and the run pauses.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any
from uuid import uuid4

from autoqec.errors import InputError
from autoqec.eval.pareto import read_front
from autoqec.io.clock import timestamp
from autoqec.io.crash_points import crash_point
from autoqec.io.jsonl import Row
from autoqec.layout import ExperimentDir
from autoqec.runs import fork_graph
from autoqec.runs.experiment import Experiment
from autoqec.runs.history import FOLLOW_UPS
from autoqec.runs.names import parse_branch
from autoqec.runs.plan import is_parallel
from autoqec.runs.pointer import read_pointer
from autoqec.runs.run import Run
from autoqec.runs.stale_locks import clear_stale_locks, stale_worktrees


@dataclass
class Report:
    """actions: what was done, or would be, as (kind, what it was done to). pauses: what a person has to decide."""

    actions: list[tuple[str, str]] = field(default_factory=list)
    pauses: list[str] = field(default_factory=list)
    in_flight: list[str] = field(default_factory=list)


def reconcile(
    run: Run,
    *,
    dry_run: bool = False,
    record: Callable[[Experiment], object] = Experiment.record,
) -> Report:
    """Brings the run in order. The caller holds `run.exclusive()`. record: of a round that had ended without a row. Of rounds side by
    side, none is: the loop records them in their order."""
    return _Reconciliation(run, dry_run, record).go()


class _Reconciliation:
    def __init__(self, run: Run, dry_run: bool, record: Callable[[Experiment], object]) -> None:
        self.run, self.dry_run, self.record = run, dry_run, record
        self.git = run.repository.git
        self.report = Report()
        self.prefix = f"exp/{run.run_id}/"

    def go(self) -> Report:
        if torn := self.run.history.torn():
            self._do("cut_torn_row", repr(torn[:80]), self.run.history.repair)
        with self.git.lock():
            for lock in clear_stale_locks(self.run, self.git, dry_run=self.dry_run):
                self.report.actions.append(("clear_lock", str(lock)))
            if not self.dry_run:
                self.git("worktree", "prune")
            for worktree in stale_worktrees(self.run, self.git):
                self._do("remove_worktree", worktree.name.worktree, worktree.remove)
        self._sweep()
        for experiment in Experiment.in_flight(self.run):
            self._resume(experiment)
        self._undecided_orphans()
        with self.git.lock():
            self._unknown_branches()
        self._deleted_branches()
        self._lost_members()
        if not self.dry_run:
            self.run.history.publish()
            fork_graph.publish(self.run)
        return self.report

    def _do(self, kind: str, target: str, function: Callable[[], object]) -> None:
        self.report.actions.append((kind, target))
        if not self.dry_run:
            crash_point(f"before reconciling {kind}")
            function()
            crash_point(f"after reconciling {kind}")

    def _pause(self, why: str) -> None:
        if why not in self.report.pauses:
            self.report.pauses.append(why)

    def _sweep(self) -> None:
        """Temporary files of writes that were cut off."""
        for folder in (self.run.files.path, self.run.files.in_flight):
            for path in sorted(folder.glob(".*.tmp")):
                self._do("remove_temporary", path.name, partial(path.unlink, missing_ok=True))

    def _resume(self, experiment: Experiment) -> None:
        """Closes a round that has ended but for its worktree, and gives one that can resume its branch back."""
        journal = experiment.journal
        name = f"round {experiment.name.round}"
        if experiment.is_over and experiment.stage != "recorded" and not is_parallel(self.run.files):
            self._do("record_round", name, partial(self.record, experiment))
        if experiment.stage == "recorded":
            self._do("close_round", name, experiment.close)
            return
        self.report.in_flight.append(f"{name} ({experiment.stage})")
        tip = journal.pointer_sha or journal.commit_sha
        if tip is not None and self.git.branch(experiment.name.branch) is None:
            if self.git.resolve(tip) is None:
                self._pause(f"{name} is in flight, and its commit {tip} is gone")
                return
            restore = partial(self.git.create_ref, f"refs/heads/{experiment.name.branch}", tip)
            self._do("restore_branch", experiment.name.branch, restore)

    def _undecided_orphans(self) -> None:
        """Branches of attempts that nothing names, for as long as they are in quarantine: a person takes them out."""
        for row in self.run.history.rows():
            is_nameless = row["status"] == "orphaned_branch" and row["round_attempt_id"] is None
            if is_nameless and self.git.branch(row["branch"]) is not None:
                self._pause(self._undecided(row["branch"]))

    def _undecided(self, moved: str) -> str:
        git = f"git -C {shlex.quote(str(self.run.repository.root))} branch"
        return (
            f"branch {moved} belongs to an attempt that nothing names: look at it, then take it out of quarantine. "
            f"`{git} -m {moved} NAME` keeps it under another name, `{git} -D {moved}` deletes it"
        )

    def _unknown_branches(self) -> None:
        """In git and not in history."""
        branches = {
            ref.removeprefix("refs/heads/"): sha
            for ref, sha in self.git.refs(f"refs/heads/{self.prefix}").items()
        }
        rows = self.run.history.rows()
        known = {row["branch"] for row in rows} | {file.journal.name.branch for file in self.run.journals()}
        kept = [self.run.info.base_commit, *(sha for name, sha in branches.items() if name in known)]
        for name, tip in branches.items():
            if name in known:
                continue
            if place := self._checked_out(name):
                self._pause(f"branch {name} is not in history and is checked out in {place}")
            elif self._is_empty(tip, kept) and not self._has_artifacts(name, rows):
                delete = partial(self.git.delete_ref, f"refs/heads/{name}", before=tip)
                self._do("delete_empty_branch", name, delete)
            else:
                self._quarantine(name, tip)

    def _quarantine(self, name: str, tip: str) -> None:
        moved = f"quarantine/{name.removeprefix('exp/')}"
        there = self.git.branch(moved)
        if there not in (None, tip):
            self._pause(f"branch {name} is not in history, and {moved} already exists with another commit")
            return
        row = self._orphan(name, moved, tip)
        if row["reconcile_id"] is not None:
            self._pause(self._undecided(moved))

        def move() -> None:
            if there is None:
                self.git.create_ref(f"refs/heads/{moved}", tip)
            self.run.history.append(row)
            self.git.delete_ref(f"refs/heads/{name}", before=tip)

        self._do("quarantine_branch", name, move)

    def _orphan(self, name: str, moved: str, tip: str) -> Row:
        origin = self._origin(name, tip)
        return {
            "status": "orphaned_branch",
            "failure_kind": "orphaned_branch",
            "status_reason": f"branch {name} was not in history; it is kept as {moved}",
            "branch": moved,
            "commit_sha": origin.get("commit_sha") or tip,
            "round": origin.get("round"),
            "round_attempt_id": origin.get("round_attempt_id"),
            "reconcile_id": None if origin.get("round_attempt_id") else str(uuid4()),
            "finished_at": timestamp(),
        }

    def _origin(self, name: str, tip: str) -> dict[str, Any]:
        """The attempt of a branch: from its pointer, or from the record that came with its code."""
        try:
            parsed = parse_branch(name)
        except InputError:
            return {}
        record = ExperimentDir("").record(parsed.run_id, parsed.round)
        content = self.git.file_at(tip, record.pointer.as_posix())
        if content is not None:
            try:
                pointer = read_pointer(content, where=name)
                return {
                    "round": parsed.round,
                    "round_attempt_id": pointer.round_attempt_id,
                    "commit_sha": pointer.commit_sha,
                }
            except InputError:
                pass  # a pointer with a gap names nothing
        try:
            attempt = json.loads(self.git.file_at(tip, record.attempt.as_posix()) or b"{}").get(
                "round_attempt_id"
            )
        except (ValueError, AttributeError):
            attempt = None
        return {
            "round": parsed.round,
            "round_attempt_id": attempt if isinstance(attempt, str) and attempt else None,
        }

    def _is_empty(self, tip: str, kept: list[str]) -> bool:
        """Every commit of the branch is kept by the base or by a branch that history knows."""
        return self.git("rev-list", "--count", tip, "--not", *kept).strip() == "0"

    def _has_artifacts(self, name: str, rows: list[Row]) -> bool:
        try:
            number = parse_branch(name).round
        except InputError:
            return False
        folder = self.run.files.round(number).path
        return all(row["round"] != number for row in rows) and folder.is_dir() and any(folder.iterdir())

    def _checked_out(self, name: str) -> str:
        return self.git("for-each-ref", "--format=%(worktreepath)", f"refs/heads/{name}").strip()

    def _deleted_branches(self) -> None:
        """In history and not in git."""
        rows = self.run.history.rows()
        noted = {row["branch"] for row in rows if row["status"] == "branch_manually_deleted"}
        for row in rows:
            branch = row["branch"]
            if (
                branch is None
                or row["status"] in FOLLOW_UPS[1:]
                or branch in noted
                or self.git.branch(branch)
            ):
                continue
            self._do(
                "note_deleted_branch", branch, partial(self.run.history.append, self._deleted(branch, row))
            )
            noted.add(branch)

    def _deleted(self, branch: str, row: Row) -> Row:
        reason = f"branch {branch} is gone"
        if row["commit_sha"] is not None:
            reason += f"; while git keeps it, `git branch {branch} {row['commit_sha']}` restores it"
        attempt, known = row["round_attempt_id"], row["reconcile_id"]
        return {
            "status": "branch_manually_deleted",
            "failure_kind": "branch_deleted",
            "status_reason": reason,
            "branch": branch,
            "commit_sha": None,
            "round": row["round"],
            "round_attempt_id": attempt,
            "reconcile_id": known if attempt or known else str(uuid4()),
            "finished_at": timestamp(),
        }

    def _lost_members(self) -> None:
        for member in read_front(self.run.files.path):
            if self.git.resolve(member.commit_sha) is None:
                self._pause(
                    f"{member.branch} is on the Pareto front, and its commit {member.commit_sha} is gone"
                )
