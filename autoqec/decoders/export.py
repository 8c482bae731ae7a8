"""Predecoders for other programs: ONNX graphs and safetensors files."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

import autoqec
from autoqec.decoders import checkpoint
from autoqec.decoders.answers import Kind
from autoqec.decoders.backends import Backend, make_backend
from autoqec.decoders.checkpoint import CheckpointInfo
from autoqec.decoders.dsl_schema import PredecoderDSL
from autoqec.decoders.gates import Gates
from autoqec.decoders.modules.cascade import stages_of
from autoqec.decoders.modules.predecoders import ProblemPredecoder
from autoqec.decoders.modules.turbo import TurboBP
from autoqec.decoders.onnx_check import Compared, compared
from autoqec.decoders.onnx_file import OUTPUTS, PREFIX, described
from autoqec.decoders.onnx_graph import PipelineAnswers, onnx_graph
from autoqec.decoders.onnx_predecoder import OnnxPredecoder
from autoqec.decoders.onnx_stages import about_stage, stage_path
from autoqec.decoders.pipeline import PredecoderPipeline
from autoqec.decoders.reference_p import reference_p
from autoqec.envs.environment import Environment
from autoqec.envs.problem import U8
from autoqec.envs.seeds import derive_seed
from autoqec.errors import InputError, UnavailableError
from autoqec.io import atomic
from autoqec.io.hashing import sha256_bytes, sha256_json
from autoqec.io.untrusted_file import is_there

MOST_UNROLLED = 1000
"""Iterations of belief propagation in an exported graph: torch takes minutes for a hundred."""

CHECKED_SHOTS = 4096
"""Shots on which an exported file and the pipeline are compared."""


@dataclass(frozen=True)
class OnnxExport:
    """What was written, and how it was checked on `shots`.

    path: what `OnnxPredecoder` takes. files: one, or one for each stage of a cascade. p: the physical error rate that they decode.
    compared: with the pipeline. Where a prediction differs, rounding decides a tie.
    """

    path: Path
    files: tuple[Path, ...]
    output: str
    p: float
    shots: int
    compared: Compared
    gates: Gates

    @property
    def differing(self) -> int:
        return self.compared.differing


def to_onnx(
    module: ProblemPredecoder,
    backend: Backend,
    path: Path,
    *,
    detectors: U8,
    about: Mapping[str, str] | None = None,
) -> OnnxExport:
    """Writes what `PredecoderPipeline(module, backend)` decodes with, once onnxruntime predicts the same from it: one file, or of a
    cascade one for each stage (`stage_path`), all or none.

    detectors: packed shots of the environment, on which both are compared. about: further metadata (environment, checkpoint).
    """
    if any(isinstance(part, TurboBP) and part.turbo.legs for part in module.modules()):
        raise UnavailableError(
            "the legs of turbo propagation run on few shots each, which an ONNX graph cannot say: unrolled for all of them it would be "
            "a hundred times as much work",
            where="--onnx",
            hint="export a config with legs: 0, or use the predecoder in Python, in sinter or with `autoqec decode`",
        )
    problem = backend.problem
    pipeline = PredecoderPipeline(module, backend)
    kind, _ = pipeline.answers(detectors[:1])
    metadata = {
        **described(problem),
        "output": OUTPUTS[kind],
        "backend": backend.name,
        "order": str(getattr(backend, "order", 0)),
        "p": repr(problem.p),
        "env": problem.name,
        "version": autoqec.__version__,
        **(about or {}),
    }
    files = _written_out(pipeline, kind, metadata, path)
    found = compared(pipeline, OnnxPredecoder([*files.values()], problem, backend=backend), detectors)
    atomic.write_together(files)
    return OnnxExport(path, tuple(files), OUTPUTS[kind], problem.p, len(detectors), found, pipeline.gates)


def _written_out(
    pipeline: PredecoderPipeline, kind: Kind, metadata: dict[str, str], path: Path
) -> dict[Path, bytes]:
    """The files of an export, in order, with what all of them say in their metadata."""
    problem, gates = pipeline.problem, pipeline.gates
    answering = [PipelineAnswers(stage.eval(), problem, kind) for stage in stages_of(pipeline.module)]
    if len(answering) == 1:
        return {path: _with_metadata(onnx_graph(answering[0], problem, metadata), metadata)}
    files = [stage_path(path, number) for number in range(1, len(answering) + 1)]
    _check_targets(path, files)
    own = [
        about_stage(at, gates, pipeline.backend.name, sees_earlier=each.sees_earlier, path=path)
        for at, each in enumerate(answering)
    ]
    graphs = [onnx_graph(each, problem, {**metadata, **own[at]}) for at, each in enumerate(answering)]
    whole = sha256_json([own, [sha256_bytes(each.SerializeToString()) for each in graphs]])
    return {
        file: _with_metadata(graph, {**metadata, **more, "cascade_sha256": whole})
        for file, graph, more in zip(files, graphs, own, strict=True)
    }


def _check_targets(path: Path, files: list[Path]) -> None:
    """Before the work, and so that `path` names the cascade afterwards."""
    if is_there(path):
        raise InputError(
            f"is there, and a cascade is written to {files[0].name} and so on: who reads {path.name} would get the older one",
            where=str(path),
            hint="remove it, or give another name",
        )
    for file in files:
        if is_there(file) and not file.is_file():
            raise InputError("is not a file", where=str(file), hint="give another name")


def export_round(
    env: Environment,
    info: CheckpointInfo,
    state: dict[str, Tensor],
    path: Path,
    *,
    sha256: str,
    p: float | None = None,
) -> OnnxExport:
    """The predecoder of a checkpoint with this hash, for its environment at p; by default the reference p."""
    if (steps := _unrolled(info.dsl)) > MOST_UNROLLED:
        raise UnavailableError(
            f"an ONNX graph spells out every iteration, and this predecoder has {steps} of them; {MOST_UNROLLED} can be exported",
            where="--onnx",
            hint="use it in Python, in sinter or with `autoqec decode`",
        )
    p = reference_p(env) if p is None else p
    problem = env.problem(p)
    low, _ = env.spec.noise.seed_policy.val
    shots = env.sampler(p).sample(CHECKED_SHOTS, derive_seed("export-check", env.stream(p), low))
    return to_onnx(
        checkpoint.restore(info, state, problem, where=str(path)),
        make_backend(problem, env.spec.classical_backend),
        path,
        detectors=shots.detectors,
        about={"env": env.spec.name, "env_hash": env.content_hash, "checkpoint_sha256": sha256},
    )


def _unrolled(dsl: PredecoderDSL) -> int:
    """Iterations of belief propagation that a graph spells out: of a cascade those of its longest stage."""
    if dsl.stages is not None:
        return max(map(_unrolled, dsl.parts))
    if (bp := dsl.neural_bp) is None:
        return 0
    return (
        bp.iterations
        if bp.turbo is None
        else bp.turbo.exchanges * (bp.iterations + bp.turbo.context_iterations)
    )


def _with_metadata(model: Any, metadata: Mapping[str, str]) -> bytes:
    for name, text in metadata.items():
        model.metadata_props.add(key=PREFIX + name, value=text)
    return bytes(model.SerializeToString())


def to_safetensors(described: Mapping[str, Any], state: dict[str, Tensor], path: Path) -> None:
    """described: what the checkpoint says about itself."""
    from safetensors.torch import save

    atomic.write_bytes(path, save(state, {"autoqec": json.dumps(described)}))
