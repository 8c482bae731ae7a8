"""What a killed git or a killed process left behind. All of it is looked for under AutoQEC's lock on the repository."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from pathlib import Path

from autoqec.errors import InputError
from autoqec.io.git import Git
from autoqec.io.processes import is_open
from autoqec.layout import worktree_prefix
from autoqec.runs.names import parse_branch
from autoqec.runs.repository import OWN_INDEX, base_ref
from autoqec.runs.run import Run
from autoqec.runs.worktrees import Worktree

_PATIENCE_S = 2.0


def clear_stale_locks(run: Run, git: Git, *, dry_run: bool = False) -> list[Path]:
    """Removes lock files on the refs and worktrees of the run, and on the packed refs if nobody is using them."""
    found = [
        lock
        for folder in _own_folders(run, git)
        if folder.is_dir()
        for lock in sorted(folder.rglob("*.lock"))
    ]
    found += sorted(git.common_dir.glob(f"{OWN_INDEX}.lock"))
    shared = git.common_dir / "packed-refs.lock"
    if shared.exists() and _is_abandoned(shared):
        found.append(shared)
    if not dry_run:
        for lock in found:
            lock.unlink(missing_ok=True)
    return found


def stale_worktrees(run: Run, git: Git) -> Iterator[Worktree]:
    """Worktrees of the run, whole or half made, whose round is not in flight."""
    at_work = {file.journal.name.worktree for file in run.journals()}
    for name in run.checked_out():
        with contextlib.suppress(InputError):  # no name of a round: not AutoQEC's
            worktree = Worktree(run.repository, parse_branch(f"exp/{run.run_id}/{name}"), git)
            if worktree.name.worktree not in at_work:
                yield worktree


def _own_folders(run: Run, git: Git) -> list[Path]:
    common = git.common_dir
    registered = (common / "worktrees").glob(f"{worktree_prefix(run.run_id)}*")
    heads = [common / "refs" / "heads" / kind / run.run_id for kind in ("exp", "quarantine")]
    return [*registered, *heads, common / Path(base_ref(run.run_id)).parent]


def _is_abandoned(lock: Path) -> bool:
    """The lock on the packed refs is the user's git's as well. git holds it for milliseconds: one that stays, and that no process
    has open, was left by a killed one."""
    try:
        before = lock.stat()
        time.sleep(_PATIENCE_S)
        after = lock.stat()
    except FileNotFoundError:
        return False
    return (before.st_ino, before.st_size) == (after.st_ino, after.st_size) and not is_open(lock)
