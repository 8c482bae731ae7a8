"""Relay-BP: legs of memory belief propagation with disordered strengths (Mueller et al. 2025)."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from autoqec.decoders.baselines.registry import Baseline
from autoqec.envs.packing import checked, pack, unpack
from autoqec.envs.problem import U8, DecodingProblem


class RelayBp:
    def __init__(self, problem: DecodingProblem) -> None:
        import relay_bp

        self._n_checks = problem.n_checks
        self._observables = problem.l.tocsr().astype(np.int32)
        self._decoder = relay_bp.RelayDecoderF32(
            sp.csr_matrix(problem.h, dtype=np.uint8),
            error_priors=problem.priors,
            gamma0=0.1,
            pre_iter=80,
            num_sets=60,
            set_max_iter=60,
            gamma_dist_interval=(-0.24, 0.66),
            stop_nconv=5,
        )

    def decode(self, detectors: U8) -> U8:
        syndromes = unpack(checked(detectors, self._n_checks, what="detectors"), self._n_checks)
        if not len(syndromes):
            return pack(np.zeros((0, self._observables.shape[0])))
        faults = self._decoder.decode_batch(np.ascontiguousarray(syndromes))
        return pack((self._observables @ np.asarray(faults).T).T & 1)


ENTRY = Baseline(
    name="relay_bp",
    summary="Relay-BP, five solutions",
    build=lambda problem, _order: RelayBp(problem),
    module="relay_bp",
    distribution="relay-bp",
    note="wheels exist for some Python versions on x86_64 only; a Rust toolchain builds it elsewhere",
)
