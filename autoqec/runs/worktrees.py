"""Worktrees of rounds: made, composed, repaired and removed. They live in `.worktrees/` of the experiment repository.

A killed `git worktree add` leaves a folder without a registration, a registration without a folder, or one that is locked
as "initializing"; a killed git leaves lock files. All of them are AutoQEC's own by their names, and are repaired
under the repository's lock, where no git of AutoQEC can be running.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from autoqec.errors import AutoQECError, InputError
from autoqec.io.crash_points import crash_point
from autoqec.io.git import Git, own_repositories
from autoqec.io.removal import remove_tree
from autoqec.io.untrusted_file import read_regular
from autoqec.layout import ExperimentDir
from autoqec.runs.names import RoundName
from autoqec.runs.repository import Repository, own_index


class ComposeConflict(AutoQECError):
    """Parents that do not merge; `files` are those they disagree on."""

    def __init__(self, reason: str, files: Sequence[str]) -> None:
        self.files = list(files)
        super().__init__(f"{reason}: {', '.join(self.files[:10])}", where="compose")


@dataclass(frozen=True)
class Limits:
    """max_worktrees: of all runs in the repository. min_free_gb: disk space that must be left before one is made."""

    max_worktrees: int = 3
    min_free_gb: float = 1.0


class Worktree:
    """The worktree of one round; it need not be there."""

    def __init__(self, repository: Repository, name: RoundName, git: Git) -> None:
        self.name = name
        self.path = repository.worktrees / name.worktree
        self._git = git
        self._admin = git.common_dir / "worktrees" / name.worktree

    @property
    def is_whole(self) -> bool:
        """Registered, on its branch, and neither half made nor in the middle of a merge."""
        head = self._admin / "HEAD"
        return (
            not self.path.is_symlink()
            and self._is_linked()
            and head.is_file()
            and head.read_text().strip() == f"ref: refs/heads/{self.name.branch}"
            and not (self._admin / "locked").exists()
            and not (self._admin / "MERGE_HEAD").exists()
            and (self._admin / "index").exists()
        )

    def _is_linked(self) -> bool:
        """Whether `.git` in it is the file that git put there. git is never asked by way of it; people and their tools are."""
        try:
            text = read_regular(self.path / ".git", limit=1 << 16).decode()
        except (InputError, UnicodeDecodeError):
            return False
        word, _, named = text.rstrip("\n").partition(": ")
        return word == "gitdir" and (self.path / named).resolve() == self._admin.resolve()

    @property
    def _inside(self) -> Git:
        return self._git.worktree(self.path, self._admin)

    @property
    def exists(self) -> bool:
        """Any trace of it, also of one that was half made."""
        return os.path.lexists(self.path) or self._admin.exists()

    def make(self) -> None:
        """Checks out the branch, whatever an earlier attempt left; keeps a worktree that is whole."""
        with self._git.lock():
            self.clear_locks()
            if self.is_whole:
                return
            self.remove()
            self.path.parent.mkdir(parents=True, exist_ok=True)
            variables = self._git.no_attributes()
            self._git("worktree", "add", "--quiet", str(self.path), self.name.branch, variables=variables)

    def merge(self, parents: Sequence[str]) -> None:
        """Merges parents into the branch, one after the other; those that are in already are passed over.

        Raises:
            ComposeConflict: the merge was aborted, and the branch has none of this parent.
        """
        with self._git.lock():
            for parent in parents:
                if self._git.is_ancestor(parent, self._tip()):
                    continue
                inside = self._inside
                message = f"Merge {parent[:12]} into {self.name.branch}"
                options = ("--no-ff", "--no-verify", "--quiet", "-m", message)
                code, _ = inside.run("merge", *options, parent, codes=(0, 1))
                if code == 1:
                    files = {entry.partition("\t")[2] for entry in inside.paths("ls-files", "-u", "-z")}
                    inside("merge", "--abort")  # fails if it was no conflict that stopped the merge
                    raise ComposeConflict("the parents change the same lines", sorted(files))

    def commit_all(self, before: str, message: str) -> str:
        """Commits the folder as it is on top of `before` and moves the branch there. Neither the worktree's own index nor the
        `.git` file in it, which others could have changed, is used.

        Raises:
            InputError: it holds a repository of its own.
        """
        if nested := own_repositories(self.path):
            raise InputError(
                "a repository of its own is not part of a round", where=str(nested[0]), hint="remove it"
            )
        with own_index(self._git) as index:
            inside = self._inside
            inside("read-tree", before, variables=index)
            inside("add", "--all", variables=index)
            inside("add", "--all", "--force", "--", ExperimentDir.NAME, variables=index)
            tree = inside("write-tree", variables=index).strip()
            commit = self._git("commit-tree", tree, "-p", before, "-F", "-", stdin=message).strip()
            self._git.move_ref(f"refs/heads/{self.name.branch}", commit, before=before)
            return commit

    def reset(self, commit: str) -> None:
        """Makes the folder exactly what is committed: what runs is what the branch says."""
        with self._git.lock():
            self.make()
            for nested in own_repositories(self.path):
                remove_tree(nested)
            # An index can say of a file that it need not be looked at.
            (self._admin / "index").unlink(missing_ok=True)
            inside = self._inside
            inside("reset", "--hard", "--quiet", commit)
            inside("clean", "-ffdxq")

    def remove(self) -> None:
        """Removes the folder and its registration. What is committed stays on the branch."""
        with self._git.lock():
            crash_point("before removing a worktree")
            remove_tree(self.path)
            crash_point("between folder and registration of a worktree")
            # Not `git worktree remove`: it trusts the folder, in which foreign code ran, and it refuses half-made ones.
            remove_tree(self._admin)
            crash_point("after removing a worktree")

    def clear_locks(self) -> None:
        """Removes lock files that a killed git left in this worktree and on its branch."""
        with self._git.lock():
            branch = self._git.common_dir / "refs" / "heads" / f"{self.name.branch}.lock"
            for lock in [*self._admin.glob("*.lock"), branch]:
                lock.unlink(missing_ok=True)

    def _tip(self) -> str:
        tip = self._git.branch(self.name.branch)
        if tip is None:
            raise AutoQECError(f"branch {self.name.branch} is gone", where="worktree")
        return tip


def active_worktrees(repository: Repository) -> list[str]:
    """Names of the worktrees of all runs that are there, whole or not."""
    folder = repository.worktrees
    names = {path.name for path in folder.iterdir()} if folder.is_dir() else set()
    registered = repository.git.common_dir / "worktrees"
    names |= {path.name for path in registered.iterdir()} if registered.is_dir() else set()
    return sorted(name for name in names if name.startswith("exp-"))


def free_gb(folder: Path) -> float:
    while not folder.exists():
        folder = folder.parent
    return shutil.disk_usage(folder).free / 2**30
