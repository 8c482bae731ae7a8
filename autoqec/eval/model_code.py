"""Whose model code a worker runs: the installed package, or the tree of the round's own commit.

A commit's files are copied out of git as they are stored, and read-only to the worker. The trusted side never imports from
them.
"""

from __future__ import annotations

import re
import shutil
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath

from autoqec.errors import InputError
from autoqec.io.git import Git, GitError
from autoqec.io.locks import locked
from autoqec.layout import VerifierDir
from autoqec.sandbox.installed import installed_root, is_same_package

_SHA = re.compile(r"[0-9a-f]{40}([0-9a-f]{24})?")
_PACKAGE = "autoqec"
_MAX_BYTES = 64 << 20


@dataclass(frozen=True)
class ModelCode:
    """root: folder that holds the `autoqec` package. commit, repo: whose package it is, None if none was asked for."""

    root: Path
    commit: str | None = None
    repo: Path | None = None

    @property
    def name(self) -> str:
        if self.commit is None:
            return "installed"
        return f"commit {self.commit}{', the same as installed' if self.is_trusted else ''}"

    @property
    def is_trusted(self) -> bool:
        """Whether this package's own code runs."""
        return self.root == installed_root()

    def or_installed(self) -> ModelCode:
        """The installed package in place of a commit's that is, byte by byte, the same."""
        return replace(self, root=installed_root()) if is_same_package(self.root, (_PACKAGE,)) else self

    @property
    def git(self) -> Git | None:
        """Reads the repository of the commit."""
        return None if self.repo is None else Git(self.repo, trusted=False)


def installed() -> ModelCode:
    return ModelCode(installed_root())


def at_commit(repo: Path, commit: str, home: VerifierDir) -> ModelCode:
    """The package as it is in `commit`, exported below `home`. An export that is there is compared byte by byte."""
    if not _SHA.fullmatch(commit):
        raise InputError(f"{commit!r} is not a full commit hash", where="commit_sha", hint="give all of it")
    git = Git(repo, trusted=False)
    if git.resolve(commit) != commit:
        raise InputError(
            f"commit {commit[:12]} is not in the repository", where=str(repo), hint="fetch it, or give --repo"
        )
    try:
        files = _exported(git, commit)
    except GitError as error:
        raise InputError(error.what, where=str(repo), hint="is the repository damaged?") from error
    target = home.code / commit
    home.path.mkdir(parents=True, exist_ok=True, mode=0o700)
    with locked(home.lock.with_name("code.lock")):
        if not _holds(target, files):
            shutil.rmtree(target, ignore_errors=True)
            home.code.mkdir(parents=True, exist_ok=True, mode=0o700)
            draft = Path(tempfile.mkdtemp(prefix=".export-", dir=home.code))
            for name, data in files.items():
                path = draft / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(data)
            draft.rename(target)
    return ModelCode(target, commit, repo)


def check_base(code: ModelCode, base: str) -> None:
    """Refuses a base that cannot tell what the commit changed: there is none, or the commit is part of it."""
    if code.commit is None or (git := code.git) is None:
        return
    if base.startswith("-") or git.resolve(base) is None:
        raise InputError(
            f"{base!r} is not a commit of the repository", where="--base", hint="name a branch or a commit"
        )
    if git.merge_base(base, code.commit) == code.commit:
        raise InputError(
            f"{base} contains the round's commit, so that what the round changed cannot be told",
            where="--base",
            hint="name what the experiment branch left from, such as main",
        )


def _exported(git: Git, commit: str) -> dict[str, bytes]:
    """The regular files of the package in a commit. Links are left out: they could lead anywhere.

    Stored objects are read as such: on their way into an archive or a checkout, attributes of the commit and the
    repository's configuration could change them or start a program.
    """
    listing = git.output("ls-tree", "-r", "-z", "-l", "--full-tree", commit, f"{_PACKAGE}/")
    names: list[str] = []
    wanted: list[str] = []
    total = 0
    for entry in listing.decode(errors="replace").split("\0")[:-1]:
        facts, _, name = entry.partition("\t")
        mode, _, blob, size = facts.split()
        if mode in ("100644", "100755") and ".." not in PurePosixPath(name).parts:
            names.append(name)
            wanted.append(blob)
            total += int(size)
    if total > _MAX_BYTES:
        raise InputError(
            f"the package of commit {commit[:12]} has {total >> 20} MiB of files",
            where=str(git.root),
            hint=f"keep data out of the branch: {_MAX_BYTES >> 20} MiB is the limit",
        )
    data = git.output("cat-file", "--batch", stdin="".join(f"{blob}\n" for blob in wanted).encode())
    files: dict[str, bytes] = {}
    position = 0
    for name in names:  # each as "<id> blob <size>", a newline, its bytes, a newline
        head = data.index(b"\n", position)
        size_of = int(data[position:head].split()[2])
        files[name] = data[head + 1 : head + 1 + size_of]
        position = head + size_of + 2
    return files


def _holds(folder: Path, files: dict[str, bytes]) -> bool:
    if not folder.is_dir() or folder.is_symlink():
        return False
    found = {path for path in folder.rglob("*") if path.is_symlink() or not path.is_dir()}
    return found == {folder / name for name in files} and all(
        not path.is_symlink() and path.read_bytes() == files[str(path.relative_to(folder))] for path in found
    )
