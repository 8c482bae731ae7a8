"""What the stages of a cascade cost, and how many shots may reach each: expected FLOPs = sum over stages of F_k P(a shot reaches k)."""

from __future__ import annotations

import numpy as np
import torch

from autoqec.decoders.compiler import context
from autoqec.decoders.cost_basis import typical_syndromes
from autoqec.decoders.flop_census import AfterStage, count
from autoqec.decoders.modules.cascade import EARLIER_EDGES, EARLIER_PRIORS, CascadePredecoder
from autoqec.decoders.modules.predecoders import ProblemPredecoder
from autoqec.envs.packing import unpack
from autoqec.envs.problem import DecodingProblem

_SHOTS, _ROUGHLY, _HARD = 512, 64, 32
"""Typical shots, and at most so many of those that reach a later stage: each of them is work."""


def stage_flops(
    module: CascadePredecoder, problem: DecodingProblem, *, roughly: bool = False
) -> tuple[int, ...]:
    """FLOPs of each stage for a shot that reaches it.

    Which shots do depends on the thresholds; here they are typical ones or, where there is no matching graph, those whose syndrome
    the stage before leaves unexplained: propagation that stops early works longer on them. roughly: on fewer of them.
    """
    shots = _ROUGHLY if roughly else _SHOTS
    ctx = context(problem)
    found: list[int] = []
    bits = unpack(typical_syndromes(problem, shots), problem.n_checks)
    rows, earlier = torch.from_numpy(bits).float(), None
    stages = [each for each in module.stages if isinstance(each, ProblemPredecoder)]
    for number, stage in enumerate(stages):
        name = EARLIER_PRIORS if module.edges is None else EARLIER_EDGES
        counted: torch.nn.Module = stage
        seen = rows
        if earlier is not None:
            counted, seen = AfterStage(stage, problem.n_checks, name), torch.cat([rows, earlier], dim=1)
        small = count(counted, [seen[:4]], ctx)
        many = seen[: shots if earlier is None else _HARD]
        found.append(count(counted, [many], ctx).mean if small.spread else small.mean)
        if number + 1 == len(stages):
            break
        with torch.no_grad():
            given = ctx if earlier is None else {**ctx, name: earlier}
            edges = stage.edge_log_odds(rows, given)
            answers = stage.fault_probabilities(rows, given) if edges is None else edges
        left = torch.arange(len(rows)) if edges is not None else _unexplained(answers, rows, problem)
        rows, earlier = rows[left], answers[left]
    return tuple(found)


def _unexplained(priors: torch.Tensor, syndrome: torch.Tensor, problem: DecodingProblem) -> torch.Tensor:
    """Rows of shots whose syndrome the likely faults do not explain; all of them where there are hardly any."""
    likely = (priors > 0.5).numpy().astype(np.int32)
    explained = (likely @ problem.h.T.astype(np.int32)) & 1
    seen = np.ones(problem.n_checks, dtype=np.bool_) if problem.joint is None else problem.joint.seen
    rows = np.flatnonzero((explained != syndrome.numpy())[:, seen].any(axis=1))
    return torch.from_numpy(rows if len(rows) >= 4 else np.arange(len(likely)))
