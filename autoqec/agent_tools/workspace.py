"""The folder that tools may read and write. Paths are resolved first, so neither `..` nor a link leads out of it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib import resources
from pathlib import Path

import autoqec
from autoqec.envs.schema import EnvSpec
from autoqec.errors import InputError
from autoqec.io.validate import load_model
from autoqec.layout import RoundDir, RunDir, in_runs
from autoqec.runs.run_info import RunInfo


@cache
def builtin_environments() -> frozenset[str]:
    """Their names, without loading the libraries that build them."""
    files = resources.files("autoqec.envs.builtin").iterdir()
    return frozenset(file.name.removesuffix(".yaml") for file in files if file.name.endswith(".yaml"))


@dataclass(frozen=True)
class Workspace:
    """root: absolute and resolved."""

    root: Path

    @classmethod
    def at(cls, folder: Path) -> Workspace:
        if not folder.is_dir():
            raise InputError(
                f"{folder} is not a folder", where="--root", hint="give the folder that holds runs/"
            )
        return cls(folder.resolve())

    def path(self, given: str, *, where: str) -> Path:
        """A path inside the workspace, absolute; whether anything is there is not asked."""
        try:
            path = (self.root / given).resolve()
        except (OSError, RuntimeError, ValueError) as error:
            raise InputError(f"{given[:200]!r} is not a path: {error}", where=where) from error
        if not path.is_relative_to(self.root):
            raise InputError(
                f"{given[:200]!r} is outside the workspace",
                where=where,
                hint="give a path below the server's --root, without leaving it by .. or by a link",
            )
        return path

    def env(self, given: str, *, where: str = "env") -> str:
        """A builtin name, or an environment file that refers to nothing outside the workspace."""
        if given in builtin_environments():
            return given
        path = self.path(given, where=where)
        if not path.is_file():
            raise InputError(
                f"{given[:200]!r} is neither a builtin environment nor a file of the workspace",
                where=where,
                hint=f"builtin: {', '.join(sorted(builtin_environments()))}",
            )
        spec = load_model(path, EnvSpec)
        for field, reference in (("code.source", spec.code.source), ("noise.dem", spec.noise.dem)):
            if reference is not None:
                self.path(str(path.parent / reference), where=f"{where}: {field}")
        return str(path)

    def run_info(self, folder: Path, *, where: str) -> RunInfo | None:
        """`run.json` of the run in `folder`, if there is one: its branches are in the workspace or in AutoQEC's checkout."""
        about = RunDir(folder).about
        if not about.is_file():
            return None
        info = load_model(about, RunInfo)
        if Path(info.repository).resolve() != Path(autoqec.__file__).resolve().parents[1]:
            self.path(info.repository, where=f"{where}: repository")
        return info

    def run(self, given: str, *, where: str = "run_dir") -> Path:
        """The folder of a run; that it is one is left to the command."""
        folder = self.path(str(in_runs(given, self.root)), where=where)
        self.run_info(folder, where=where)
        return folder

    def round_folder(self, given: str, *, where: str = "round_dir") -> Path:
        """Where a round may be written: a folder that is new, is empty or holds a round already."""
        path = self.path(given, where=where)
        hidden = any(part.startswith(".") for part in path.relative_to(self.root).parts)
        files = RoundDir(path)
        is_round = any(file.exists() for file in (files.metrics, files.output, files.manifest))
        taken = path.exists() and not path.is_dir()
        if path == self.root or hidden or taken or (path.is_dir() and any(path.iterdir()) and not is_round):
            raise InputError(
                f"a round cannot be written to {given[:200]!r}",
                where=where,
                hint="give a new folder such as runs/my-round, not a hidden one and not one with other files",
            )
        return path
