"""Whether an exported predecoder predicts what the pipeline predicts, but for ties that rounding decides."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from autoqec.decoders.answers import Kind
from autoqec.decoders.backends.edge_weights import checked_log_odds
from autoqec.decoders.compiler import context
from autoqec.decoders.onnx_predecoder import OnnxPredecoder
from autoqec.decoders.pipeline import PredecoderPipeline
from autoqec.envs.packing import unpack
from autoqec.envs.problem import U8, log_odds
from autoqec.errors import AutoQECError

# An answer may be further from the one in double precision than this only where the pipeline's own is, too: belief propagation
# that does not converge makes large differences out of rounding.
_ATOL, _TIMES = 1e-3, 10.0

F64 = npt.NDArray[np.float64]


def count_differing(pipeline: PredecoderPipeline, exported: OnnxPredecoder, detectors: U8) -> int:
    """How many predictions for packed shots differ. An error where one differs that rounding does not explain."""
    rows = np.flatnonzero((pipeline.decode(detectors) != exported.decode(detectors)).any(axis=1))
    if len(rows):
        beyond = _beyond_rounding(pipeline, exported, detectors[rows])
        if beyond:
            raise AutoQECError(
                f"{beyond} of {len(detectors)} predictions of the exported file are not the pipeline's, and rounding does "
                "not explain them; nothing was written",
                where="--onnx",
                hint="use other versions of torch and onnxruntime, or report this with the round's config",
            )
    return len(rows)


def _beyond_rounding(pipeline: PredecoderPipeline, exported: OnnxPredecoder, detectors: U8) -> int:
    kind, own = pipeline.answers(detectors)
    _, theirs = exported.answers(detectors)
    if kind == "faults":
        own, theirs = (unpack(each, pipeline.problem.n_faults) for each in (own, theirs))
    if theirs.shape != own.shape:
        return len(detectors)
    exact = _in_double(pipeline, kind, detectors)
    if kind == "faults":
        # Only what is applied is compared: a fault may change sides where its log-odds are those of the threshold.
        single = _fault_log_odds(pipeline.module, detectors, pipeline, torch.float32)
        near = np.abs(exact - log_odds(pipeline.module.confidence)) <= _allowed(single, exact)
        return int(((theirs != own) & ~near).any(axis=1).sum())
    if kind == "priors":
        own, theirs = _as_log_odds(own), _as_log_odds(theirs)
    return int((np.abs(theirs - exact) > _allowed(own, exact)).any(axis=1).sum())


def _allowed(own: npt.NDArray[Any], exact: F64) -> F64:
    """One figure for a shot: rounding spreads over its answers."""
    off = np.abs(own - exact)
    return np.asarray((_ATOL + _TIMES * off.max(axis=1, keepdims=True)), dtype=np.float64)


def _as_log_odds(probabilities: npt.NDArray[Any]) -> npt.NDArray[Any]:
    return checked_log_odds(probabilities.astype(np.float64), *probabilities.shape)


def _in_double(pipeline: PredecoderPipeline, kind: Kind, detectors: U8) -> F64:
    """The log-odds behind the answers, in double precision."""
    module = copy.deepcopy(pipeline.module).double()
    if kind != "edges":
        return _fault_log_odds(module, detectors, pipeline, torch.float64)
    with torch.no_grad():
        weights = module.edge_log_odds(*_inputs(pipeline, detectors, torch.float64))
    if weights is None:
        raise ValueError("the module has no matching weights of its own")
    return np.asarray(weights.cpu().numpy(), dtype=np.float64)


def _fault_log_odds(module: Any, detectors: U8, pipeline: PredecoderPipeline, dtype: torch.dtype) -> F64:
    with torch.no_grad():
        found = module.fault_probabilities(*_inputs(pipeline, detectors, dtype)).cpu().numpy()
    return np.asarray(_as_log_odds(found), dtype=np.float64)


def _inputs(
    pipeline: PredecoderPipeline, detectors: U8, dtype: torch.dtype
) -> tuple[torch.Tensor, dict[str, Any]]:
    syndrome = torch.from_numpy(unpack(detectors, pipeline.problem.n_checks)).to(dtype)
    ctx = context(pipeline.problem)
    return syndrome, {
        name: each.to(dtype) if each.is_floating_point() else each for name, each in ctx.items()
    }
