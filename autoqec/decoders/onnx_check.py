"""Whether an exported predecoder predicts what the pipeline predicts, but for ties that rounding decides."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from autoqec.decoders.answers import AnsweringDecoder, Kind, deciders
from autoqec.decoders.backends.edge_weights import checked_log_odds
from autoqec.decoders.compiler import context
from autoqec.decoders.modules.cascade import EARLIER, stages_of
from autoqec.decoders.onnx_predecoder import OnnxPredecoder
from autoqec.decoders.pipeline import PredecoderPipeline
from autoqec.envs.packing import unpack
from autoqec.envs.problem import U8, log_odds
from autoqec.errors import AutoQECError

# An answer may be further from the one in double precision than this only where the pipeline's own is, too: belief propagation
# that does not converge makes large differences out of rounding.
_ATOL, _TIMES = 1e-3, 10.0
_BATCH = 512

F64 = npt.NDArray[np.float64]
Rows = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Compared:
    """differing: shots with another prediction, or one by another stage. alone: for each stage, the same where it answers every shot.
    reached: how many shots the pipeline asks each stage about."""

    differing: int
    alone: tuple[int, ...]
    reached: tuple[int, ...]


def compared(pipeline: PredecoderPipeline, exported: OnnxPredecoder, detectors: U8) -> Compared:
    """Predictions for packed shots, as a whole and stage by stage. An error where one differs that rounding does not explain."""
    own, theirs = pipeline.staged(detectors), exported.staged(detectors)
    whole = (own.predictions != theirs.predictions).any(axis=1) | (own.stage != theirs.stage)
    stages = pipeline.gates.stages
    alone = _stage_by_stage(pipeline, exported, detectors) if stages > 1 else whole[None]
    rows = np.flatnonzero(whole | alone.any(axis=0))
    if len(rows) and (beyond := _beyond_rounding(pipeline, exported, detectors[rows])):
        raise AutoQECError(
            f"{beyond} of {len(detectors)} predictions of the exported file are not the pipeline's, and rounding does "
            "not explain them; nothing was written",
            where="--onnx",
            hint="use other versions of torch and onnxruntime, or report this with the round's config",
        )
    return Compared(int(whole.sum()), tuple(map(int, alone.sum(axis=1))), own.reached(stages))


def _stage_by_stage(pipeline: PredecoderPipeline, exported: OnnxPredecoder, detectors: U8) -> Rows:
    """[stages, shots] where predictions differ if every stage answers every shot: few of them reach the last."""
    behind = deciders(pipeline.backend, pipeline.gates)
    found = np.zeros((len(behind), len(detectors)), dtype=np.bool_)
    for start in range(0, len(detectors), _BATCH):
        some = detectors[start : start + _BATCH]
        both = zip(behind, _all_answers(pipeline, some), _all_answers(exported, some), strict=True)
        for stage, (decider, own, theirs) in enumerate(both):
            differs = decider.predict(*own, some) != decider.predict(*theirs, some)
            found[stage, start : start + _BATCH] = differs.any(axis=1)
    return found


def _all_answers(decoder: AnsweringDecoder, detectors: U8) -> list[tuple[Kind, npt.NDArray[Any]]]:
    """What every stage says about the shots, given what the one before it says."""
    found = [decoder.answers(detectors)]
    for stage in range(1, decoder.gates.stages):
        found.append(decoder.answers(detectors, stage, found[-1][1]))
    return found


def _beyond_rounding(pipeline: PredecoderPipeline, exported: OnnxPredecoder, detectors: U8) -> int:
    beyond = np.zeros(len(detectors), dtype=np.bool_)
    found = zip(
        _all_answers(pipeline, detectors),
        _all_answers(exported, detectors),
        _in_double(pipeline, detectors),
        strict=True,
    )
    for (kind, own), (_, theirs), exact in found:
        beyond |= _is_beyond(pipeline, detectors, kind, own, theirs, exact)
    return int(beyond.sum())


def _is_beyond(
    pipeline: PredecoderPipeline,
    detectors: U8,
    kind: Kind,
    own: npt.NDArray[Any],
    theirs: npt.NDArray[Any],
    exact: F64,
) -> Rows:
    """[shots] of one stage's answers."""
    if theirs.shape != own.shape:
        return np.ones(len(detectors), dtype=np.bool_)
    if kind == "faults":
        # Only what is applied is compared: a fault may change sides where its log-odds are those of the threshold.
        own, theirs = (unpack(each, pipeline.problem.n_faults) for each in (own, theirs))
        single = _fault_log_odds(pipeline.module, *_inputs(pipeline, detectors, torch.float32))
        near = np.abs(exact - log_odds(pipeline.module.confidence)) <= _allowed(single, exact)
        return np.asarray(((theirs != own) & ~near).any(axis=1))
    if kind == "priors":
        own, theirs = _as_log_odds(own), _as_log_odds(theirs)
    return np.asarray((np.abs(theirs - exact) > _allowed(own, exact)).any(axis=1))


def _allowed(own: npt.NDArray[Any], exact: F64) -> F64:
    """One figure for a shot: rounding spreads over its answers."""
    off = np.abs(own - exact)
    return np.asarray((_ATOL + _TIMES * off.max(axis=1, keepdims=True)), dtype=np.float64)


def _as_log_odds(probabilities: npt.NDArray[Any]) -> npt.NDArray[Any]:
    return checked_log_odds(probabilities.astype(np.float64), *probabilities.shape)


def _in_double(pipeline: PredecoderPipeline, detectors: U8) -> list[F64]:
    """The log-odds behind the answers of every stage, in double precision."""
    kind, _ = pipeline.answers(detectors[:1])
    syndrome, ctx = _inputs(pipeline, detectors, torch.float64)
    found: list[F64] = []
    for stage in stages_of(pipeline.module):
        module: Any = copy.deepcopy(stage).double()
        with torch.no_grad():
            if kind == "edges":
                answer = module.edge_log_odds(syndrome, ctx)
                found.append(answer.cpu().numpy())
            else:
                answer = module.fault_probabilities(syndrome, ctx)
                found.append(_as_log_odds(answer.cpu().numpy()))
        if kind in EARLIER:
            ctx = {**ctx, EARLIER[kind]: answer}
    return found


def _fault_log_odds(module: Any, syndrome: torch.Tensor, ctx: dict[str, Any]) -> F64:
    with torch.no_grad():
        found = module.fault_probabilities(syndrome, ctx).cpu().numpy()
    return np.asarray(_as_log_odds(found), dtype=np.float64)


def _inputs(
    pipeline: PredecoderPipeline, detectors: U8, dtype: torch.dtype
) -> tuple[torch.Tensor, dict[str, Any]]:
    syndrome = torch.from_numpy(unpack(detectors, pipeline.problem.n_checks)).to(dtype)
    ctx = context(pipeline.problem)
    return syndrome, {
        name: each.to(dtype) if each.is_floating_point() else each for name, each in ctx.items()
    }
