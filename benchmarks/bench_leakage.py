"""The leakage sampler against Stim's sampler on the same circuit, which has the Pauli noise alone.

    python benchmarks/bench_leakage.py [--shots 200000] [--repeats 3]

Shots per CPU second of one core, the best of the turns; the two take turns.
"""

from __future__ import annotations

import argparse
import time

from autoqec.envs.distances import at_distance
from autoqec.envs.load import load_env
from autoqec.envs.sampling import CircuitSampler, Sampler


def rate(sampler: Sampler, shots: int, seed: int) -> float:
    start = time.process_time()
    sampler.sample(shots, seed)
    return shots / (time.process_time() - start)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--shots", type=int, default=200_000)
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    print("| distance | p | Pauli noise, shots/s | with leakage, shots/s | ratio |\n|---|---|---|---|---|")
    for distance in (3, 5, 7):
        env, p = at_distance(load_env("surface_d5_leakage"), distance, where="distance"), 5e-3
        circuit = env.circuit(p)
        assert circuit is not None
        samplers = (CircuitSampler(circuit), env.sampler(p))
        for sampler in samplers:
            sampler.sample(1, 0)  # compiles
        turns = [[rate(each, options.shots, turn) for each in samplers] for turn in range(options.repeats)]
        pauli, both = (max(column) for column in zip(*turns, strict=True))
        print(f"| {distance} | {p:g} | {pauli:,.0f} | {both:,.0f} | {both / pauli:.2f} |")


if __name__ == "__main__":
    main()
