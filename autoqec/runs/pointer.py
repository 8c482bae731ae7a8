"""The pointer file: what ties a branch to the artifacts of its round. A pointer with a gap is refused."""

from __future__ import annotations

import importlib.metadata
import json
from functools import lru_cache
from pathlib import Path
from typing import Self

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from autoqec.io.hashing import sha256_json
from autoqec.io.strict_yaml import parse_json
from autoqec.io.validate import validate_model
from autoqec.runner.schema import RoundStatus, canonical_fork
from autoqec.runs.names import parse_branch

_SHA256 = r"^[0-9a-f]{64}$"
_COMMIT = r"^([0-9a-f]{40}|[0-9a-f]{64})$"


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)


class Provenance(_Strict):
    """What the round was made from, by hash. checkpoint_sha256: of what it left; null if it left none."""

    env_yaml_sha256: str = Field(pattern=_SHA256)
    dsl_config_sha256: str = Field(pattern=_SHA256)
    requirements_fingerprint: str = Field(pattern=_SHA256)
    repo_root_resolved: str = Field(min_length=1)
    env: str = Field(min_length=1)
    training_profile: str
    train_seed: int = Field(ge=0)
    checkpoint_sha256: str | None = Field(pattern=_SHA256)


class MetricsSummary(_Strict):
    delta_vs_parent: float | None
    flops_per_syndrome: int | None
    n_params: int | None
    status: RoundStatus


class ArtifactPaths(_Strict):
    """Absolute paths; null for a file that was not made."""

    checkpoint: str | None
    metrics: str | None
    train_log: str | None

    @field_validator("checkpoint", "metrics", "train_log")
    @classmethod
    def _is_absolute(cls, path: str | None) -> str | None:
        if path is not None and not Path(path).is_absolute():
            raise ValueError(f"{path!r} is not an absolute path")
        return path


class Pointer(_Strict):
    """`fork_from_ordered` is null for a round with one parent; every key is there all the same."""

    run_id: str
    round_idx: int = Field(ge=1)
    round_attempt_id: str = Field(min_length=1)
    branch: str
    commit_sha: str = Field(pattern=_COMMIT)
    fork_from: str | list[str]
    fork_from_canonical: str
    fork_from_ordered: list[str] | None
    provenance: Provenance
    metrics_summary: MetricsSummary
    artifact_paths: ArtifactPaths

    @model_validator(mode="after")
    def _names_agree(self) -> Self:
        name = parse_branch(self.branch)
        if (name.run_id, name.round) != (self.run_id, self.round_idx):
            raise ValueError(f"branch {self.branch} is not of round {self.round_idx} of run {self.run_id}")
        if self.fork_from_canonical != canonical_fork(self.fork_from):
            raise ValueError(f"fork_from_canonical = {self.fork_from_canonical!r} does not name fork_from")
        if (self.artifact_paths.checkpoint is None) != (self.provenance.checkpoint_sha256 is None):
            raise ValueError("a checkpoint comes with its hash, and a hash with its checkpoint")
        return self

    def to_json(self) -> bytes:
        return (json.dumps(self.model_dump(mode="json"), indent=2, ensure_ascii=False) + "\n").encode()


def read_pointer(content: bytes, *, where: str) -> Pointer:
    """The pointer in a file's content; every field has to be there."""
    return validate_model(parse_json(content.decode(errors="replace"), where=where), Pointer, where=where)


@lru_cache(maxsize=1)
def requirements_fingerprint() -> str:
    """Identifies the installed packages and their versions."""
    found = {dist.metadata["Name"]: dist.version for dist in importlib.metadata.distributions()}
    return sha256_json(found)
