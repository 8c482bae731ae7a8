"""Turbo propagation, compiled, against belief propagation of ldpc on the joint model: time per iteration, one thread each.

One iteration of ours is one on each half and what they tell each other; one of ldpc is one on the whole model (sum-product). Same
shots, none of which stops early: ldpc is given no chance to converge, ours is asked for all exchanges.

Then the example `turbo_legs_bb72` by the number of shots that it is given at a time: legs are for the few that nothing else explains.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
import scipy.sparse as sp
import torch
import yaml
from ldpc import BpDecoder

from autoqec.decoders.compiler import compile_predecoder, context
from autoqec.decoders.dsl_schema import PredecoderDSL
from autoqec.envs.load import load_env
from autoqec.layout import example_configs

EXCHANGES = 8


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--shots", type=int, default=512)
    parser.add_argument("--envs", nargs="*", default=["bb72_depol"])
    options = parser.parse_args()
    torch.set_num_threads(1)
    print(f"{'environment':<14} {'ours, us':>10} {'with gradients':>15} {'ldpc, us':>10} {'ratio':>7}")
    for name in options.envs:
        env = load_env(name)
        problem = env.problem(3e-3)
        joint = problem.joint
        assert joint is not None
        shots = torch.from_numpy(env.sample(3e-3, options.shots, seed=1).detectors).float()
        dsl = {"iterations": 1, "turbo": {"exchanges": EXCHANGES, "context_iterations": 1}}
        config = {"type": "neural_bp", "output_mode": "soft_priors", "neural_bp": dsl}
        module = compile_predecoder(PredecoderDSL.model_validate(config), problem).train()
        ctx = context(problem)
        module.fault_log_odds(shots[:16], ctx).sum().backward()  # compiles

        start = time.perf_counter()
        answer = module.fault_log_odds(shots, ctx)
        forward = time.perf_counter() - start
        answer.sum().backward()
        both = time.perf_counter() - start

        decoder = BpDecoder(
            sp.csr_matrix(joint.h, dtype=np.uint8),
            error_channel=joint.priors.tolist(),
            max_iter=EXCHANGES,
            bp_method="product_sum",
        )
        syndromes, iterations = shots.numpy().astype(np.uint8)[:64], 0
        start = time.perf_counter()
        for syndrome in syndromes:
            decoder.decode(syndrome)
            iterations += decoder.iter
        theirs = (time.perf_counter() - start) / max(iterations, 1)
        per = 1e6 / (options.shots * EXCHANGES)
        ours = forward * per
        print(f"{name:<14} {ours:10.1f} {both * per:15.1f} {1e6 * theirs:10.1f} {1e6 * theirs / ours:7.1f}")
    _legs(4096)


def _legs(shots: int) -> None:
    env = load_env("bb72_depol")
    dsl = PredecoderDSL.model_validate(yaml.safe_load(example_configs()["turbo_legs_bb72"].read_text()))
    print(f"\n{'turbo_legs_bb72, p':<20} {'at a time':>10} {'us per shot':>12}")
    for p in (3e-3, 5e-3):
        problem = env.problem(p)
        module, ctx = compile_predecoder(dsl, problem).eval(), context(problem)
        syndromes = torch.from_numpy(env.sample(p, shots, seed=1).detectors).float()
        with torch.no_grad():
            module.fault_log_odds(syndromes[:16], ctx)  # compiles
            for batch in (128, 512, 2048):
                start = time.perf_counter()
                for part in syndromes.split(batch):
                    module.fault_log_odds(part, ctx)
                spent = time.perf_counter() - start
                print(f"{p:<20} {batch:10} {1e6 * spent / shots:12.1f}")


if __name__ == "__main__":
    main()
