"""Training throughput: each part of a step by itself, and whole steps as a round takes them.

    python benchmarks/bench_training.py [--device cpu|cuda] [--batch 512] [--repeats 3]

Shots per second of wall-clock time, the best of the turns. "pair": the backend's cheapest correction of the true and
of a wrong logical class, half of the `backend_gap` loss. "step": sampling, loss, gradients and optimiser; the parts
overlap in it. On a CPU, "torch / compiled" is forward and backward with the compiled kernels off over on, in turns. On a
GPU, "busy" is the share of a step's wall-clock time in which the device computes or copies.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from autoqec.decoders.compiler import compile_predecoder
from autoqec.decoders.dsl_schema import PredecoderDSL
from autoqec.decoders.flop_census import reference_path
from autoqec.decoders.modules.predecoders import ProblemPredecoder
from autoqec.envs.load import load_env
from autoqec.runner.bits import packed
from autoqec.runner.data import Batch, FaultSampler
from autoqec.runner.gap import make_pairs
from autoqec.runner.hard_shots import HardShots
from autoqec.runner.losses import MARGINAL_LOSSES
from autoqec.runner.objective import GapObjective, MarginalObjective, Objective, mixed_precision
from autoqec.runner.train import CLIP

PER_CHECK = {"iterations": 8, "weight_sharing": "per_check", "damping": "learnable_per_iter"}
_FAR = 10**6  # the seeds of steps are beyond those of the parts


@dataclass(frozen=True)
class Case:
    name: str
    env: str
    p: float
    config: dict[str, Any]
    loss: str


CASES = [
    Case(
        "neural_bp, 8 iterations, per check",
        "surface_d5_depol",
        5e-3,
        {"type": "neural_bp", "neural_bp": PER_CHECK},
        "backend_gap",
    ),
    Case(
        "hybrid, the same and a 4 x 24 gnn",
        "surface_d5_depol",
        5e-3,
        {
            "type": "hybrid",
            "neural_bp": {**PER_CHECK, "prior_mix": True},
            "gnn": {"layers": 4, "hidden_dim": 24},
            "head": "mlp_small",
        },
        "backend_gap",
    ),
    Case(
        "hybrid, the same and a 6 x 24 gnn",
        "surface_d5_depol",
        5e-3,
        {
            "type": "hybrid",
            "neural_bp": {**PER_CHECK, "prior_mix": True},
            "gnn": {"layers": 6, "hidden_dim": 24},
            "head": "mlp_small",
        },
        "backend_gap",
    ),
    Case(
        "gnn, 4 x 24",
        "surface_d5_depol",
        5e-3,
        {"type": "gnn", "gnn": {"layers": 4, "hidden_dim": 24}, "head": "mlp_small"},
        "backend_gap",
    ),
    Case(
        "neural_bp, 16 iterations, memory",
        "bb72_depol",
        3e-3,
        {"type": "neural_bp", "neural_bp": {**PER_CHECK, "iterations": 16, "memory": "learnable"}},
        "bce",
    ),
]


class Bench:
    def __init__(self, case: Case, batch: int, device: torch.device) -> None:
        env = load_env(case.env)
        problem = env.problem(case.p)
        self.case, self.size, self.device = case, batch, device
        dsl = PredecoderDSL.model_validate({"output_mode": "soft_priors", **case.config})
        self.module: ProblemPredecoder = compile_predecoder(dsl, problem).to(device).train()
        self.sampler = FaultSampler([problem], device)
        self.pairs = make_pairs(problem, env.spec.classical_backend, None)
        self.batch: Batch = self.sampler.sample(batch, 1)
        self.detectors, self.flips = packed(self.batch.syndrome), packed(self.batch.observables)
        self.weights = np.ascontiguousarray(self.forward().detach().cpu().numpy())
        self.optimiser = torch.optim.AdamW(self.module.parameters(), lr=1e-3)
        self.objective = self._objective()
        self.steps = 0

    def _objective(self) -> Objective:
        if self.case.loss != "backend_gap":
            return MarginalObjective(
                self.sampler, lambda draw: draw, self.size, MARGINAL_LOSSES[self.case.loss]
            )
        shots = HardShots(
            self.sampler, lambda draw: _FAR + draw, self.pairs.is_hard, size=8 * self.size, draw=4 * self.size
        )
        return GapObjective(shots, self.size, self.pairs)

    def sample(self) -> None:
        self.sampler.sample(self.size, 2)

    def forward(self) -> torch.Tensor:
        with mixed_precision(self.device):
            return self.module.backend_weights(self.batch.syndrome, self.batch.given).float()

    def forward_only(self) -> None:
        with torch.no_grad():
            self.forward()

    def both_ways(self) -> None:
        self.forward().square().mean().backward()

    def pair(self) -> None:
        self.pairs.corrections(self.detectors, self.flips, self.weights)

    def step(self) -> None:
        self.optimiser.zero_grad(set_to_none=True)
        self.objective.step(self.module, self.steps)
        torch.nn.utils.clip_grad_norm_(self.module.parameters(), CLIP)
        self.optimiser.step()
        self.steps += 1

    def seconds(self, work: Callable[[], object]) -> float:
        self._finish()
        start = time.perf_counter()
        work()
        self._finish()
        return time.perf_counter() - start

    def _finish(self) -> None:
        if self.device.type == "cuda":
            torch.cuda.synchronize()

    def rates(self, repeats: int) -> list[float]:
        """Shots per second of each part."""
        parts = (self.sample, self.forward_only, self.both_ways, self.pair, self.step)
        for part in parts:
            part()  # compiles, and fills caches
        least = [min(self.seconds(part) for _ in range(repeats)) for part in parts]
        return [self.size / spent for spent in least]

    def torch_over_compiled(self, repeats: int) -> float:
        compiled, plain = [], []
        for _ in range(repeats):
            compiled.append(self.seconds(self.both_ways))
            with reference_path(self.module):
                plain.append(self.seconds(self.both_ways))
        return min(plain) / min(compiled)

    def busy(self, steps: int = 10) -> float:
        """Device time over wall-clock time; the latter without the profiler, which slows the host down."""
        from torch.autograd import DeviceType
        from torch.profiler import ProfilerActivity, profile

        wall = self.seconds(lambda: [self.step() for _ in range(steps)])
        with profile(activities=[ProfilerActivity.CUDA]) as profiled:
            self.seconds(lambda: [self.step() for _ in range(steps)])
        events = (event for event in profiled.key_averages() if event.device_type == DeviceType.CUDA)
        return 1e-6 * sum(event.self_device_time_total for event in events) / wall


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--device", choices=("cpu", "cuda"), default="cuda" if torch.cuda.is_available() else "cpu"
    )
    parser.add_argument("--batch", type=int, help="Default: 512 on a CPU, 4096 on a GPU.")
    parser.add_argument("--repeats", type=int, default=3)
    args = parser.parse_args()
    device = torch.device(args.device)
    batch = args.batch or (512 if args.device == "cpu" else 4096)
    last = "torch / compiled" if args.device == "cpu" else "busy"
    print(f"| model | env, loss | sampling | forward | and backward | pair | step | {last} |")
    print("|---|---|---|---|---|---|---|---|")
    for case in CASES:
        bench = Bench(case, batch, device)
        rates = " | ".join(f"{rate:,.0f}" for rate in bench.rates(args.repeats))
        final = bench.torch_over_compiled(args.repeats) if args.device == "cpu" else bench.busy()
        print(f"| {case.name} | {case.env}, {case.loss} | {rates} | {final:.2f} |", flush=True)


if __name__ == "__main__":
    main()
