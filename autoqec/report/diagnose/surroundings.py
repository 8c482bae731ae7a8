"""The environment of a round: found by what the round and its run say, and checked against what they recorded."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from autoqec.errors import AutoQECError, InputError
from autoqec.io.hashing import sha256_file
from autoqec.layout import RoundDir, RunDir
from autoqec.report.reading import Gaps, Row, json_of, quote

if TYPE_CHECKING:
    from autoqec.envs.environment import Environment
    from autoqec.envs.problem import DecodingProblem


@dataclass
class Surroundings:
    """name: what names the environment, None where nothing does. source: the file that names it. yaml_sha256: of the file as the run started."""

    name: str | None = None
    source: str = ""
    yaml_sha256: str | None = None

    @cached_property
    def loaded(self) -> Environment | AutoQECError | None:
        """The environment, or why it cannot be read."""
        if self.name is None:
            return None
        from autoqec.envs.load import load_env

        try:
            return load_env(self.name)
        except AutoQECError as error:
            return error

    @property
    def env(self) -> Environment | None:
        return None if self.loaded is None or isinstance(self.loaded, AutoQECError) else self.loaded

    @cached_property
    def built(self) -> DecodingProblem | AutoQECError | None:
        """The decoding problem at the lowest p, or why there is none. It has the same faults at every p."""
        if self.env is None:
            return None
        try:
            return self.env.problem(min(self.env.spec.noise.p))
        except AutoQECError as error:
            return error

    @property
    def problem(self) -> DecodingProblem | None:
        return None if self.built is None or isinstance(self.built, AutoQECError) else self.built

    @cached_property
    def content_hash(self) -> str | None:
        if self.problem is None or self.env is None:
            return None
        return self.env.content_hash

    @property
    def has_changed(self) -> bool:
        """Whether the environment's file is another than when the run started."""
        if self.yaml_sha256 is None or self.name is None or not Path(self.name).is_file():
            return False
        return sha256_file(Path(self.name)) != self.yaml_sha256


def of_run(files: RunDir, gaps: Gaps, *, env: str | None = None) -> Surroundings:
    about = json_of(files.about, gaps, needed=env is None) or {}
    name, sha = about.get("env"), about.get("env_yaml_sha256")
    if env is not None:
        return Surroundings(env, "--env")
    if not isinstance(name, str):
        return Surroundings()
    return Surroundings(name, files.about.name, sha if isinstance(sha, str) else None)


def of_round(files: RoundDir, manifest: Row | None, *, env: str | None = None) -> Surroundings:
    """For a round outside a run: what it recorded, where its hash says that it is the same environment still."""
    if env is not None:
        return Surroundings(env, "--env")
    manifest = manifest or {}
    name, sha = manifest.get("env_name"), manifest.get("env_yaml_sha256")
    for word in (manifest.get("env_yaml_path"), *(manifest.get("invocation_argv") or ())):
        path = Path(str(word))
        if path.suffix in (".yaml", ".yml", ".json") and _has_hash(path, sha):
            return Surroundings(str(path), files.manifest.name)
    from autoqec.envs.load import builtin_names

    if name in builtin_names():
        found = Surroundings(str(name), files.manifest.name)
        if found.content_hash == manifest.get("env_hash"):
            return found
    return Surroundings()


def _has_hash(path: Path, sha: object) -> bool:
    try:
        return sha is not None and path.is_file() and sha256_file(path) == sha
    except OSError:
        return False


def checked_env(env: str | None) -> str | None:
    """An environment that the user names has to be there."""
    if env is not None:
        from autoqec.envs.load import load_env

        try:
            load_env(env)
        except AutoQECError as error:
            raise InputError(
                quote(error.what), where=f"--env {error.where or env}", hint=error.hint
            ) from error
    return env
