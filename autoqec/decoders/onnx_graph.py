"""The graph of a predecoder, or of one stage of a cascade, as torch writes it for ONNX."""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from autoqec.decoders.answers import Kind
from autoqec.decoders.compiler import context
from autoqec.decoders.flop_census import reference_path
from autoqec.decoders.modules.base import PredecoderModule
from autoqec.decoders.modules.cascade import EARLIER as EARLIER_IN_CONTEXT
from autoqec.decoders.modules.cascade import ShiftPredecoder
from autoqec.decoders.onnx_file import EARLIER, INPUT, MAX_BYTES, OUTPUT
from autoqec.decoders.onnx_ops import translations
from autoqec.envs.problem import DecodingProblem
from autoqec.errors import UnavailableError


class PipelineAnswers(nn.Module):
    """What the pipeline asks of a module, or of a stage, on one problem, as a function of the syndrome and what the stage before said."""

    def __init__(self, module: PredecoderModule, problem: DecodingProblem, kind: Kind) -> None:
        super().__init__()
        self.module = module
        self._ctx = context(problem)
        self._kind = kind
        graph = problem.graph
        self._width = graph.n_edges if kind == "edges" and graph is not None else problem.n_faults

    @property
    def sees_earlier(self) -> bool:
        return isinstance(self.module, ShiftPredecoder)

    def earlier_like(self, shots: int) -> Tensor:
        """Something of the shape of what the stage before says."""
        return torch.full((shots, self._width), 0.5)

    def forward(self, syndrome: Tensor, earlier: Tensor | None = None) -> Tensor:
        ctx = self._ctx if earlier is None else {**self._ctx, EARLIER_IN_CONTEXT[self._kind]: earlier}
        out: Tensor | None
        if self._kind == "edges":
            out = self.module.edge_log_odds(syndrome, ctx)
            if out is None:
                raise ValueError("the module has no matching weights of its own")
            return out
        if self._kind == "faults":
            return self.module.applied_faults(syndrome, ctx)
        out = self.module(syndrome, ctx)
        return out


@contextmanager
def _quiet() -> Iterator[None]:
    """Torch warns of libraries that no predecoder uses, and onnxscript of what it does not fold."""
    loggers = [logging.getLogger(name) for name in ("torch.onnx", "onnxscript")]
    before = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        for logger, level in zip(loggers, before, strict=True):
            logger.setLevel(level)


def onnx_graph(fixed: PipelineAnswers, problem: DecodingProblem, metadata: Mapping[str, str]) -> Any:
    """The model of `onnx`. metadata: what will be added to it."""
    try:
        import onnx
        import onnxscript  # noqa: F401
    except ImportError as error:
        raise UnavailableError(
            "ONNX export needs onnx and onnxscript", where="--onnx", hint="pip install 'autoqec[export]'"
        ) from error
    batch = torch.export.Dim("batch", min=1)
    inputs = {INPUT: torch.zeros(4, problem.n_checks)}
    if fixed.sees_earlier:
        inputs[EARLIER] = fixed.earlier_like(4)
    with _quiet(), reference_path(), torch.no_grad(), tempfile.TemporaryDirectory() as folder:
        program = torch.onnx.export(
            fixed.eval(),
            tuple(inputs.values()),
            dynamo=True,
            input_names=[*inputs],
            output_names=[OUTPUT],
            dynamic_shapes=tuple({0: batch} for _ in inputs),
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
        return onnx.load(scratch)
