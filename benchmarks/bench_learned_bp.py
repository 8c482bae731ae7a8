"""Learned belief propagation, compiled against torch, side by side on the same shots, one core.

    python benchmarks/bench_learned_bp.py [--shots 512] [--repeats 3]

CPU time per shot in microseconds, the minimum of the turns. The two take turns, so that a busy machine slows both alike;
what counts is the ratio. Weights per link, damping per iteration, eight iterations.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
import torch

from autoqec.decoders.dsl_schema import NeuralBpSpec
from autoqec.decoders.modules.neural_bp import LearnedBP
from autoqec.decoders.modules.structure import TannerLinks
from autoqec.envs.load import load_env
from autoqec.envs.packing import unpack
from autoqec.envs.problem import log_odds

ITERATIONS = 8


def cpu_time(model: LearnedBP, syndrome: torch.Tensor, prior: torch.Tensor, *, backward: bool) -> float:
    before = time.process_time()
    with torch.set_grad_enabled(backward):
        answer = model(syndrome, prior)
        if backward:
            answer.square().mean().backward()
    return time.process_time() - before


def bench(env: str, p: float, rule: str, shots: int, repeats: int) -> None:
    environment = load_env(env)
    problem = environment.problem(p)
    spec = {
        "iterations": ITERATIONS,
        "weight_sharing": "none",
        "damping": "learnable_per_iter",
        "check_rule": rule,
    }
    model = LearnedBP(NeuralBpSpec.model_validate(spec), TannerLinks(problem))
    detectors = unpack(environment.sampler(p).sample(shots, seed=1).detectors, problem.n_checks)
    syndrome = torch.from_numpy(np.ascontiguousarray(detectors.T, dtype=np.float32))
    prior = torch.from_numpy(log_odds(problem.priors).astype(np.float32))[:, None].expand(-1, shots)
    for what, backward in (("forward", False), ("forward and backward", True)):
        least = {True: np.inf, False: np.inf}
        for turn in range(repeats + 1):
            for fused in (True, False):
                model.fused = fused
                spent = cpu_time(model, syndrome, prior, backward=backward)
                if turn:  # the first one compiles
                    least[fused] = min(least[fused], 1e6 * spent / shots)
        ours, theirs = least[True], least[False]
        print(
            f"| {env} p={p:g} | {problem.h.nnz} | {rule} | {what} | {ours:.0f} | {theirs:.0f} | {theirs / ours:.1f} |",
            flush=True,
        )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--shots", type=int, default=512)
    parser.add_argument("--repeats", type=int, default=3)
    args = parser.parse_args()
    torch.set_num_threads(1)
    print("| problem | links | rule | what | fused, us | torch, us | ratio |\n|---|---|---|---|---|---|---|")
    for env, p in (("surface_d5_depol", 5e-3), ("bb72_depol", 3e-3)):
        for rule in ("sum_product", "min_sum"):
            bench(env, p, rule, args.shots, args.repeats)


if __name__ == "__main__":
    main()
