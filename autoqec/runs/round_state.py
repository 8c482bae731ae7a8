"""How far a round is, read off its journal, its branch, its files and the history."""

from __future__ import annotations

import time
from typing import Any, Literal

from autoqec.decoders.dsl_schema import PredecoderDSL, canonical_dict, canonical_hash
from autoqec.errors import InputError
from autoqec.io.jsonl import Row
from autoqec.runner.schema import canonical_fork
from autoqec.runs.journal import Journal, JournalFile
from autoqec.runs.round_branch import RoundBranch
from autoqec.runs.run import Run
from autoqec.search.proposal import Proposal

Stage = Literal["begun", "prepared", "committed", "trained", "pointed", "recorded"]


class RoundState:
    """What is known about a round in flight; `Experiment` adds the steps."""

    def __init__(self, run: Run, file: JournalFile) -> None:
        self.run = run
        self._file = file
        self.name = file.journal.name
        self.branch = RoundBranch(run, self.name)
        self.worktree = self.branch.worktree
        self.files = run.files.round(self.name.round)

    @property
    def journal(self) -> Journal:
        return self._file.journal

    @property
    def proposal(self) -> Proposal:
        return self.journal.proposal

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

    @property
    def needs_code(self) -> bool:
        """Nothing is committed yet, and the round has not ended."""
        return self.journal.row is None and self.journal.commit_sha is None

    @property
    def is_candidate(self) -> bool:
        """The analysis on record finds the round worth a verification."""
        return (self.journal.details.get("analysis") or {}).get("verdict") == "candidate"

    @property
    def config(self) -> PredecoderDSL | None:
        """What was committed; None before that."""
        commit = self.journal.commit_sha
        return None if commit is None else self.branch.config(commit)

    @property
    def row(self) -> Row:
        """What is known about the round, as history will say it."""
        return {**self.journal.known, **self._config, **(self.journal.row or {})}

    @property
    def _config(self) -> Row:
        dsl = self.config
        return {} if dsl is None else {"dsl_config": canonical_dict(dsl), "config_hash": canonical_hash(dsl)}

    @property
    def proposed(self) -> Row:
        """The same without what was measured."""
        journal = self.journal
        named = {
            "round": journal.round,
            "hypothesis": journal.proposal.hypothesis,
            "fork_from": journal.proposal.fork_from,
        }
        return {
            **named,
            "fork_from_canonical": canonical_fork(journal.proposal.fork_from),
            **journal.known,
            **self._config,
        }

    @property
    def result(self) -> Row:
        """The same, of a round that was trained or has ended."""
        if self.journal.row is None:
            raise InputError(
                f"round {self.name.round} has no result yet", where="analyse", hint="train it first"
            )
        return self.row

    def note(self, **details: Any) -> None:
        """What the history row will say besides the metrics."""
        self._file.save(details={**self.journal.details, **details})

    def note_rest(self) -> None:
        """The time since the last sign of life of a round that a process left in flight: it does not count in the budget."""
        journal = self.run.files.journal(self.name.round)
        seen = [
            path.stat().st_mtime for path in (journal, self.files.path, self.files.train_log) if path.exists()
        ]
        rested = float(self.journal.details.get("rested_s") or 0.0)
        self.note(rested_s=round(rested + max(time.time() - max(seen), 0.0), 1))
