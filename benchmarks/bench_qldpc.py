"""BP+OSD-0 on BB72 against an untrained `neural_bp` in front of OSD-0: logical error rates on the same shots.

    python benchmarks/bench_qldpc.py [--shots 2000] [--p 0.003]

Which BP stands before OSD-0 decides the comparison, so the usual choices of `ldpc` stand beside each other.
"""

from __future__ import annotations

import argparse
from functools import partial

import numpy as np
import scipy.sparse as sp
from ldpc import BpOsdDecoder

from autoqec.decoders.backends import make_backend
from autoqec.decoders.backends.bp_osd import decode_one_by_one
from autoqec.decoders.compiler import compile_predecoder
from autoqec.decoders.dsl_schema import PredecoderDSL
from autoqec.decoders.pipeline import PredecoderPipeline
from autoqec.envs.load import load_env
from autoqec.envs.problem import DecodingProblem
from autoqec.stats.intervals import paired_ratio, wilson

BP = {
    "BP30 sum-product": {"max_iter": 30, "bp_method": "product_sum"},
    "BP30 min-sum, scaling 0.625": {"max_iter": 30, "bp_method": "minimum_sum", "ms_scaling_factor": 0.625},
    "BP100 min-sum, adaptive (`bposd-0`)": {
        "max_iter": 100,
        "bp_method": "minimum_sum",
        "ms_scaling_factor": 0.0,
    },
}
CONFIG = {
    "type": "neural_bp",
    "output_mode": "soft_priors",
    "neural_bp": {"iterations": 16, "damping": "fixed"},
    "training": {"epochs": 0},
}


def ldpc(problem: DecodingProblem, options: dict[str, object]) -> partial[np.ndarray]:
    decoder = BpOsdDecoder(
        sp.csr_matrix(problem.h), error_channel=problem.priors.tolist(), osd_method="osd_0", **options
    )
    return partial(
        decode_one_by_one,
        decoder.decode,
        n_checks=problem.n_checks,
        observables=problem.l.tocsr().astype(np.int32),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--shots", type=int, default=2000)
    parser.add_argument("--p", type=float, default=0.003)
    options = parser.parse_args()
    env = load_env("bb72_depol")
    problem = env.problem(options.p)
    sample = env.sampler(options.p).sample(options.shots, seed=3)
    module = compile_predecoder(PredecoderDSL.model_validate(CONFIG), problem)
    ours = PredecoderPipeline(module, make_backend(problem, "osd"), threads=None).decode(sample.detectors)
    wrong = (ours != sample.observables).any(axis=1)
    low, high = wilson(int(wrong.sum()), len(wrong))
    print(f"bb72_depol p={options.p:g}, {options.shots} shots")
    print("| in front of OSD-0 | failures | LER / LER of neural_bp | interval |\n|---|---|---|---|")
    print(
        f"| neural_bp, 16 iterations, untrained | {wrong.sum()} ({low:.4f} .. {high:.4f}) | 1 | |", flush=True
    )
    for name, bp in BP.items():
        seen = problem.backend_shots(sample.detectors)
        theirs = (ldpc(problem, bp)(seen) != sample.observables).any(axis=1)
        both = int((theirs & wrong).sum())
        low, high = paired_ratio(int(theirs.sum()) - both, int(wrong.sum()) - both, both)
        ratio = theirs.sum() / max(wrong.sum(), 1)
        print(f"| {name} | {theirs.sum()} | {ratio:.2f} | {low:.2f} .. {high:.2f} |", flush=True)


if __name__ == "__main__":
    main()
