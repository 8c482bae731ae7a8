"""The experiment repository: where rounds become branches.

Either a checkout of AutoQEC itself, or, for an installed package, a repository that AutoQEC makes in the user's workspace
with its own code in it, so that a worktree of either can be imported as a whole. Rounds fork from a commit that AutoQEC
puts on top of the checked-out one without moving any branch: it adds `experiment/`, the config that rounds change.
"""

from __future__ import annotations

import importlib.util
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from autoqec import __version__
from autoqec.decoders.dsl_schema import PredecoderDSL
from autoqec.errors import InputError
from autoqec.eval.scope import MODULES
from autoqec.io import atomic
from autoqec.io.git import Git, GitError
from autoqec.io.hashing import sha256_bytes, sha256_json
from autoqec.layout import ExperimentDir, experiments_folder, worktrees_folder
from autoqec.runs.mechanisms import to_files
from autoqec.sandbox.installed import installed_root

_PACKAGES = ("autoqec", "cli")
OWN_INDEX = "autoqec.index"
_IGNORED = "__pycache__/\n.worktrees/\nruns/\n"


@dataclass(frozen=True)
class Repository:
    """A repository whose worktrees can run rounds. root: its checked-out folder, which is only ever read."""

    root: Path

    @property
    def git(self) -> Git:
        """A fresh caller: one per thread."""
        return Git(self.root)

    @property
    def reader(self) -> Git:
        """For commands that only read. A run's folder may come from a stranger, and names its repository: no setting of that one
        starts a program here."""
        return Git(self.root, trusted=False)

    @property
    def worktrees(self) -> Path:
        return worktrees_folder(self.root)

    def hide_worktrees(self) -> None:
        """Keeps `.worktrees/` out of the user's `git status`, by the repository's own exclude file."""
        path = self.git.common_dir / "info" / "exclude"
        text = path.read_text() if path.exists() else ""
        line = f"/{self.worktrees.name}/"
        if line not in text.splitlines():
            atomic.write_text(path, f"{text.rstrip()}\n{line}\n".lstrip())

    def make_base(self, run_id: str, config: PredecoderDSL) -> str:
        """The commit that the rounds of a run fork from: HEAD with `config` as its experiment. It is kept by a ref of the
        run, and is the same commit when called again."""
        git = self.git
        with git.lock():
            ref = base_ref(run_id)
            if found := git.resolve(ref):
                return found
            for stale in git.common_dir.glob("refs/autoqec/**/*.lock"):
                stale.unlink(missing_ok=True)  # of a run whose making was killed
            head = git.resolve("HEAD")
            if head is None:
                raise InputError("has no commit yet", where=str(self.root), hint="commit something first")
            prefix = ExperimentDir.NAME
            files = {f"{prefix}/{name}": content for name, content in to_files(config).items()}
            commit = commit_files(git, head, files, f"Base of run {run_id}\n", replacing=prefix)
            git.create_ref(ref, commit)
            return commit


def base_ref(run_id: str) -> str:
    return f"refs/autoqec/{run_id}/base"


def commit_files(
    git: Git, parent: str, files: Mapping[str, bytes], message: str, *, replacing: str | None = None
) -> str:
    """A commit on top of `parent` with `files` changed and, if given, nothing else below `replacing`. Moves no ref, and uses
    an index of its own."""
    blobs = {
        path: git("hash-object", "-w", "--stdin", stdin=content).strip() for path, content in files.items()
    }
    with own_index(git) as index:
        git("read-tree", parent, variables=index)
        if replacing is not None:
            gone = git.tree(parent, replacing).keys() - files.keys()
            entries = "".join(f"0 {'0' * 40}\t{path}\0" for path in sorted(gone))
            git("update-index", "-z", "--index-info", stdin=entries, variables=index)
        entries = "".join(f"100644 {blob}\t{path}\0" for path, blob in sorted(blobs.items()))
        git("update-index", "-z", "--index-info", stdin=entries, variables=index)
        tree = git("write-tree", variables=index).strip()
    return git("commit-tree", tree, "-p", parent, "-F", "-", stdin=message).strip()


@contextmanager
def own_index(git: Git) -> Iterator[dict[str, str]]:
    """Variables that make git use an index of AutoQEC's own, empty at first. There is one, under the repository's lock."""
    path = git.common_dir / OWN_INDEX
    with git.lock():
        _forget(path)
        yield {"GIT_INDEX_FILE": str(path)}
        _forget(path)


def _forget(index: Path) -> None:
    for path in (index, index.with_name(f"{index.name}.lock")):
        path.unlink(missing_ok=True)


def open_checkout(folder: Path) -> Repository:
    """A checkout of AutoQEC as experiment repository, or the reason why it cannot be one."""
    git = Git(folder)
    where = str(folder)
    try:
        bare = git("rev-parse", "--is-bare-repository").strip() == "true"
        root = folder if bare else Path(git("rev-parse", "--show-toplevel").rstrip("\n"))
    except GitError as error:
        hint = "give a checkout of AutoQEC, or leave it out: one is made in the workspace"
        message = (error.stderr.strip().splitlines() or ["no message"])[0]
        raise InputError(f"cannot be used as a git repository: {message}", where=where, hint=hint) from error
    if bare:
        raise InputError(
            "is a bare repository: rounds need a checkout", where=where, hint="clone it without --bare"
        )
    git = Git(root)
    if git("rev-parse", "--is-shallow-repository").strip() == "true":
        raise InputError(
            "is a shallow clone: merges need the whole history", where=where, hint="run git fetch --unshallow"
        )
    if git.resolve("HEAD") is None:
        raise InputError("has no commit yet", where=where, hint="commit something first")
    if not (root / MODULES).is_dir():
        raise InputError(f"has no {MODULES}: it is not a checkout of AutoQEC", where=where)
    changed = git.paths("status", "--porcelain", "-z", "--untracked-files=no")
    changed += git.paths("status", "--porcelain", "-z", "--untracked-files=all", "--", *_PACKAGES)
    if changed:
        names = sorted({entry[3:] for entry in changed})
        more = f" and {len(names) - 5} more" if len(names) > 5 else ""
        raise InputError(
            f"has changes that are not committed, and rounds would not see them: {', '.join(names[:5])}{more}",
            where=where,
            hint="commit or stash them",
        )
    return Repository(root.resolve())


def open_workspace(workspace: Path) -> Repository:
    """The repository in `.autoqec/experiments/` of a workspace that holds the code of this AutoQEC; made if missing.

    There is one per version of the code, so that a run keeps the code it was started with.
    """
    package = _Package()
    target = experiments_folder(workspace).resolve() / f"{__version__}-{package.fingerprint[:10]}"
    if not target.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        draft = Path(tempfile.mkdtemp(prefix=".draft-", dir=target.parent))
        try:
            package.copy_to(draft)
            _initialise(draft)
            draft.rename(target)
        except OSError:
            if not target.exists():  # else another process was faster
                raise
        finally:
            shutil.rmtree(draft, ignore_errors=True)
    return open_checkout(target)


def open_default(workspace: Path) -> Repository:
    """The checkout that this AutoQEC runs from, if the workspace is in it; else the workspace's own repository, so that a
    checkout gets no branches that nobody asked for."""
    checkout = installed_root()
    if (checkout / ".git").exists() and workspace.resolve().is_relative_to(checkout):
        return open_checkout(checkout)
    return open_workspace(workspace)


def _initialise(folder: Path) -> None:
    git = Git(folder)
    atomic.write_text(folder / ".gitignore", _IGNORED)
    git.initialise()
    with git.lock():
        git("symbolic-ref", "HEAD", "refs/heads/experiments")
        git("add", "--all", "--force", "--", *_PACKAGES, ".gitignore")
        tree = git("write-tree").strip()
        commit = git("commit-tree", tree, "-F", "-", stdin=f"AutoQEC {__version__}\n").strip()
        git.create_ref("refs/heads/experiments", commit)


class _Package:
    """The source files of AutoQEC as it is installed here."""

    @cached_property
    def files(self) -> dict[str, Path]:
        found: dict[str, Path] = {}
        for package in _PACKAGES:
            spec = importlib.util.find_spec(package)
            for folder in (spec.submodule_search_locations or ()) if spec is not None else ():
                root = Path(folder)
                found |= {f"{package}/{path.relative_to(root).as_posix()}": path for path in _sources(root)}
        return dict(sorted(found.items()))

    @cached_property
    def fingerprint(self) -> str:
        return sha256_json({name: sha256_bytes(path.read_bytes()) for name, path in self.files.items()})

    def copy_to(self, folder: Path) -> None:
        for name, path in self.files.items():
            target = folder / name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, target)


def _sources(root: Path) -> Iterable[Path]:
    return (path for path in root.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
