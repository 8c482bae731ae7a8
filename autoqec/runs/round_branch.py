"""The branch and the worktree of one round, and what is committed there."""

from __future__ import annotations

import json
from collections.abc import Sequence

from autoqec.decoders.dsl_schema import PredecoderDSL
from autoqec.errors import AutoQECError
from autoqec.eval import scope
from autoqec.eval.scope import MODULES
from autoqec.io.validate import validate_model
from autoqec.layout import ExperimentDir
from autoqec.runs.compose import check_composition
from autoqec.runs.documents import branch_record, committed_config
from autoqec.runs.journal import Journal
from autoqec.runs.mechanisms import from_files, read_files, replace_files, to_files, write_inside
from autoqec.runs.names import RoundName
from autoqec.runs.pointer import Pointer, read_pointer
from autoqec.runs.repository import commit_files
from autoqec.runs.run import Run
from autoqec.runs.worktrees import Worktree


class RoundBranch:
    """Every method may be called again after a kill, and then finds what was done."""

    def __init__(self, run: Run, name: RoundName) -> None:
        self.run, self.name = run, name
        self.git = run.repository.git
        self.worktree = Worktree(run.repository, name, self.git)
        self._record = ExperimentDir("").record(name.run_id, name.round)

    @property
    def exists(self) -> bool:
        return self.git.branch(self.name.branch) is not None

    def make(self, parents: Sequence[str], *, is_pure: bool) -> None:
        """Branch and worktree with all parents merged.

        Raises:
            ComposeConflict: the parents do not merge, or their merge is not what they mean.
        """
        first, *others = parents
        with self.git.lock():
            self.worktree.clear_locks()
            if not self.exists:
                self.git.create_ref(f"refs/heads/{self.name.branch}", first)
            self.worktree.remove()  # a killed merge leaves one that looks whole and is not
            self.worktree.make()
        self.worktree.merge(others)
        if is_pure:
            check_composition(self.git, parents, self._tip())

    def commit(self, journal: Journal) -> str:
        """Everything that defines the round. A config in the journal is written into the worktree first."""
        tip = self._tip()
        if self._attempt_at(tip) == journal.round_attempt_id:  # killed between the commit and the journal
            return tip
        folder = self.worktree.path
        if journal.config is not None:
            dsl = validate_model(journal.config, PredecoderDSL, where="config")
            replace_files(folder, to_files(dsl, read_files(folder)))
        dsl = from_files(read_files(folder))
        write_inside(folder, branch_record(journal, self.run.info, dsl))
        return self.worktree.commit_all(tip, self._message(journal))

    def config(self, commit: str) -> PredecoderDSL:
        return committed_config(self.git, self.name, commit)

    def modules(self, commit: str) -> str | None:
        """The hash of all predecoder code in a commit."""
        return self.git.resolve(f"{commit}:{MODULES}")

    def out_of_scope(self, journal: Journal) -> list[str]:
        """What was committed and may not be changed by a round."""
        return scope.violations(
            self.git,
            self.run.info.base_commit,
            journal.parents,
            journal.commit_sha or "",
            self._record.path.as_posix(),
            is_pure=journal.proposal.compose_mode == "pure",
        )

    def add_pointer(self, pointer: Pointer) -> str:
        """Commits the pointer on top of the round's code; returns that commit."""
        with self.git.lock():
            self.worktree.clear_locks()
            tip = self._tip()
            if tip != pointer.commit_sha:
                return self._pointer_commit(tip, pointer)
            content = {self._record.pointer.as_posix(): pointer.to_json()}
            sha = commit_files(self.git, tip, content, f"Pointer of round {self.name.round}\n")
            self.git.move_ref(f"refs/heads/{self.name.branch}", sha, before=tip)
            return sha

    def drop(self, parents: Sequence[str]) -> None:
        """Removes the worktree, and the branch if nothing but merges was committed; else reconciliation keeps it."""
        with self.git.lock():
            self.worktree.clear_locks()
            self.worktree.remove()
            tip = self.git.branch(self.name.branch)
            if tip is not None and not self.git("rev-list", "--no-merges", tip, "--not", *parents):
                self.git.delete_ref(f"refs/heads/{self.name.branch}", before=tip)

    def _tip(self) -> str:
        tip = self.git.branch(self.name.branch)
        if tip is None:
            raise AutoQECError(
                f"branch {self.name.branch} is gone while its round is in flight",
                hint="run autoqec reconcile",
            )
        return tip

    def _attempt_at(self, commit: str) -> str | None:
        content = self.git.file_at(commit, self._record.attempt.as_posix())
        return None if content is None else json.loads(content).get("round_attempt_id")

    def _message(self, journal: Journal) -> str:
        subject = journal.commit_message or f"Round {self.name.round}: {journal.proposal.hypothesis}"
        printable = "".join(char for char in subject if char.isprintable() or char == "\n").strip()
        return f"{printable or self.name.slug}\n\nAutoQEC-Attempt: {journal.round_attempt_id}\n"

    def _pointer_commit(self, tip: str, pointer: Pointer) -> str:
        """The tip, if it is the pointer's commit: a killed process had come that far."""
        content = self.git.file_at(tip, self._record.pointer.as_posix())
        attempt = None if content is None else read_pointer(content, where=self.name.branch).round_attempt_id
        if attempt != pointer.round_attempt_id:
            raise AutoQECError(
                f"branch {self.name.branch} was moved to {tip[:12]} while its round ran",
                where=str(self.run.repository.root),
                hint=f"look at it, then move it back: git branch -f {self.name.branch} {pointer.commit_sha}",
            )
        return tip
