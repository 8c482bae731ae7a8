"""Whose model code a worker runs: the installed package, or the tree of the round's own commit.

A commit's files are copied out of git as they are stored, and read-only to the worker. The trusted side never imports from
them.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from autoqec.errors import InputError
from autoqec.io.locks import locked
from autoqec.layout import ExperimentDir, VerifierDir
from autoqec.sandbox.kernel_cache import installed_root

ALLOWED = ("autoqec/decoders/modules/", "autoqec/decoders/compiler.py", "autoqec/example_db/")
"""What an experiment branch may change below `autoqec/`: modules, the compiler's registries, example configs."""

_SHA = re.compile(r"[0-9a-f]{40}([0-9a-f]{24})?")
_PACKAGE = "autoqec"
_MAX_BYTES = 64 << 20


@dataclass(frozen=True)
class ModelCode:
    """root: folder that holds the `autoqec` package. commit, repo: where it was exported from, None if installed."""

    root: Path
    commit: str | None = None
    repo: Path | None = None

    @property
    def name(self) -> str:
        return "installed" if self.commit is None else f"commit {self.commit}"

    @property
    def is_trusted(self) -> bool:
        return self.commit is None


def installed() -> ModelCode:
    return ModelCode(installed_root())


def at_commit(repo: Path, commit: str, home: VerifierDir) -> ModelCode:
    """The package as it is in `commit`, exported below `home`. An export that is there is compared byte by byte."""
    if not _SHA.fullmatch(commit):
        raise InputError(f"{commit!r} is not a full commit hash", where="commit_sha", hint="give all of it")
    if git(repo, "cat-file", "-t", commit, check=False) != "commit":
        raise InputError(
            f"commit {commit[:12]} is not in the repository", where=str(repo), hint="fetch it, or give --repo"
        )
    files = _exported(repo, commit)
    target = home.code / commit
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
    if code.commit is None or code.repo is None:
        return
    if not git(
        code.repo, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{base}^{{commit}}", check=False
    ):
        raise InputError(
            f"{base!r} is no commit of the repository", where="--base", hint="name a branch or a commit"
        )
    if git(code.repo, "merge-base", base, code.commit, check=False) == code.commit:
        raise InputError(
            f"{base} contains the round's commit, so that what the round changed cannot be told",
            where="--base",
            hint="name what the experiment branch left from, such as main",
        )


def changed_paths(repo: Path, commit: str, base: str) -> list[str]:
    """Paths that `commit` changes with respect to where it left `base`."""
    fork = git(repo, "merge-base", base, commit)
    return git(repo, "diff-tree", "-r", "-z", "--name-only", "--no-renames", fork, commit).split("\0")[:-1]


def outside_scope(paths: list[str]) -> list[str]:
    """Those of the paths that an experiment branch may not change: all but model code and its own record."""
    return [path for path in paths if not path.startswith((*ALLOWED, f"{ExperimentDir.NAME}/"))]


def git(repo: Path, *arguments: str, check: bool = True) -> str:
    """What git says. The repository's own configuration may start no program."""
    return _git(repo, *arguments, check=check).decode(errors="replace").strip()


def _git(repo: Path, *arguments: str, check: bool = True, given: bytes = b"") -> bytes:
    settings = {
        "core.fsmonitor": "false",
        "core.hooksPath": "/dev/null",
        "safe.directory": str(repo.resolve()),
    }
    options = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
    environment = {
        "PATH": "/usr/local/bin:/usr/bin:/bin",
        "LANG": "C.UTF-8",
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": "/dev/null",
        "GIT_NO_REPLACE_OBJECTS": "1",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_ALLOW_PROTOCOL": "",  # an object that is missing is fetched from nowhere, by nobody's program
    }
    done = subprocess.run(
        ["git", *options, "-C", str(repo), *arguments],
        input=given,
        capture_output=True,
        env=environment,
        timeout=120,
        check=False,
    )
    if done.returncode != 0 and check:
        said = done.stderr.decode(errors="replace").strip().splitlines() or [f"exit code {done.returncode}"]
        raise InputError(f"git {arguments[0]}: {said[-1][:200]}", where=str(repo))
    return done.stdout if done.returncode == 0 else b""


def _exported(repo: Path, commit: str) -> dict[str, bytes]:
    """The regular files of the package in a commit. Links are left out: they could lead anywhere.

    Stored objects are read as such: on their way into an archive or a checkout, attributes of the commit and the
    repository's configuration could change them or start a program.
    """
    listing = _git(repo, "ls-tree", "-r", "-z", "-l", "--full-tree", commit, f"{_PACKAGE}/").decode(
        errors="replace"
    )
    names: list[str] = []
    wanted: list[str] = []
    total = 0
    for entry in listing.split("\0")[:-1]:
        facts, _, name = entry.partition("\t")
        mode, _, blob, size = facts.split()
        if mode in ("100644", "100755") and ".." not in PurePosixPath(name).parts:
            names.append(name)
            wanted.append(blob)
            total += int(size)
    if total > _MAX_BYTES:
        raise InputError(
            f"the package of commit {commit[:12]} has {total >> 20} MiB of files",
            where=str(repo),
            hint=f"keep data out of the branch: {_MAX_BYTES >> 20} MiB is the limit",
        )
    data = _git(repo, "cat-file", "--batch", given="".join(f"{blob}\n" for blob in wanted).encode())
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
