"""Belief propagation and ordered statistics against `ldpc`, side by side on the same shots, one core.

    python benchmarks/bench_osd.py [--shots 256] [--repeats 3]

CPU time per shot in microseconds. The decoders take turns, piece by piece, so that a busy machine slows all of them
alike; what counts is the last column.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import numpy as np
import scipy.sparse as sp
from ldpc import BpDecoder, BpOsdDecoder

from autoqec.decoders.backends.belief_propagation import BeliefPropagation
from autoqec.decoders.backends.ordered_statistics import OrderedStatistics
from autoqec.envs.load import load_env
from autoqec.envs.packing import unpack

PIECE = 128
Work = Callable[[slice], object]


def take_turns(shots: int, repeats: int, *works: Work) -> list[float]:
    """Microseconds per shot of each; the first turn compiles and is not counted."""
    spent = np.zeros(len(works))
    for work in works:
        work(slice(0, 2))
    for _ in range(repeats):
        for start in range(0, shots, PIECE):
            for i, work in enumerate(works):
                before = time.thread_time()
                work(slice(start, min(start + PIECE, shots)))
                spent[i] += time.thread_time() - before
    return (1e6 * spent / (shots * repeats)).tolist()


def row(name: str, what: str, ours: float, theirs: float) -> None:
    print(f"| {name} | {what} | {ours:.1f} | {theirs:.0f} | {theirs / ours:.0f} |", flush=True)


def belief_propagation(env: str, p: float, shots: int, repeats: int) -> None:
    environment = load_env(env)
    problem = environment.problem(p)
    detectors = problem.backend_shots(environment.sampler(p).sample(shots, seed=1).detectors)
    syndromes = unpack(detectors, problem.n_checks)
    for iterations in (4, 12, 30):
        ldpc = BpDecoder(
            sp.csr_matrix(problem.h),
            error_channel=problem.priors.tolist(),
            max_iter=iterations,
            bp_method="product_sum",
            schedule="parallel",
        )
        fixed, early = (
            BeliefPropagation(problem.h, problem.priors, iterations=iterations, early_stop=stop)
            for stop in (False, True)
        )
        times = take_turns(
            shots,
            repeats,
            lambda part, bp=fixed: bp.posteriors(detectors[part], threads=1),
            lambda part, bp=early: bp.posteriors(detectors[part], threads=1),
            lambda part, bp=ldpc: [bp.decode(s) for s in syndromes[part]],
        )
        row(f"{env} p={p:g}", f"BP, all {iterations} iterations", times[0], times[2])
        row(f"{env} p={p:g}", f"BP, up to {iterations} iterations", times[1], times[2])


def ordered_statistics(p: float, shots: int, repeats: int) -> None:
    name = f"bb72_depol p={p:g}"
    environment = load_env("bb72_depol")
    problem = environment.problem(p)
    sample = environment.sampler(p).sample(shots, seed=2)
    sample = sample._replace(detectors=problem.backend_shots(sample.detectors))
    syndromes = unpack(sample.detectors, problem.n_checks)
    bp = BeliefPropagation(problem.h, problem.priors, iterations=30, early_stop=True)
    beliefs = bp.posteriors(sample.detectors)
    osd = OrderedStatistics(problem.h, problem.l)
    shared = {"error_channel": problem.priors.tolist(), "max_iter": 30, "bp_method": "product_sum"}
    for label, order, method in (("OSD-0", 0, "osd_0"), ("OSD-CS-10", 10, "osd_cs")):
        ldpc_bp = BpDecoder(sp.csr_matrix(problem.h), **shared)
        ldpc = BpOsdDecoder(sp.csr_matrix(problem.h), osd_method=method, osd_order=order, **shared)
        alone, both, their_bp, theirs = take_turns(
            shots,
            repeats,
            lambda part, o=order: osd.decode(
                sample.detectors[part], beliefs.log_odds[part], order=o, threads=1
            ),
            lambda part, o=order: osd.decode(
                sample.detectors[part],
                bp.posteriors(sample.detectors[part], threads=1).log_odds,
                order=o,
                threads=1,
            ),
            lambda part, decoder=ldpc_bp: [decoder.decode(s) for s in syndromes[part]],
            lambda part, decoder=ldpc: [decoder.decode(s) for s in syndromes[part]],
        )
        row(name, f"{label} on given log-odds against BP30 + {label}", alone, theirs)
        row(name, f"{label} on given log-odds against the {label} part", alone, theirs - their_bp)
        row(name, f"BP30 + {label}", both, theirs)
        predicted = osd.decode(sample.detectors, beliefs.log_odds, order=order)
        wrong = (predicted != sample.observables).any(axis=1).mean()
        print(f"<!-- {label}: {1 - beliefs.satisfied.mean():.3f} of shots need it, LER {wrong:.4f} -->")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--shots", type=int, default=256)
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    print("| environment | what | ours us/shot | ldpc us/shot | ldpc / ours |\n|---|---|---|---|---|")
    for env, p in (("surface_d5_depol", 0.005), ("surface_d7_depol", 0.005), ("bb72_depol", 0.003)):
        belief_propagation(env, p, options.shots, options.repeats)
    for p in (0.003, 0.005):
        ordered_statistics(p, options.shots, options.repeats)


if __name__ == "__main__":
    main()
