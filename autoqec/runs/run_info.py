"""`run.json`: which run it is, of which environment, in which repository."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from autoqec import __version__


class RunInfo(BaseModel):
    """`run.json`. env: a builtin name or an absolute path. repository: root of the experiment repository."""

    model_config = ConfigDict(extra="forbid")

    run_id: str
    created_at: str
    env: str
    env_yaml_sha256: str
    repository: str = Field(min_length=1, max_length=4096)
    base_commit: str = Field(pattern=r"^[0-9a-f]{40,64}$")
    training_profile: Literal["dev", "prod"] | None = None
    autoqec_version: str = __version__


def locate_env(env: str) -> tuple[str, Path]:
    """What to call an environment from any folder, and its file."""
    from autoqec.envs.load import builtin_names, env_file, load_env

    load_env(env)  # says what is wrong with it
    path = env_file(env).resolve()
    return (env if env in builtin_names() else str(path)), path
