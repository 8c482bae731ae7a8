"""Training on a GPU: the Triton kernels beside the torch path, in turns, and how far their gradients are apart.

    python benchmarks/bench_gpu_training.py [--batch 4096] [--repeats 5] [--cases neural_bp hybrid turbo]

"far": the largest difference of a gradient over its largest entry, kernels against torch, both in single precision; "torch": the same of
torch in single against double precision, the scale to read it by; both on a few shots. "both ways": forward and backward alone. "step": the
whole training step as a round takes it, with sampling, mining of hard shots and the backend. "no look": the same with the kernels, where all shots
that are drawn are matched. "busy": the share of a step's wall-clock time in which the device works. "pairs": shots that are matched for each that is trained on, and the
time of the matcher. Shots per second are of the best turn. `--device cpu` is a dry run of the script, where the kernels are those for a CPU.
"""

from __future__ import annotations

import argparse
import contextlib
import copy
from collections.abc import Iterator

import torch
from bench_training import CASES, PER_CHECK, Bench, Case

from autoqec.decoders.flop_census import reference_path
from autoqec.decoders.modules.predecoders import ProblemPredecoder

TURBO = Case(
    "turbo, 8 exchanges of 2 + 4 iterations",
    "bb72_depol",
    3e-3,
    {
        "type": "neural_bp",
        "neural_bp": {"iterations": 4, "turbo": {"exchanges": 8, "context_iterations": 2}},
    },
    "bce",
)
MEMORY = Case(
    "neural_bp, min-sum, memory",
    "surface_d5_depol",
    5e-3,
    {"type": "neural_bp", "neural_bp": {**PER_CHECK, "check_rule": "min_sum", "memory": "learnable"}},
    "backend_gap",
)
COMPARED = 256
"""Shots on which gradients are compared."""
NAMED = {"neural_bp": CASES[0], "min_sum": MEMORY, "hybrid": CASES[2], "gnn": CASES[3], "turbo": TURBO}


@contextlib.contextmanager
def path(kernels: bool) -> Iterator[None]:
    with contextlib.nullcontext() if kernels else reference_path():
        yield


def gradients(bench: Bench, *, kernels: bool, dtype: torch.dtype) -> dict[str, torch.Tensor]:
    """Of a sum with fixed random signs, outside of mixed precision. On few shots: torch keeps every message of every iteration."""
    module = copy.deepcopy(bench.module).to(dtype)
    few = bench.batch.take(torch.arange(min(COMPARED, bench.size), device=bench.device))
    given = {name: each.to(dtype) if each.is_floating_point() else each for name, each in few.given.items()}
    with path(kernels):
        weights = module.backend_weights(few.syndrome.to(dtype), given)
        generator = torch.Generator().manual_seed(1)
        signs = torch.randn(weights.shape, generator=generator, dtype=torch.float64)
        (weights * signs.to(weights.device, dtype)).mean().backward()
    return {name: p.grad.double() for name, p in module.named_parameters() if p.grad is not None}


def farthest(found: dict[str, torch.Tensor], expected: dict[str, torch.Tensor]) -> tuple[float, str]:
    return max(
        (float((found[name] - each).abs().max() / each.abs().max().clamp(min=1e-30)), name)
        for name, each in expected.items()
    )


def moved(module: ProblemPredecoder) -> None:
    """Away from the start, where heads are zero and hide the gradients behind them."""
    generator = torch.Generator().manual_seed(2)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter += 0.02 * torch.randn(parameter.shape, generator=generator).to(parameter.device)


def rates(bench: Bench, repeats: int) -> list[list[float]]:
    """Shots per second of both ways and of a step, each for torch and the kernels, in turns."""
    found = []
    for work in (bench.both_ways, bench.step):
        least = {kernels: float("inf") for kernels in (False, True)}
        for turn in range(repeats + 1):
            for kernels in (False, True):
                with path(kernels):
                    spent = bench.seconds(lambda work=work: [work() for _ in range(3)]) / 3
                if turn:  # the first compiles
                    least[kernels] = min(least[kernels], spent)
        found.append([bench.size / least[kernels] for kernels in (False, True)])
    return found


def without_look(case: Case, batch: int, device: torch.device, repeats: int) -> str:
    """Shots per second of a step where all that are drawn are matched; on a CPU that is what a round does."""
    if case.loss != "backend_gap" or device.type != "cuda":
        return "-"
    bench = Bench(case, batch, device, looks=False)
    moved(bench.module)
    least = min(bench.seconds(lambda: [bench.step() for _ in range(3)]) / 3 for _ in range(repeats + 1))
    return f"{batch / least:,.0f}"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cuda")
    parser.add_argument("--batch", type=int, default=4096)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--cases", nargs="*", choices=list(NAMED), default=list(NAMED))
    args = parser.parse_args()
    device = torch.device(args.device)
    print(
        "| model | far (torch) | both ways: torch | kernels | ratio | step: torch | kernels | ratio | no look | busy: torch | kernels | pairs |"
    )
    print("|---|---|---|---|---|---|---|---|---|---|---|---|")
    for name in args.cases:
        case = NAMED[name]
        bench = Bench(case, args.batch, device)
        moved(bench.module)
        single = gradients(bench, kernels=False, dtype=torch.float32)
        far, where = farthest(gradients(bench, kernels=True, dtype=torch.float32), single)
        scale, _ = farthest(single, gradients(bench, kernels=False, dtype=torch.float64))
        columns = [case.name, f"{far:.1e} at {where} ({scale:.1e})"]
        for plain, kernels in rates(bench, args.repeats):
            columns += [f"{plain:,.0f}", f"{kernels:,.0f}", f"{kernels / plain:.2f}"]
        columns.append(without_look(case, args.batch, device, args.repeats))
        for kernels in (False, True):
            with path(kernels):
                columns.append(f"{bench.busy():.2f}" if device.type == "cuda" else "-")
        columns.append(bench.matched())
        print("| " + " | ".join(columns) + " |", flush=True)


if __name__ == "__main__":
    main()
