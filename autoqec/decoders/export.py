"""Predecoders for other programs: ONNX graphs and safetensors files."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

import torch
from torch import Tensor, nn

from autoqec.decoders.checkpoint import CheckpointInfo
from autoqec.decoders.compiler import context
from autoqec.decoders.flop_census import reference_path
from autoqec.decoders.modules.predecoders import ProblemPredecoder
from autoqec.envs.problem import DecodingProblem
from autoqec.errors import UnavailableError
from autoqec.io import atomic


class FixedContext(nn.Module):
    """`forward` with the context of one problem and its prior as an input: what an exported graph computes."""

    def __init__(self, module: ProblemPredecoder, problem: DecodingProblem) -> None:
        super().__init__()
        self.module = module
        self._ctx = context(problem)

    def forward(self, syndrome: Tensor, prior_p: Tensor) -> Tensor:
        out: Tensor = self.module(syndrome, {**self._ctx, "prior_p": prior_p})
        return out


def to_onnx(module: ProblemPredecoder, problem: DecodingProblem, path: Path) -> None:
    """Inputs: syndrome [batch, n_checks] float, prior_p [n_faults] float; output: that of `forward`."""
    try:
        import onnx  # noqa: F401
        import onnxscript  # noqa: F401
    except ImportError as error:
        raise UnavailableError(
            "ONNX export needs onnx and onnxscript", where="--onnx", hint="pip install 'autoqec[export]'"
        ) from error
    fixed = FixedContext(module.eval(), problem)
    example = (torch.zeros(4, problem.n_checks), torch.from_numpy(problem.priors).float())
    batch = torch.export.Dim("batch", min=1)
    with reference_path(module), torch.no_grad(), tempfile.TemporaryDirectory() as folder:
        program = torch.onnx.export(
            fixed,
            example,
            dynamo=True,
            input_names=["syndrome", "prior_p"],
            output_names=["output"],
            dynamic_shapes={"syndrome": {0: batch}, "prior_p": None},
            verbose=False,
        )
        scratch = Path(folder) / "model.onnx"
        if program is None:
            raise UnavailableError("torch could not export this module to ONNX", where="--onnx")
        program.save(str(scratch))
        atomic.write_bytes(path, scratch.read_bytes())


def to_safetensors(info: CheckpointInfo, state: dict[str, Tensor], path: Path) -> None:
    from safetensors.torch import save

    atomic.write_bytes(path, save(state, {"autoqec": json.dumps(info.model_dump(mode="json"))}))
