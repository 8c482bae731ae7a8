"""`manifest.json` of a package: names that lead nowhere but into the package, and hashes."""

from __future__ import annotations

import re
import unicodedata
from pathlib import PurePosixPath
from typing import Annotated, Self

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from autoqec.eval.front_schema import SHA_PATTERN
from autoqec.layout import PackageDir, RunDir
from autoqec.runs.names import check_run_id
from autoqec.runs.repository import base_ref

FORMAT = 1
_MAX_REFS = 20_000
_RUN_NAME = re.compile(r"[!-~][ -~]{0,199}")
_REF_PART = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,199}")

Commit = Annotated[str, Field(pattern=SHA_PATTERN)]
Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


class Manifest(BaseModel):
    """`manifest.json`. files: SHA-256 by name, of all others. refs: what the bundle holds. env: the name of a builtin, or of a file
    in the package's `env`."""

    model_config = ConfigDict(extra="forbid")

    format: int
    autoqec_version: str = Field(pattern=r"^[0-9A-Za-z.+-]{1,80}$")
    run_id: str
    env: str = Field(min_length=1, max_length=200)
    env_hash: Sha256
    base_commit: Commit
    refs: dict[str, Commit] = Field(max_length=_MAX_REFS)
    files: dict[str, Sha256]

    @field_validator("run_id")
    @classmethod
    def _is_a_run(cls, run_id: str) -> str:
        return check_run_id(run_id)

    @field_validator("env")
    @classmethod
    def _is_a_plain_name(cls, env: str) -> str:
        if "/" in env or "\\" in env or env.startswith(".") or not env.isprintable():
            raise ValueError(
                f"{env[:80]!a} is neither a builtin environment nor the name of a file beside it"
            )
        return env

    @field_validator("files")
    @classmethod
    def _files_lie_inside(cls, files: dict[str, str]) -> dict[str, str]:
        alike: dict[str, str] = {}
        for name in files:
            if (problem := _name_problem(name)) is not None:
                raise ValueError(f"file {name[:120]!a} {problem}")
            twin = alike.setdefault(unicodedata.normalize("NFKC", name).casefold(), name)
            if twin != name:
                raise ValueError(f"files {name[:120]!a} and {twin[:120]!a} look alike")
        return files

    @model_validator(mode="after")
    def _refs_are_of_the_run(self) -> Self:
        base = base_ref(self.run_id)
        for ref in self.refs:
            kind, _, rest = ref.removeprefix("refs/heads/").partition(f"/{self.run_id}/")
            parts = rest.split("/")
            is_round = ref.startswith("refs/heads/") and kind in ("exp", "quarantine")
            if ref != base and not (is_round and all(_is_ref_part(part) for part in parts)):
                raise ValueError(f"{ref[:120]!a} is not a branch of run {self.run_id}")
        if self.refs.get(base) != self.base_commit:
            raise ValueError(f"{base} is not base_commit")
        return self


def _is_ref_part(part: str) -> bool:
    bad = ".." in part or part.endswith((".", ".lock"))
    return _REF_PART.fullmatch(part) is not None and not bad


def _name_problem(name: str) -> str | None:
    path = PurePosixPath(name)
    if (
        name != path.as_posix()
        or path.is_absolute()
        or ".." in path.parts
        or "\\" in name
        or len(name) > 1000
    ):
        return "leads out of the package"
    if not name.isprintable() or any(part.startswith(".") for part in path.parts):
        return "has a name that no package has"
    top, *rest = path.parts
    files = PackageDir("")
    if top == PackageDir.RUN and rest:
        if not all(_RUN_NAME.fullmatch(part) for part in rest) or rest[0] == RunDir("").in_flight.name:
            return "is nothing that a run leaves"
        return None
    if (top in (files.env.name, files.cards.name) and rest) or name == files.bundle.name:
        return None
    return "is not part of a package"
