"""What the stages of a cascade cost, and how many shots may reach each: expected FLOPs = sum over stages of F_k P(a shot reaches k)."""

from __future__ import annotations

import numpy as np
import torch

from autoqec.decoders.compiler import context
from autoqec.decoders.cost_basis import typical_syndromes
from autoqec.decoders.flop_census import AfterStage, count, for_backend
from autoqec.decoders.modules.cascade import EARLIER_EDGES, EARLIER_PRIORS, CascadePredecoder
from autoqec.decoders.modules.predecoders import ProblemPredecoder
from autoqec.decoders.pruned_sweep import PrunedSweep
from autoqec.envs.packing import pack, unpack
from autoqec.envs.problem import DecodingProblem

_SHOTS, _ROUGHLY, _SWEPT = 512, 64, 16
"""Typical shots; a sweep takes about as long for all of them."""
LOOKED_THROUGH, HARD, _HARD_ROUGHLY, FEWEST = 2048, 64, 32, 16
"""Typical shots that are looked through for those that the stage before leaves unexplained; and at most, and at least, so many of these are
counted: each of them is work."""


def stage_flops(
    module: CascadePredecoder, problem: DecodingProblem, *, roughly: bool = False, wants_edges: bool = True
) -> tuple[int, ...]:
    """FLOPs of each stage for a shot that reaches it.

    Which shots do depends on the thresholds; here they are typical ones or, where there is no matching graph, those whose syndrome
    the stage before leaves unexplained: propagation that stops early works longer on them. roughly: on fewer of them. wants_edges: as for
    `cost.count_flops`.
    """
    shots, hard = (_ROUGHLY, _HARD_ROUGHLY) if roughly else (_SHOTS, HARD)
    ctx = context(problem)
    found: list[int] = []
    draws = 1 if roughly or problem.joint is None else LOOKED_THROUGH // _SHOTS
    drawn = np.concatenate([typical_syndromes(problem, shots, seed) for seed in range(draws)])
    rows, earlier = torch.from_numpy(unpack(drawn, problem.n_checks)).float(), None
    stages = [each for each in module.stages if isinstance(each, ProblemPredecoder)]
    for number, stage in enumerate(stages):
        name = EARLIER_EDGES if module.edges is not None and wants_edges else EARLIER_PRIORS
        counted: torch.nn.Module = stage
        seen = rows
        if earlier is not None:
            counted, seen = AfterStage(stage, problem.n_checks, name), torch.cat([rows, earlier], dim=1)
        asks = for_backend(counted, wants_edges=wants_edges)
        small = count(asks, [seen[:4]], ctx)
        many = seen[: shots if earlier is None else hard]
        found.append(count(asks, [many], ctx).mean if small.spread else small.mean)
        if (states := module.states[number]) is not None:
            found[-1] += PrunedSweep(problem, states).flops(pack(rows[:_SWEPT].numpy().astype(np.uint8)))
        if number + 1 == len(stages):
            break
        with torch.no_grad():
            given = ctx if earlier is None else {**ctx, name: earlier}
            edges = stage.edge_log_odds(rows, given) if wants_edges else None
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
    return torch.from_numpy(rows if len(rows) >= FEWEST else np.arange(len(likely)))
