"""Predecoders for other programs: ONNX graphs and safetensors files."""

from __future__ import annotations

import json
import logging
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

import autoqec
from autoqec.decoders import checkpoint
from autoqec.decoders.answers import Kind
from autoqec.decoders.backends import Backend, make_backend
from autoqec.decoders.checkpoint import CheckpointInfo
from autoqec.decoders.compiler import context
from autoqec.decoders.dsl_schema import PredecoderDSL
from autoqec.decoders.flop_census import reference_path
from autoqec.decoders.modules.cascade import CascadePredecoder
from autoqec.decoders.modules.predecoders import ProblemPredecoder
from autoqec.decoders.modules.turbo import TurboBP
from autoqec.decoders.onnx_check import count_differing
from autoqec.decoders.onnx_ops import translations
from autoqec.decoders.onnx_predecoder import (
    INPUT,
    MAX_BYTES,
    OUTPUT,
    OUTPUTS,
    PREFIX,
    OnnxPredecoder,
    described,
)
from autoqec.decoders.pipeline import PredecoderPipeline
from autoqec.decoders.reference_p import reference_p
from autoqec.envs.environment import Environment
from autoqec.envs.problem import U8, DecodingProblem
from autoqec.envs.seeds import derive_seed
from autoqec.errors import UnavailableError
from autoqec.io import atomic

MOST_UNROLLED = 1000
"""Iterations of belief propagation in an exported graph: torch takes minutes for a hundred."""

CHECKED_SHOTS = 4096
"""Shots on which an exported file and the pipeline are compared."""


class PipelineAnswers(nn.Module):
    """What the pipeline asks of a module on one problem, as a function of the syndrome alone."""

    def __init__(self, module: ProblemPredecoder, problem: DecodingProblem, kind: Kind) -> None:
        super().__init__()
        self.module = module
        self._ctx = context(problem)
        self._kind = kind

    def forward(self, syndrome: Tensor) -> Tensor:
        out: Tensor | None
        if self._kind == "edges":
            out = self.module.edge_log_odds(syndrome, self._ctx)
            if out is None:
                raise ValueError("the module has no matching weights of its own")
            return out
        if self._kind == "faults":
            return self.module.applied_faults(syndrome, self._ctx)
        out = self.module(syndrome, self._ctx)
        return out


@dataclass(frozen=True)
class OnnxExport:
    """What was written, and how it was checked: `differing` of `shots` predictions differ from the pipeline's.

    Where one differs, rounding decides a tie. p: the physical error rate that the file decodes.
    """

    path: Path
    output: str
    p: float
    shots: int
    differing: int


def to_onnx(
    module: ProblemPredecoder,
    backend: Backend,
    path: Path,
    *,
    detectors: U8,
    about: Mapping[str, str] | None = None,
) -> OnnxExport:
    """Writes what `PredecoderPipeline(module, backend)` decodes with, once onnxruntime predicts the same from it.

    detectors: packed shots of the environment, on which both are compared. about: further metadata (environment, checkpoint).
    """
    if any(isinstance(part, TurboBP) and part.turbo.legs for part in module.modules()):
        raise UnavailableError(
            "the legs of turbo propagation run on few shots each, which an ONNX graph cannot say: unrolled for all of them it would be "
            "a hundred times as much work",
            where="--onnx",
            hint="export a config with legs: 0, or use the predecoder in Python, in sinter or with `autoqec decode`",
        )
    if isinstance(module, CascadePredecoder):
        raise UnavailableError(
            "a cascade asks its later stages about few shots, by what the backend says in between, which an ONNX graph cannot say",
            where="--onnx",
            hint="export a round of one of its stages, or use the cascade in Python, in sinter or with `autoqec decode`",
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
    data = _onnx_bytes(PipelineAnswers(module.eval(), problem, kind), problem.n_checks, metadata)
    differing = count_differing(pipeline, OnnxPredecoder(data, problem, backend=backend), detectors)
    atomic.write_bytes(path, data)
    return OnnxExport(path, OUTPUTS[kind], problem.p, len(detectors), differing)


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


@contextmanager
def _quiet() -> Iterator[None]:
    """Torch warns of libraries that no predecoder uses."""
    logger = logging.getLogger("torch.onnx")
    before = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(before)


def _onnx_bytes(fixed: PipelineAnswers, n_checks: int, metadata: Mapping[str, str]) -> bytes:
    try:
        import onnx
        import onnxscript  # noqa: F401
    except ImportError as error:
        raise UnavailableError(
            "ONNX export needs onnx and onnxscript", where="--onnx", hint="pip install 'autoqec[export]'"
        ) from error
    batch = torch.export.Dim("batch", min=1)
    with _quiet(), reference_path(), torch.no_grad(), tempfile.TemporaryDirectory() as folder:
        program = torch.onnx.export(
            fixed.eval(),
            (torch.zeros(4, n_checks),),
            dynamo=True,
            input_names=[INPUT],
            output_names=[OUTPUT],
            dynamic_shapes={"syndrome": {0: batch}},
            custom_translation_table=translations(),
            verbose=False,
        )
        if program is None:
            raise UnavailableError("torch could not export this module to ONNX", where="--onnx")
        scratch = Path(folder) / "model.onnx"
        program.save(str(scratch))
        size = sum(part.stat().st_size for part in Path(folder).iterdir())  # large ones come in two files
        if size + sum(map(len, metadata.values())) > MAX_BYTES:
            raise UnavailableError(
                f"the graph takes {size >> 20} MiB, and an ONNX file holds {MAX_BYTES >> 20}",
                where="--onnx",
                hint="export a smaller predecoder; this one decodes in Python, in sinter and with `autoqec decode`",
            )
        model = onnx.load(scratch)
    for name, text in metadata.items():
        model.metadata_props.add(key=PREFIX + name, value=text)
    return bytes(model.SerializeToString())


def to_safetensors(described: Mapping[str, Any], state: dict[str, Tensor], path: Path) -> None:
    """described: what the checkpoint says about itself."""
    from safetensors.torch import save

    atomic.write_bytes(path, save(state, {"autoqec": json.dumps(described)}))
