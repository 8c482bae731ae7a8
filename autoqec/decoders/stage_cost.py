"""What the stages of a cascade cost, and how many shots may reach each: expected FLOPs = sum over stages of F_k P(a shot reaches k)."""

from __future__ import annotations

import numpy as np
import torch

from autoqec.decoders.answers import AnswerDecoder
from autoqec.decoders.backends import make_backend
from autoqec.decoders.classical_stages import classical_stage
from autoqec.decoders.compiler import context
from autoqec.decoders.cost_basis import typical_syndromes
from autoqec.decoders.flop_census import AfterStage, count, for_backend
from autoqec.decoders.modules.cascade import EARLIER_EDGES, EARLIER_PRIORS, CascadePredecoder
from autoqec.decoders.modules.predecoders import ProblemPredecoder
from autoqec.envs.packing import pack, unpack
from autoqec.envs.problem import U8, DecodingProblem

_SHOTS, _ROUGHLY, _FEW = 512, 64, 16
"""Typical shots, and those that a classical stage is counted on, which takes long for each."""
LOOKED_THROUGH, HARD, _HARD_ROUGHLY, FEWEST = 2048, 64, 32, 16
"""Typical shots that are looked through for those that the stage before leaves unexplained; and at most, and at least, so many of these are
counted: each of them is work."""


def stage_flops(
    module: CascadePredecoder, problem: DecodingProblem, *, roughly: bool = False, wants_edges: bool = True
) -> tuple[int, ...]:
    """FLOPs of each stage for a shot that reaches it.

    Which shots do depends on the thresholds; here they are typical ones or, where there is no matching graph, those whose syndrome
    the stage before leaves unexplained, and the share of the least sure where the stage takes these: propagation that stops early works longer
    on them. roughly: on fewer of them. wants_edges: as for
    `cost.count_flops`.
    """
    shots, hard = (_ROUGHLY, _HARD_ROUGHLY) if roughly else (_SHOTS, HARD)
    ctx = context(problem)
    found: list[int] = []
    draws = 1 if roughly or problem.joint is None else LOOKED_THROUGH // _SHOTS
    drawn = np.concatenate([typical_syndromes(problem, shots, seed) for seed in range(draws)])
    rows, earlier = torch.from_numpy(unpack(drawn, problem.n_checks)).float(), None
    gates = module.gates_of(len(module.stages))
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
        if (classical := classical_stage(problem, gates, number)) is not None:
            found[-1] += classical.flops(_packed(rows[:_FEW]))
        if number + 1 == len(stages):
            break
        with torch.no_grad():
            given = ctx if earlier is None else {**ctx, name: earlier}
            edges = stage.edge_log_odds(rows, given) if wants_edges else None
            answers = stage.fault_probabilities(rows, given) if edges is None else edges
        if edges is not None:
            left = torch.arange(len(rows))
        elif gates.lets_unsure(number) and (share := module.shares_said[number + 1]) is not None:
            left = _least_sure(answers, rows, problem, share / (module.shares_said[number] or 1.0))
        else:
            left = _unexplained(answers, rows, problem)
        rows, earlier = rows[left], answers[left]
    return tuple(found)


def _packed(syndrome: torch.Tensor) -> U8:
    return pack(syndrome.numpy().astype(np.uint8))


def _least_sure(
    priors: torch.Tensor, syndrome: torch.Tensor, problem: DecodingProblem, share: float
) -> torch.Tensor:
    """Rows of the shots that the backend is the least sure of, unexplained ones first."""
    decider = AnswerDecoder(make_backend(problem, "osd"), by_margin=True)
    _, sure = decider.judged("priors", priors.numpy(), _packed(syndrome), sure_of_all=False)
    wanted = max(round(share * len(sure)), FEWEST)
    return torch.from_numpy(np.sort(np.argsort(sure, kind="stable")[:wanted]))


def _unexplained(priors: torch.Tensor, syndrome: torch.Tensor, problem: DecodingProblem) -> torch.Tensor:
    """Rows of shots whose syndrome the likely faults do not explain; all of them where there are hardly any."""
    likely = (priors > 0.5).numpy().astype(np.int32)
    explained = (likely @ problem.h.T.astype(np.int32)) & 1
    seen = np.ones(problem.n_checks, dtype=np.bool_) if problem.joint is None else problem.joint.seen
    rows = np.flatnonzero((explained != syndrome.numpy())[:, seen].any(axis=1))
    return torch.from_numpy(rows if len(rows) >= FEWEST else np.arange(len(likely)))
