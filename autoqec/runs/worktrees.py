"""Worktrees of rounds: made, composed, repaired and removed. They live in `.worktrees/` of the experiment repository.

A killed `git worktree add` leaves a folder without a registration, a registration without a folder, or one that is locked
as "initializing"; a killed git leaves lock files. All of them are AutoQEC's own by their names, and are repaired
under the repository's lock, where no git of AutoQEC can be running.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from autoqec.errors import AutoQECError
from autoqec.io.crash_points import crash_point
from autoqec.io.git import Git
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
        link = self.path / ".git"
        return (
            not self.path.is_symlink()
            and link.is_file()
            and not link.is_symlink()
            and head.is_file()
            and head.read_text().strip() == f"ref: refs/heads/{self.name.branch}"
            and not (self._admin / "locked").exists()
            and not (self._admin / "MERGE_HEAD").exists()
            and (self._admin / "index").exists()
        )

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
            self._git("worktree", "add", "--quiet", str(self.path), self.name.branch)

    def merge(self, parents: Sequence[str]) -> None:
        """Merges parents into the branch, one after the other; those that are in already are passed over.

        Raises:
            ComposeConflict: the merge was aborted, and the branch has none of this parent.
        """
        with self._git.lock():
            for parent in parents:
                if self._git.is_ancestor(parent, self._tip()):
                    continue
                message = f"Merge {parent[:12]} into {self.name.branch}"
                options = ("--no-ff", "--no-verify", "--quiet", "-m", message)
                code, _ = self._git.run("merge", *options, parent, codes=(0, 1), cwd=self.path)
                if code == 1:
                    files = self._git.paths("diff", "--name-only", "--diff-filter=U", "-z", cwd=self.path)
                    # fails if it was no conflict that stopped the merge
                    self._git("merge", "--abort", cwd=self.path)
                    raise ComposeConflict("the parents change the same lines", sorted(set(files)))

    def commit_all(self, before: str, message: str) -> str:
        """Commits the folder as it is on top of `before` and moves the branch there. Neither the worktree's own index nor the
        `.git` file in it, which others could have changed, is used."""
        with own_index(self._git) as index:
            variables = {**index, "GIT_DIR": str(self._admin), "GIT_WORK_TREE": str(self.path)}
            self._git("read-tree", before, variables=variables)
            self._git("add", "--all", cwd=self.path, variables=variables)
            self._git("add", "--all", "--force", "--", ExperimentDir.NAME, cwd=self.path, variables=variables)
            tree = self._git("write-tree", variables=variables).strip()
            commit = self._git("commit-tree", tree, "-p", before, "-F", "-", stdin=message).strip()
            self._git.move_ref(f"refs/heads/{self.name.branch}", commit, before=before)
            return commit

    def reset(self, commit: str) -> None:
        """Makes the folder exactly what is committed: what runs is what the branch says."""
        variables = {"GIT_DIR": str(self._admin), "GIT_WORK_TREE": str(self.path)}
        with self._git.lock():
            self.make()
            self._git("reset", "--hard", "--quiet", commit, cwd=self.path, variables=variables)
            self._git("clean", "-ffdxq", cwd=self.path, variables=variables)

    def remove(self) -> None:
        """Removes the folder and its registration. What is committed stays on the branch."""
        with self._git.lock():
            crash_point("before removing a worktree")
            _remove_tree(self.path)
            crash_point("between folder and registration of a worktree")
            # Not `git worktree remove`: it trusts the folder, in which foreign code ran, and it refuses half-made ones.
            _remove_tree(self._admin)
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


def _remove_tree(folder: Path) -> None:
    """Removes a folder even if its content was made read-only; a link is removed, not followed."""
    if folder.is_symlink() or folder.is_file():
        folder.unlink()
        return

    def force(function: Callable[[str], object], path: str, _: object) -> None:
        for place in (Path(path).parent, Path(path)):
            with contextlib.suppress(OSError):
                if not place.is_symlink():
                    place.chmod(stat.S_IRWXU)
        function(path)

    if folder.exists():
        shutil.rmtree(folder, onerror=force)
