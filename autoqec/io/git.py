"""The `git` program, called so that nobody's configuration, hooks or prompts change what it does."""

from __future__ import annotations

import contextlib
import hashlib
import os
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from autoqec.errors import AutoQECError, UnavailableError
from autoqec.io.child_env import GIT, kept
from autoqec.io.crash_points import crash_point
from autoqec.io.locks import locked

_AUTHOR = ("AutoQEC", "autoqec@localhost")
_TIMEOUT_S = 600.0
_STRANGERS_TIMEOUT_S = 120.0

_SETTINGS = {
    "advice.detachedHead": "false",
    "branch.autoSetupMerge": "false",
    "commit.gpgSign": "false",
    "core.attributesFile": "/dev/null",
    "core.autocrlf": "false",
    "core.editor": "true",
    "core.excludesFile": "/dev/null",
    "core.fsmonitor": "false",
    "core.fsync": "committed,reference",
    "core.quotePath": "off",
    "diff.renames": "false",
    "fetch.fsckObjects": "true",
    "gc.auto": "0",
    "init.templateDir": "",
    "maintenance.auto": "false",
    "merge.conflictStyle": "merge",
    "merge.renames": "false",
    "merge.verifySignatures": "false",
    "rerere.enabled": "false",
    "submodule.recurse": "false",
    "user.useConfigOnly": "false",
}
_READS = (
    "archive", "bundle", "cat-file", "config", "diff", "diff-tree", "for-each-ref", "fsck", "ls-files", "ls-tree", "merge-base", "rev-list", "rev-parse", "status",
)  # fmt: skip
_OF_WORKTREES = {
    "core.ignoreStat": "false",
    "core.sparseCheckout": "false",
    "core.splitIndex": "false",
    "core.untrackedCache": "false",
    "diff.ignoreSubmodules": "all",
    "index.sparse": "false",
    "merge.default": "text",
    "status.submoduleSummary": "false",
}
_DRIVERS = {
    "filter": {"clean": "", "smudge": "", "process": "", "required": "false"},
    "merge": {"driver": "git merge-file --quiet %A %O %B", "recursive": "text"},
}
"""Programs that attributes, which are files of the worktree, can call by name: they do nothing, and files merge as text."""
_TELLING = ("add", "prune", "--abort", "-d", "create")
"""Arguments that a crash point's name keeps."""


class GitError(AutoQECError):
    """git refused; `code` is its exit status and `stderr` its standard error."""

    def __init__(self, arguments: Sequence[str], code: int, stderr: str, where: str) -> None:
        self.code, self.stderr = code, stderr
        last = stderr.strip().splitlines()[-1:] or ["no message"]
        super().__init__(f"`git {' '.join(arguments)[:300]}` failed ({code}): {last[0][:300]}", where=where)


class _Lock:
    """AutoQEC's lock on a repository while it is held. Shared by all views of it."""

    handle: int | None = None


class Git:
    """git in one repository, called from `root`.

    Every call that writes holds AutoQEC's lock on the repository and hands it to git itself: should this process be
    killed, the lock lives on until git has ended. Whoever holds the lock therefore knows that a lock file git left
    among AutoQEC's own refs and worktrees is stale. An object of this class serves one thread.

    trusted: whether the repository is the user's own. That of a stranger is only read, without the user's configuration and
    programs, and fetches nothing: no setting of it may start a program or reach the network.
    """

    hooks = "/dev/null"

    def __init__(self, root: Path, *, trusted: bool = True) -> None:
        self.root = root
        self.trusted = trusted
        self._held = _Lock()
        self._common: Path | None = None
        self._settings: dict[str, str] = {}
        self._variables: dict[str, str] = {}

    def worktree(self, path: Path, admin: Path) -> Git:
        """git in the worktree at `path`, whose own folder in this repository is `admin`.

        Others write in a worktree. Nothing there says which repository it belongs to, neither `.git` nor a repository below
        it, and no attribute in it starts a program.
        """
        view = Git(path, trusted=self.trusted)
        view._held, view._common = self._held, self.common_dir
        view._settings = {**_OF_WORKTREES, **self._without_drivers()}
        view._variables = {
            "GIT_DIR": str(admin),
            "GIT_WORK_TREE": str(path),
            "GIT_COMMON_DIR": str(self.common_dir),
            **self.no_attributes(),
        }
        return view

    def no_attributes(self) -> dict[str, str]:
        """Variables for a call in which no attributes of files count. git before 2.41 takes no notice of them."""
        empty = hashlib.new(self("rev-parse", "--show-object-format").strip(), b"tree 0\0")
        return {"GIT_ATTR_SOURCE": empty.hexdigest(), "GIT_ATTR_NOSYSTEM": "1"}

    def _without_drivers(self) -> dict[str, str]:
        names = (name.split(".") for name in self.paths("config", "--list", "--name-only", "-z"))
        drivers = {(kind, ".".join(middle)) for kind, *middle, _ in names if kind in _DRIVERS and middle}
        return {
            f"{kind}.{driver}.{key}": value
            for kind, driver in sorted(drivers)
            for key, value in _DRIVERS[kind].items()
        }

    def __call__(
        self,
        *arguments: str,
        stdin: str | bytes | None = None,
        codes: Sequence[int] = (0,),
        cwd: Path | None = None,
        variables: Mapping[str, str] | None = None,
    ) -> str:
        """What git prints. Exit statuses not in `codes` are a GitError; `variables` are GIT_* of this call."""
        return self.run(*arguments, stdin=stdin, codes=codes, cwd=cwd, variables=variables)[1]

    def run(
        self,
        *arguments: str,
        stdin: str | bytes | None = None,
        codes: Sequence[int] = (0,),
        cwd: Path | None = None,
        variables: Mapping[str, str] | None = None,
    ) -> tuple[int, str]:
        """Exit status and output."""
        code, out = self._run(*arguments, stdin=stdin, codes=codes, cwd=cwd, variables=variables)
        return code, out.decode(errors="surrogateescape")

    def output(
        self, *arguments: str, stdin: bytes | None = None, variables: Mapping[str, str] | None = None
    ) -> bytes:
        """What git prints, as it is."""
        return self._run(*arguments, stdin=stdin, variables=variables)[1]

    def _run(
        self,
        *arguments: str,
        stdin: str | bytes | None = None,
        codes: Sequence[int] = (0,),
        cwd: Path | None = None,
        variables: Mapping[str, str] | None = None,
    ) -> tuple[int, bytes]:
        verb = " ".join([arguments[0], *(part for part in arguments[1:3] if part in _TELLING)])
        writes = arguments[0] not in _READS
        if writes and not self.trusted:
            raise AutoQECError(
                f"`git {verb}` would change a repository that is only read", where=str(self.root)
            )
        if writes and self._held.handle is None:
            with self.lock():
                return self._run(*arguments, stdin=stdin, codes=codes, cwd=cwd, variables=variables)
        if writes:
            crash_point(f"before git {verb}")
        where = cwd or self.root
        settings = {"core.hooksPath": self.hooks, **_SETTINGS, **self._settings}
        if not self.trusted:
            settings["safe.directory"] = str(self.root.resolve())
        options = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
        command = ["git", "-C", str(where), *options, *arguments]
        try:
            done = subprocess.run(
                command,
                input=stdin.encode() if isinstance(stdin, str) else stdin,
                stdin=subprocess.DEVNULL if stdin is None else None,
                capture_output=True,
                env={
                    **(_environment() if self.trusted else _STRANGERS_ENVIRONMENT),
                    **self._variables,
                    **(variables or {}),
                },
                pass_fds=() if self._held.handle is None else (self._held.handle,),
                timeout=_TIMEOUT_S if self.trusted else _STRANGERS_TIMEOUT_S,
                check=False,
            )
        except FileNotFoundError:
            raise UnavailableError(
                "the git program was not found", where="git", hint="install git, e.g. apt-get install git"
            ) from None
        if done.returncode not in codes:
            raise GitError(arguments, done.returncode, done.stderr.decode(errors="replace"), str(where))
        if writes:
            crash_point(f"after git {verb}")
        return done.returncode, done.stdout

    def paths(self, *arguments: str, **options: object) -> list[str]:
        """The entries that a call with `-z` prints."""
        return [entry for entry in self(*arguments, **options).split("\0") if entry]  # type: ignore[arg-type]

    def initialise(self) -> None:
        """Makes the repository; what a killed attempt left is used again. There is no lock before there is a repository."""
        self._common = (self.root / ".git").resolve()
        self._common.mkdir(exist_ok=True)
        self("init", "--quiet", ".")

    @property
    def common_dir(self) -> Path:
        """The repository's own folder, shared by all its worktrees."""
        if self._common is None:
            self._common = (self.root / self("rev-parse", "--git-common-dir").rstrip("\n")).resolve()
        return self._common

    @contextmanager
    def lock(self) -> Iterator[None]:
        """AutoQEC's lock on this repository; re-entrant within this object."""
        if self._held.handle is not None:
            yield
            return
        with locked(self.common_dir / "autoqec.lock") as handle:
            self._held.handle = handle
            try:
                yield
            finally:
                self._held.handle = None

    def resolve(self, name: str) -> str | None:
        """The commit that a full ref name or hash stands for; None if there is none."""
        code, out = self.run("rev-parse", "--verify", "--quiet", f"{name}^{{commit}}", codes=(0, 1, 128))
        return out.strip() if code == 0 else None

    def branch(self, name: str) -> str | None:
        """The commit at the tip of a branch."""
        return self.resolve(f"refs/heads/{name}")

    def refs(self, prefix: str) -> dict[str, str]:
        """Ref name -> commit, for all refs below `prefix`, e.g. `refs/heads/exp/`."""
        out = self("for-each-ref", "--format=%(objectname) %(refname)", prefix)
        return {name: sha for sha, _, name in (line.partition(" ") for line in out.splitlines())}

    def create_ref(self, ref: str, sha: str) -> None:
        """Fails if the ref exists."""
        self("update-ref", "--no-deref", ref, sha, "")

    def move_ref(self, ref: str, sha: str, *, before: str) -> None:
        """Fails if the ref is not where it is believed to be."""
        self("update-ref", "--no-deref", ref, sha, before)

    def delete_ref(self, ref: str, *, before: str) -> None:
        self("update-ref", "--no-deref", "-d", ref, before)

    def merge_base(self, one: str, other: str) -> str | None:
        """Where two commits left each other; None if they have no history in common, or one of them is not there."""
        code, out = self.run("merge-base", one, other, codes=(0, 1, 128))
        return out.strip() if code == 0 else None

    def top(self) -> Path | None:
        """The top of the checkout that holds `root`; None if there is none."""
        code, out = self.run("rev-parse", "--show-toplevel", codes=(0, 128))
        return Path(out.rstrip("\n")) if code == 0 and out.strip() else None

    def is_ancestor(self, old: str, new: str) -> bool:
        return self.run("merge-base", "--is-ancestor", old, new, codes=(0, 1))[0] == 0

    def file_at(self, commit: str, path: str) -> bytes | None:
        """Content of a file in a commit; None if it has none of that name."""
        code, out = self._run("cat-file", "blob", f"{commit}:{path}", codes=(0, 128))
        return out if code == 0 else None

    def tree(self, commit: str, folder: str) -> dict[str, str]:
        """Path -> blob, of all files below `folder` in a commit."""
        entries = self.paths("ls-tree", "-r", "-z", "--full-tree", commit, f"{folder.rstrip('/')}/")
        return {path: meta.split()[2] for meta, _, path in (entry.partition("\t") for entry in entries)}


def checked_out(folder: Path) -> str | None:
    """The commit that a checkout is at; None if the folder is not the top of one.

    A worktree inside its repository's folder, as AutoQEC makes them, is asked by way of the repository. Any other folder
    is read as a stranger's.
    """
    folder = folder.resolve()
    for parent in folder.parents:
        if (parent / ".git").is_dir():
            git = Git(parent, trusted=False)
            if (admin := _registered(git, folder)) is not None:
                return git.worktree(folder, admin).resolve("HEAD")
            break
    git = Git(folder, trusted=False)
    top = git.top()
    return git.resolve("HEAD") if top is not None and top.resolve() == folder else None


def _registered(git: Git, folder: Path) -> Path | None:
    """The repository's own folder for a worktree."""
    for admin in sorted((git.common_dir / "worktrees").glob("*")):
        with contextlib.suppress(OSError):
            link = (admin / "gitdir").read_text().rstrip("\n")
            if (admin / link).parent.resolve() == folder and (admin / link).name == ".git":
                return admin
    return None


def own_repositories(folder: Path) -> list[Path]:
    """What makes folders below a worktree repositories of their own: git would look into them, and believe their settings."""
    found = []
    for place, folders, files in os.walk(folder):
        names = [name for name in (*folders, *files) if name.casefold() == ".git"]
        found += [Path(place) / name for name in names if Path(place) != folder]
        folders[:] = [name for name in folders if name not in names]
    return sorted(found)


_STRANGERS_ENVIRONMENT = {
    "PATH": "/usr/local/bin:/usr/bin:/bin",
    "LANG": "C.UTF-8",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_LITERAL_PATHSPECS": "1",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_NO_REPLACE_OBJECTS": "1",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_PAGER": "cat",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_ALLOW_PROTOCOL": "",  # an object that is missing is fetched from nowhere, by nobody's program
}


def _environment() -> dict[str, str]:
    name, address = _AUTHOR
    return {
        **kept(GIT),
        "LANG": "C.UTF-8",
        "LC_ALL": "C.UTF-8",
        "GIT_AUTHOR_NAME": name,
        "GIT_AUTHOR_EMAIL": address,
        "GIT_COMMITTER_NAME": name,
        "GIT_COMMITTER_EMAIL": address,
        "GIT_EDITOR": "true",
        "GIT_ALLOW_PROTOCOL": "",  # a run names its repository, and what that misses is fetched by nobody's program
        "GIT_LITERAL_PATHSPECS": "1",
        "GIT_NO_LAZY_FETCH": "1",
        "GIT_NO_REPLACE_OBJECTS": "1",
        "GIT_OPTIONAL_LOCKS": "0",  # reading must not rewrite the user's index
        "GIT_PAGER": "cat",
        "GIT_TERMINAL_PROMPT": "0",
    }
