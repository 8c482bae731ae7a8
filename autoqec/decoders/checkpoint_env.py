"""The environment that a checkpoint was trained on, found by what the round says and believed by its content hash.

The description is read out of the file's layout: nothing is unpacked or executed, and torch is not imported.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field

from autoqec.decoders.checkpoint_format import MAX_BYTES, description
from autoqec.envs.environment import Environment
from autoqec.envs.load import builtin_names, load_env
from autoqec.errors import AutoQECError, InputError
from autoqec.io.strict_yaml import parse_json, read_json
from autoqec.io.untrusted_file import read_regular
from autoqec.io.validate import validate_model
from autoqec.layout import RoundDir

_MAX_MANIFEST = 1 << 20
_HINT = "give the environment that the round was trained on (--env)"


class _Described(BaseModel):
    """What is needed of `CheckpointInfo`."""

    model_config = ConfigDict(extra="ignore")

    env_name: str = Field(max_length=200)
    env_hash: str = Field(max_length=200)


def env_of_checkpoint(round_dir_or_checkpoint: str | Path) -> Environment:
    """The builtin environment of the checkpoint's name, else the file that the round's manifest names: whichever has the
    content hash of the checkpoint. An InputError says why none has."""
    given = Path(round_dir_or_checkpoint)
    files = RoundDir(given if given.is_dir() else given.parent)
    path = files.checkpoint if given.is_dir() else given
    data = read_regular(path, limit=MAX_BYTES, hint="give the folder of a round, or its checkpoint.pt")
    where = str(path)
    info = validate_model(
        parse_json(description(data, where=where), where=f"description in {where}"), _Described, where=where
    )
    candidates = [info.env_name] if info.env_name in builtin_names() else []
    candidates += [recorded] if (recorded := _recorded_path(files)) is not None else []
    reasons = []
    for candidate in candidates:
        try:
            env = load_env(candidate)
            if env.content_hash == info.env_hash:
                return env
            reasons.append(f"{candidate} has another content hash")
        except AutoQECError as error:
            reasons.append(f"{candidate} {error.what}")
    tried = "; ".join(reasons) or "it is not a builtin environment, and artifact_manifest.json names no file"
    raise InputError(f"was trained on {info.env_name!r}, which is not here: {tried}", where=where, hint=_HINT)


def env_or_own(given: str | Path | Environment | None, round_dir_or_checkpoint: str | Path) -> Environment:
    """The environment as it was given; else the one that the checkpoint was trained on."""
    if given is None:
        return env_of_checkpoint(round_dir_or_checkpoint)
    return given if isinstance(given, Environment) else load_env(given)


def _recorded_path(files: RoundDir) -> str | None:
    """What the round recorded as the file of its environment; None where it recorded nothing that can be read."""
    try:
        manifest = read_json(files.manifest, limit=_MAX_MANIFEST)
    except InputError:
        return None
    found = manifest.get("env_yaml_path") if isinstance(manifest, Mapping) else None
    return found if isinstance(found, str) and found else None
