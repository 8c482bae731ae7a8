"""Training throughput: each part of a step by itself, and whole steps as a round takes them.

    python benchmarks/bench_training.py [--device cpu|cuda] [--batch 512] [--repeats 3]

Shots per second of wall-clock time, the best of the turns. "pair": the backend's cheapest correction of the true and
of a wrong logical class, half of the `backend_gap` loss. "step": sampling, mining of hard shots, loss, gradients and optimiser, as a
round takes them; the parts overlap in it. "pairs": how many shots are matched, in both classes, for each that is trained on: in
the loss, and to find hard shots; and the microseconds that the calls of the matcher take for all of them. On a CPU,
"torch / compiled" is forward and backward with the compiled kernels off over on, in turns. On a GPU, "busy" is the share of a step's
wall-clock time in which the device computes or copies.
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
from autoqec.envs.problem import DecodingProblem
from autoqec.runner.bits import packed
from autoqec.runner.data import Batch, FaultSampler
from autoqec.runner.first_look import look_for
from autoqec.runner.gap import Corrections, MatchingPairs, Pairs, make_pairs
from autoqec.runner.hard_shots import HardShots
from autoqec.runner.losses import MARGINAL_LOSSES
from autoqec.runner.mining import OwnStart
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


class CountedPairs(MatchingPairs):
    """Pairs that count the shots they match, and the seconds that it takes, by what they are for."""

    def __init__(self, problem: DecodingProblem) -> None:
        super().__init__(problem, None)
        self.spent: dict[str, list[float]] = {}

    def corrections(self, *shots: Any) -> Corrections:
        return self._counted("loss", super().corrections, *shots)

    def leads(self, *shots: Any) -> Any:
        return self._counted("own start", super().leads, *shots)

    def is_hard(self, *shots: Any) -> Any:
        return self._counted("plain weights", super().is_hard, *shots)

    def _counted(self, what: str, match: Callable[..., Any], *shots: Any) -> Any:
        start = time.perf_counter()
        found = match(*shots)
        row = self.spent.setdefault(what, [0, 0.0])
        row[0] += len(shots[0])
        row[1] += time.perf_counter() - start
        return found

    def report(self, trained: int) -> str:
        """For each shot that is trained on."""
        parts = (
            f"{shots / trained:.2f} {what} ({1e6 * spent / trained:.0f} us)"
            for what, (shots, spent) in sorted(self.spent.items())
        )
        return ", ".join(parts)


class Bench:
    """looks: whether shots are looked at on the device before they are matched, where a round would."""

    def __init__(self, case: Case, batch: int, device: torch.device, *, looks: bool = True) -> None:
        env = load_env(case.env)
        problem = env.problem(case.p)
        self.case, self.size, self.device, self.looks = case, batch, device, looks
        dsl = PredecoderDSL.model_validate({"output_mode": "soft_priors", **case.config})
        self.module: ProblemPredecoder = compile_predecoder(dsl, problem).to(device).train()
        self.problem, self.sampler = problem, FaultSampler([problem], device)
        matches = env.spec.classical_backend == "mwpm"
        self.pairs: Pairs = CountedPairs(problem) if matches else make_pairs(problem, "osd", None)
        self.batch: Batch = self.sampler.sample(batch, 1)
        self.detectors, self.flips = packed(self.batch.syndrome), packed(self.batch.observables)
        self.weights = np.ascontiguousarray(self.forward().detach().cpu().numpy())
        fused = True if device.type == "cuda" else None
        self.optimiser = torch.optim.AdamW(self.module.parameters(), lr=1e-3, fused=fused)
        self.objective = self._objective()
        self.steps = 0

    def _objective(self) -> Objective:
        if self.case.loss != "backend_gap":
            return MarginalObjective(
                self.sampler, lambda draw: draw, self.size, MARGINAL_LOSSES[self.case.loss]
            )
        if not isinstance(self.pairs, MatchingPairs):
            raise ValueError("backend_gap is measured in front of matching")
        sampler = FaultSampler([self.problem], self.device, with_faults=False)
        start = OwnStart(self.module, self.pairs)
        look = None
        if self.looks:
            look = look_for(self.module, self.pairs, sampler, 3, start.unsettled, either_way=False)
        shots = HardShots(
            sampler, lambda draw: _FAR + draw, start, size=8 * self.size, draw=4 * self.size, look=look
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
        loss = self.objective.step(self.module, self.steps)
        norm = torch.nn.utils.clip_grad_norm_(self.module.parameters(), CLIP)
        torch.stack([loss, norm]).tolist()
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
            with reference_path():
                plain.append(self.seconds(self.both_ways))
        return min(plain) / min(compiled)

    def matched(self, steps: int = 10) -> str:
        """What the matcher does in steps, for each shot that is trained on."""
        if not isinstance(self.pairs, CountedPairs) or self.case.loss != "backend_gap":
            return "-"
        self.pairs.spent.clear()
        for _ in range(steps):
            self.step()
        return self.pairs.report(steps * self.size)

    def busy(self, steps: int = 10) -> float:
        """Time in which any stream of the device works over wall-clock time; the latter without the profiler, which slows the host down."""
        from torch.autograd import DeviceType
        from torch.profiler import ProfilerActivity, profile

        wall = self.seconds(lambda: [self.step() for _ in range(steps)])
        with profile(activities=[ProfilerActivity.CUDA]) as profiled:
            self.seconds(lambda: [self.step() for _ in range(steps)])
        events = [each.time_range for each in profiled.events() if each.device_type == DeviceType.CUDA]
        working, until = 0.0, 0.0
        for span in sorted(events, key=lambda span: span.start):
            working += max(0.0, span.end - max(span.start, until))
            until = max(until, span.end)
        return 1e-6 * working / wall


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--device", choices=("cpu", "cuda"), default="cuda" if torch.cuda.is_available() else "cpu"
    )
    parser.add_argument("--batch", type=int, help="Default: 512 on a CPU, 4096 on a GPU.")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--cases", type=int, nargs="*", choices=range(len(CASES)), help="Default: all.")
    args = parser.parse_args()
    device = torch.device(args.device)
    batch = args.batch or (512 if args.device == "cpu" else 4096)
    last = "torch / compiled" if args.device == "cpu" else "busy"
    print(f"| model | env, loss | sampling | forward | and backward | pair | step | {last} | pairs |")
    print("|---|---|---|---|---|---|---|---|---|")
    for case in CASES if args.cases is None else [CASES[number] for number in args.cases]:
        bench = Bench(case, batch, device)
        rates = " | ".join(f"{rate:,.0f}" for rate in bench.rates(args.repeats))
        final = bench.torch_over_compiled(args.repeats) if args.device == "cpu" else bench.busy()
        said = f"{rates} | {final:.2f} | {bench.matched()}"
        print(f"| {case.name} | {case.env}, {case.loss} | {said} |", flush=True)


if __name__ == "__main__":
    main()
