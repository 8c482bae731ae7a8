"""A run: its folder, its repository, its history, and the rounds in flight."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Literal
from uuid import uuid4

from autoqec.decoders.dsl_schema import PredecoderDSL
from autoqec.errors import InputError
from autoqec.io import atomic
from autoqec.io.clock import timestamp
from autoqec.io.git import Git
from autoqec.io.hashing import sha256_file
from autoqec.io.jsonl import Row
from autoqec.io.locks import locked
from autoqec.io.untrusted_file import is_there
from autoqec.io.validate import load_model
from autoqec.layout import RunDir, runs_folder, worktree_prefix
from autoqec.runner.schema import canonical_fork
from autoqec.runs.history import HistoryStore
from autoqec.runs.journal import Journal, JournalFile, open_journals
from autoqec.runs.names import (
    RoundName,
    check_run_id,
    check_slug,
    parse_branch,
    run_id_at,
    slug_of,
)
from autoqec.runs.repository import Repository
from autoqec.runs.run_info import RunInfo, locate_env
from autoqec.runs.worktrees import Limits, Worktree, active_worktrees, free_gb
from autoqec.search.proposal import BASELINE, BASELINE_CONFIG, Proposal


class Run:
    """One run. Use `create` or `open`."""

    def __init__(self, folder: Path, info: RunInfo, limits: Limits | None = None) -> None:
        self.files = RunDir(folder.resolve())
        self.info = info
        self.limits = limits or Limits()
        self.repository = Repository(Path(info.repository))
        self.history = HistoryStore(self.files)

    @classmethod
    def create(
        cls,
        workspace: Path,
        env: str,
        repository: Repository,
        *,
        config: PredecoderDSL | None = None,
        training_profile: Literal["dev", "prod"] | None = None,
        limits: Limits | None = None,
        run_id: str | None = None,
    ) -> Run:
        """A new run in `runs/` of the workspace. config: what rounds that fork from the baseline start from. run_id: to repeat
        another run, since all seeds are derived from it; by default the time."""
        name, path = locate_env(env)
        git = repository.git
        for blocked in ("exp", "quarantine"):
            if git.branch(blocked) is not None:
                raise InputError(
                    f"a branch is called {blocked!r}, so that none can be called {blocked}/...",
                    where=str(repository.root),
                    hint=f"rename it: git branch -m {blocked} my-{blocked}",
                )
        if run_id is not None and (left := git.refs(f"refs/heads/exp/{check_run_id(run_id)}/")):
            raise InputError(
                f"the repository has branches of a run {run_id}, such as {next(iter(left)).removeprefix('refs/heads/')}",
                where=str(repository.root),
                hint="choose another run id, or resume that run in its own folder",
            )
        repository.hide_worktrees()
        folder = _new_folder(runs_folder(workspace), run_id)
        info = RunInfo(
            run_id=folder.name,
            created_at=timestamp(),
            env=name,
            env_yaml_sha256=sha256_file(path),
            repository=str(repository.root),
            base_commit=repository.make_base(folder.name, config or BASELINE_CONFIG),
            training_profile=training_profile,
        )
        run = cls(folder, info, limits)
        atomic.write_text(run.files.about, json.dumps(info.model_dump(mode="json"), indent=2) + "\n")
        return run

    @classmethod
    def open(cls, folder: Path, limits: Limits | None = None) -> Run:
        about = RunDir(folder).about
        if not about.is_file():
            raise InputError("is not the folder of a run: it has no run.json", where=str(folder))
        info = load_model(about, RunInfo)
        check_run_id(info.run_id)
        if not is_there(Path(info.repository) / ".git"):
            raise InputError(
                f"the run's repository {info.repository} is gone, or no git repository",
                where=str(about),
                hint="move it back to its place",
            )
        return cls(folder, info, limits)

    @property
    def run_id(self) -> str:
        return self.info.run_id

    @contextmanager
    def exclusive(self) -> Iterator[None]:
        """Held by the loop for as long as it works on the run; a second loop is told who holds it."""
        with locked(self.files.lock, wait=False):
            yield

    def journals(self) -> list[JournalFile]:
        return list(open_journals(self.files))

    def checked_out(self) -> list[str]:
        """The run's rounds that have a worktree, whole or not: `<NN>-<slug>`."""
        prefix = worktree_prefix(self.run_id)
        names = active_worktrees(self.repository)
        return [name.removeprefix(prefix) for name in names if name.startswith(prefix)]

    def next_round(self) -> int:
        """The number that the next round gets."""
        return self._next_round(self.repository.git, self.history.rows(), self.journals())

    def begin(self, proposal: Proposal) -> JournalFile:
        """Puts the intent of a new round on disk. The same attempt again finds the round that is in flight.

        Nothing else happens yet: no branch and no folder.
        """
        slug = check_slug(slug_of(proposal.hypothesis) if proposal.slug is None else proposal.slug)
        attempt = proposal.round_attempt_id or str(uuid4())
        with locked(self.files.state_lock):
            journals = self.journals()
            for open_one in journals:
                if open_one.journal.round_attempt_id == attempt:
                    return open_one
            rows = self.history.rows()
            if any(row["round_attempt_id"] == attempt for row in rows):
                raise InputError(f"attempt {attempt} is recorded already", where="round_attempt_id")
            git = self.repository.git
            self._check_new_composition(proposal, rows, journals)
            parents = self._parents(git, proposal.fork_from, rows)
            self._check_limits(journals)
            name = RoundName(self.run_id, self._next_round(git, rows, journals), slug)
            self._check_free(git, name)
            file = JournalFile(self.files, Journal.of(name, attempt, proposal, parents))
            file.save()
            return file

    def _parents(self, git: Git, fork_from: str | list[str], rows: list[Row]) -> list[str]:
        names = [fork_from] if isinstance(fork_from, str) else fork_from
        commits = [self._parent(git, name, rows) for name in names]
        for name, commit in zip(names, commits, strict=True):
            for other_name, other in zip(names, commits, strict=True):
                if name != other_name and git.is_ancestor(commit, other):
                    raise InputError(
                        f"{other_name} contains {name} already: there is nothing to compose",
                        where="fork_from",
                    )
        return commits

    def _parent(self, git: Git, name: str, rows: list[Row]) -> str:
        """The commit to fork from: the tip of a branch that history knows and that still holds what it knows."""
        if name == BASELINE:
            return self.info.base_commit
        if parse_branch(name).run_id != self.run_id:
            raise InputError(f"{name} is a branch of another run", where="fork_from")
        recorded = [row for row in rows if row["branch"] == name and row["commit_sha"] is not None]
        known = sorted({str(row["branch"]) for row in rows if row["branch"]})
        if not recorded:
            hint = f"known: {', '.join([BASELINE, *known[-20:]])}"
            raise InputError(f"{name} is not a branch with a recorded round", where="fork_from", hint=hint)
        tip = git.branch(name)
        if tip is None:
            raise InputError(f"branch {name} is gone", where="fork_from", hint="run autoqec reconcile")
        if not git.is_ancestor(recorded[0]["commit_sha"], tip):
            raise InputError(
                f"branch {name} no longer holds commit {recorded[0]['commit_sha'][:12]} of its round: its history was rewritten",
                where="fork_from",
            )
        return tip

    def _check_new_composition(
        self, proposal: Proposal, rows: list[Row], journals: list[JournalFile]
    ) -> None:
        if isinstance(proposal.fork_from, str):
            return
        canonical = canonical_fork(proposal.fork_from)
        proposed = {row["fork_from_canonical"] for row in rows}
        proposed |= {canonical_fork(file.journal.proposal.fork_from) for file in journals}
        if canonical in proposed:
            raise InputError(
                f"the composition {canonical} was proposed before", where="fork_from", hint="compose others"
            )

    def _check_limits(self, journals: list[JournalFile]) -> None:
        active = {*active_worktrees(self.repository), *(file.journal.name.worktree for file in journals)}
        if len(active) >= self.limits.max_worktrees:
            raise InputError(
                f"{len(active)} worktrees are active, and {self.limits.max_worktrees} are allowed",
                where=str(self.repository.worktrees),
                hint="finish a round, or run autoqec reconcile if none is running",
            )
        for place in (self.repository.worktrees, self.files.path):
            if (free := free_gb(place)) < self.limits.min_free_gb:
                raise InputError(
                    f"{free:.2f} GB of disk space are free, and {self.limits.min_free_gb:g} are required",
                    where=str(place),
                    hint="free some space",
                )

    def _next_round(self, git: Git, rows: list[Row], journals: list[JournalFile]) -> int:
        """Above every number that was ever used: by a row, a folder, a round in flight or a branch."""
        used = (
            [row["round"] or 0 for row in rows]
            + [file.journal.round for file in journals]
            + self.files.rounds()
        )
        for kind in ("exp", "quarantine"):
            prefix = f"refs/heads/{kind}/{self.run_id}/"
            numbers = (ref.removeprefix(prefix).partition("-")[0] for ref in git.refs(prefix))
            used += [int(number) for number in numbers if number.isdecimal() and len(number) < 10]
        return 1 + max(used, default=0)

    def _check_free(self, git: Git, name: RoundName) -> None:
        """A name that is taken halts the round: what is there may be somebody's."""
        hint = "rename or remove it yourself, or choose another slug"
        if git.branch(name.branch) is not None:
            raise InputError(f"branch {name.branch} exists", where=str(self.repository.root), hint=hint)
        if (worktree := Worktree(self.repository, name, git)).exists:
            raise InputError("already exists", where=str(worktree.path), hint=hint)


def _new_folder(runs: Path, run_id: str | None = None) -> Path:
    """A folder of that name, or one named by the time; of two runs within a second, or after the clock was set back, the later one is named
    by the next second that is free."""
    moment = datetime.now(UTC)
    try:
        runs.mkdir(parents=True, exist_ok=True)
        while True:
            folder = runs / (run_id_at(moment) if run_id is None else check_run_id(run_id))
            try:
                folder.mkdir()
                return folder
            except FileExistsError:
                if run_id is not None and not RunDir(folder).about.exists():
                    return folder  # of a process that was killed before there was a run
                if run_id is not None:
                    raise InputError(
                        "already exists", where=str(folder), hint=f"resume it: --resume {run_id}"
                    ) from None
                moment += timedelta(seconds=1)
    except OSError as error:
        raise InputError(
            f"cannot make a run here: {error.strerror}",
            where=str(runs),
            hint="choose a folder that can be written",
        ) from error
