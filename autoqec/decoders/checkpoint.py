"""Checkpoints: weights and what they belong to, loadable without executing anything.

`checkpoint.pt` is read with `weights_only=True` and no fallback, then checked: keys, shapes, dtypes, finiteness, bytes. Its
twin is `checkpoint.safetensors` with the same description as JSON metadata.
"""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import torch
from pydantic import BaseModel, ConfigDict, Field
from torch import Tensor

from autoqec.decoders.bounded_build import BoundedBuild
from autoqec.decoders.checkpoint_format import MAX_BYTES, check_archive
from autoqec.decoders.compiler import compile_predecoder
from autoqec.decoders.dsl_schema import PredecoderDSL
from autoqec.decoders.modules.predecoders import ProblemPredecoder
from autoqec.decoders.modules.sharing import class_names
from autoqec.envs.problem import DecodingProblem
from autoqec.errors import InputError
from autoqec.io import atomic
from autoqec.io.untrusted_file import read_regular
from autoqec.io.validate import validate_model

FORMAT = 1
_MAX_DIMENSIONS = 8
_DTYPES = frozenset({torch.float16, torch.float32, torch.float64})
"""Learned numbers are real: an integer has no small change by which to see whether it is a weight or a key."""


class CheckpointInfo(BaseModel):
    """What a checkpoint says about itself.

    train_labels: inclusive range of the seed labels that training used, (0, -1) if none. versions: of the libraries.
    classes: by parameter, the names of the neighbourhoods that it has numbers for, in the order of its last dimension.
    train_shots: hash of the recorded shots that it was trained on, if any.
    """

    model_config = ConfigDict(extra="forbid")

    format: int = FORMAT
    dsl: PredecoderDSL
    output_mode: str
    env_name: str
    env_hash: str
    seed: int
    train_labels: tuple[int, int]
    versions: dict[str, str]
    classes: dict[str, list[str]] = Field(default_factory=dict)
    train_shots: str | None = Field(default=None, pattern="^[0-9a-f]{64}$")


def save(folder: Path, module: ProblemPredecoder, info: CheckpointInfo) -> Path:
    """Writes checkpoint.pt and its safetensors twin, each whole or not at all."""
    from safetensors.torch import save as to_safetensors

    state = {name: tensor.detach().cpu().contiguous() for name, tensor in module.state_dict().items()}
    described = info.model_copy(update={"classes": class_names(module)}).model_dump(mode="json")
    buffer = io.BytesIO()
    torch.save({"info": json.dumps(described), "state": state}, buffer)
    path = folder / "checkpoint.pt"
    atomic.write_bytes(
        folder / "checkpoint.safetensors", to_safetensors(state, {"autoqec": json.dumps(described)})
    )
    atomic.write_bytes(path, buffer.getvalue())
    return path


def read(path: Path) -> tuple[CheckpointInfo, dict[str, Tensor]]:
    """The description and the weights, as data. Nothing in the file is executed."""
    return from_bytes(read_file(path), where=str(path))


def from_bytes(data: bytes, *, where: str) -> tuple[CheckpointInfo, dict[str, Tensor]]:
    """As `read`, of a file that was read before."""
    described, state = parse(data, where=where)
    return checked_info(described, where=where), state


def checked_info(described: dict[str, Any], *, where: str) -> CheckpointInfo:
    """What a checkpoint says about itself, where this version's code is to run it."""
    return validate_model(described, CheckpointInfo, where=where)


def read_file(path: Path) -> bytes:
    """The bytes of a checkpoint file, read once: what is hashed is what is used."""
    return read_regular(path, limit=MAX_BYTES, hint="give the checkpoint.pt of a round")


def parse(data: bytes, *, where: str) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """The description, not yet validated, and the checked weights of a checkpoint file's bytes."""
    try:
        check_archive(data, where=where)
        content = torch.load(io.BytesIO(data), map_location="cpu", weights_only=True)
    except InputError:
        raise
    except Exception as error:
        first = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise InputError(
            f"is not a readable checkpoint: {first[:200]}",
            where=where,
            hint="train the round again",
        ) from error
    if (
        not isinstance(content, dict)
        or set(content) != {"info", "state"}
        or not isinstance(content["info"], str)
    ):
        raise InputError(
            "does not have the layout of a checkpoint", where=where, hint="train the round again"
        )
    try:
        described = json.loads(content["info"])
    except (ValueError, RecursionError) as error:
        raise InputError("has a damaged description", where=where) from error
    if not isinstance(described, dict):
        raise InputError("has a damaged description", where=where)
    return described, _checked_state(content["state"], where)


def load(path: Path, problem: DecodingProblem) -> tuple[CheckpointInfo, ProblemPredecoder]:
    """The predecoder of a checkpoint, rebuilt on `problem`. Tier-2 checkpoints: inside the sandboxed worker only."""
    info, state = read(path)
    return info, restore(info, state, problem, where=str(path))


def restore(
    info: CheckpointInfo, state: dict[str, Tensor], problem: DecodingProblem, *, where: str
) -> ProblemPredecoder:
    with BoundedBuild(state, where=where):
        module = compile_predecoder(info.dsl, problem)
    expected = module.state_dict()
    if missing := sorted(expected.keys() ^ state.keys()):
        raise InputError(f"has other tensors than its config asks for: {missing[:5]}", where=where)
    for name, tensor in expected.items():
        if state[name].shape != tensor.shape or state[name].dtype != tensor.dtype:
            raise InputError(
                f"tensor {name} is {state[name].dtype} {tuple(state[name].shape)}, "
                f"expected {tensor.dtype} {tuple(tensor.shape)}",
                where=where,
                hint="was it trained on this environment?",
            )
    if getattr(info, "classes", None) and info.classes != class_names(module):
        raise InputError(
            "has other classes of neighbourhoods than the problem",
            where=where,
            hint="was it trained on this environment?",
        )
    module.load_state_dict(state)
    return module


def _checked_state(state: Any, where: str) -> dict[str, Tensor]:
    if not isinstance(state, dict):
        raise InputError("has no weights", where=where)
    total = 0
    for name, tensor in state.items():
        if not isinstance(name, str) or type(tensor) is not Tensor:
            raise InputError(f"entry {str(name)[:80]!r} is not a plain tensor", where=where)
        if tensor.layout != torch.strided or not tensor.is_contiguous() or tensor.device.type != "cpu":
            raise InputError(f"tensor {name[:80]} is sparse or strided", where=where)
        if tensor.dtype not in _DTYPES:
            raise InputError(
                f"tensor {name[:80]} is {tensor.dtype}, and weights are real numbers of 16, 32 or 64 bits",
                where=where,
                hint="register tables that follow from the problem with persistent=False",
            )
        if tensor.ndim > _MAX_DIMENSIONS:
            raise InputError(f"tensor {name[:80]} has {tensor.ndim} dimensions", where=where)
        total += tensor.numel() * tensor.element_size()
        if total > MAX_BYTES:
            raise InputError(f"tensors take more than {MAX_BYTES >> 20} MiB", where=where)
        if not bool(torch.isfinite(tensor).all()):
            raise InputError(
                f"tensor {name[:80]} has NaN or infinite entries", where=where, hint="lower the learning rate"
            )
    return state
