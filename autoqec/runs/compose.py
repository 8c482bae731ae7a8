"""Whether a merge that git made without a conflict means what its parents mean."""

from __future__ import annotations

from collections.abc import Sequence

from autoqec.errors import InputError
from autoqec.io.git import Git
from autoqec.layout import ExperimentDir
from autoqec.runs.mechanisms import Files, from_files, lost_changes
from autoqec.runs.worktrees import ComposeConflict


def check_composition(git: Git, parents: Sequence[str], merged: str) -> None:
    """A pure composition has to be a config, and every change of every parent has to count in it.

    Raises:
        ComposeConflict: names the files in which the parents exclude each other.
    """
    prefix = ExperimentDir.NAME
    result = files_at(git, merged)
    base = files_at(git, git("merge-base", "--octopus", *parents).strip())
    theirs = [files_at(git, parent) for parent in parents]
    lost = {name for files in theirs for name in lost_changes(base, files, result)}
    if lost:
        raise ComposeConflict(
            "one parent's type has no place for what another changed",
            sorted(f"{prefix}/{name}" for name in lost),
        )
    try:
        from_files(result)
    except InputError as error:
        changed = {
            name
            for files in theirs
            for name in files.keys() | base.keys()
            if files.get(name) != base.get(name)
        }
        raise ComposeConflict(
            f"the parents' changes exclude each other: {error.what}",
            sorted(f"{prefix}/{name}" for name in changed),
        ) from error


def files_at(git: Git, commit: str) -> Files:
    """The mechanism files in a commit."""
    folder = ExperimentDir("")
    prefix, rounds = f"{ExperimentDir.NAME}/", f"{folder.rounds.as_posix()}/"
    names = [path for path in git.tree(commit, ExperimentDir.NAME) if not path.startswith(rounds)]
    return {path.removeprefix(prefix): git.file_at(commit, path) or b"" for path in names}
