"""What an experiment branch may change. A round whose branch changes anything else is not trained."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import PurePosixPath

from autoqec.errors import InputError
from autoqec.io.git import Git
from autoqec.layout import ExperimentDir

MODULES = "autoqec/decoders/modules"

MODEL_CODE = (MODULES, "autoqec/decoders/compiler.py")
"""What makes a model out of a config and weights, as far as an experiment branch may change it."""

ALLOWED = (f"{MODULES}/", "autoqec/decoders/compiler.py", "autoqec/example_db/")
"""What an experiment branch may change below `autoqec/`: modules, the compiler's registries, example configs."""

_ROUNDS = ExperimentDir("").rounds.as_posix()
_PLAIN = {"100644", "000000"}


def outside(paths: Iterable[str]) -> list[str]:
    """Those of the paths that an experiment branch may not change: all but model code and its own record."""
    return [path for path in paths if not path.startswith((*ALLOWED, f"{ExperimentDir.NAME}/"))]


def changed_paths(git: Git, commit: str, base: str) -> list[str]:
    """Paths that `commit` changes with respect to where it left `base`."""
    fork = git.merge_base(base, commit)
    if fork is None:
        raise InputError(f"the commit has no history in common with {base}", where=str(git.root))
    return git.paths("diff-tree", "-r", "-z", "--name-only", "--no-renames", fork, commit)


def violations(
    git: Git, base: str, parents: Sequence[str], commit: str, own_record: str, *, is_pure: bool = False
) -> list[str]:
    """Paths that `commit` changes and may not, with the reason where it is not the path itself. own_record: the folder of
    the round's own record in the tree.

    It is compared with the base of the run, whatever history lies between. The records of other rounds must be those of
    the parents. A pure composition changes nothing but its own record.
    """
    own = f"{own_record}/"
    found = []
    entries = git.paths("diff", "--raw", "-z", "--no-renames", "--abbrev=40", base, commit)
    for meta, path in zip(entries[::2], entries[1::2], strict=True):
        before, after = meta.lstrip(":").split()[:2]
        if outside([path]):
            found.append(path)
        elif after not in _PLAIN and after != before:
            found.append(f"{path} (not a plain file)")
        elif any(part.startswith(".") for part in PurePosixPath(path).parts):
            found.append(f"{path} (hidden)")
    found += [f"{path} (record of another round)" for path in _foreign_records(git, parents, commit, own)]
    if is_pure:
        edited = git.paths("diff", "--name-only", "-z", f"{commit}^", commit)
        found += [
            f"{path} (a pure composition is the merge itself)" for path in edited if not path.startswith(own)
        ]
    return found


def _foreign_records(git: Git, parents: Sequence[str], commit: str, own: str) -> list[str]:
    inherited: dict[str, str] = {}
    for parent in parents:
        inherited |= git.tree(parent, _ROUNDS)
    now = {path: blob for path, blob in git.tree(commit, _ROUNDS).items() if not path.startswith(own)}
    return sorted(path for path in inherited.keys() | now.keys() if inherited.get(path) != now.get(path))
