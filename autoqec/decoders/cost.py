"""What a predecoder costs per syndrome: FLOPs by an honest count (`flop_census`), parameters, bytes, latency."""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import torch

from autoqec.decoders.compiler import context
from autoqec.decoders.cost_basis import learned_numbers, typical_syndromes
from autoqec.decoders.flop_census import asked, count, count_call, for_backend
from autoqec.decoders.gates import expected_flops
from autoqec.decoders.modules.cascade import CascadePredecoder
from autoqec.decoders.modules.predecoders import ProblemPredecoder
from autoqec.decoders.stage_cost import stage_flops
from autoqec.envs.packing import unpack
from autoqec.envs.problem import DecodingProblem

_COUNTED, _ROUGHLY, _WHERE_SHOTS_DIFFER = 4, 64, 512
_SINGLE, _BULK = 100, 1024  # shots that are timed


@dataclass(frozen=True)
class Cost:
    """flops_per_syndrome: see the module. n_params: learned numbers, buffers included that a checkpoint carries, as
    `learned_numbers` counts them.

    Latencies are microseconds on this machine's CPU for shots of the error model: batch of one (median and 99th percentile), and
    per shot in bulk.

    Of a cascade flops_per_syndrome is what is expected with the shares of shots that the config plans: stage_flops are those of a shot
    that reaches the stage, stage_shares those shots. Its latencies are of all stages, the worst case.
    """

    flops_per_syndrome: int
    n_params: int
    n_bytes: int
    latency_us_p50: float | None = None
    latency_us_p99: float | None = None
    bulk_us_per_shot: float | None = None
    stage_flops: tuple[int, ...] | None = None
    stage_shares: tuple[float, ...] | None = None

    def to_dict(self) -> dict[str, Any]:
        found = asdict(self)
        if self.stage_flops is None:
            del found["stage_flops"], found["stage_shares"]
        return found


def count_flops(
    module: ProblemPredecoder, problem: DecodingProblem, *, roughly: bool = False, wants_edges: bool = True
) -> int:
    """FLOPs for one syndrome, in the mean where shots differ; what a call costs whatever its batch drops out.

    roughly: where shots differ, a mean over fewer of them, with their share of the call. wants_edges: the backend takes weights of
    edges where the module has them (`BackendEntry`), else priors.
    """
    asks, ctx = for_backend(module, wants_edges=wants_edges), context(problem)

    def typical(shots: int) -> torch.Tensor:
        return torch.from_numpy(unpack(typical_syndromes(problem, shots), problem.n_checks)).float()

    found = count(asks, [typical(_COUNTED)], ctx)
    if found.spread == 0.0:
        return found.mean
    if roughly:
        return count_call(asks, typical(_ROUGHLY), ctx) // _ROUGHLY
    return count(asks, [typical(_WHERE_SHOTS_DIFFER)], ctx).mean


def measure(
    module: ProblemPredecoder,
    problem: DecodingProblem,
    *,
    latency: bool = False,
    roughly: bool = False,
    wants_edges: bool = True,
) -> Cost:
    """The cost of a predecoder; with `latency`, also timed on this machine's CPU. roughly, wants_edges: as for `count_flops`."""
    module = module.eval()
    state = module.state_dict()
    sizes = {name: (each.numel(), each.numel() * each.element_size()) for name, each in state.items()}
    stages: dict[str, Any] = {}
    if isinstance(module, CascadePredecoder):
        flops_of = stage_flops(module, problem, roughly=roughly, wants_edges=wants_edges)
        shares = module.planned_shares(flops_of)
        stages = {"stage_flops": flops_of, "stage_shares": shares}
        flops = expected_flops(flops_of, shares)
    else:
        flops = count_flops(module, problem, roughly=roughly, wants_edges=wants_edges)
    cost = Cost(
        flops_per_syndrome=flops,
        n_params=learned_numbers(sizes),
        n_bytes=sum(taken for _, taken in sizes.values()),
        **stages,
    )
    if not latency:
        return cost
    ctx = context(problem)
    shots = torch.from_numpy(unpack(typical_syndromes(problem, _BULK), problem.n_checks)).float()

    def seconds(syndromes: torch.Tensor) -> float:
        start = time.perf_counter()
        with torch.no_grad():
            asked(for_backend(module, wants_edges=wants_edges), syndromes, ctx)
        return time.perf_counter() - start

    seconds(shots[:1])
    single = np.array([seconds(shot[None]) for shot in shots[:_SINGLE]]) * 1e6
    bulk = min(seconds(shots) for _ in range(3)) / _BULK * 1e6
    return replace(
        cost,
        latency_us_p50=float(np.percentile(single, 50)),
        latency_us_p99=float(np.percentile(single, 99)),
        bulk_us_per_shot=float(bulk),
    )
