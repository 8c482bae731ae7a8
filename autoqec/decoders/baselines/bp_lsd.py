"""BP+LSD from `ldpc`: localised statistics on clusters instead of one global elimination."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from autoqec.decoders.backends.bp_osd import ITERATIONS, decode_one_by_one
from autoqec.decoders.baselines.registry import Baseline
from autoqec.envs.problem import U8, DecodingProblem


class BpLsd:
    def __init__(self, problem: DecodingProblem) -> None:
        from ldpc.bplsd_decoder import BpLsdDecoder

        self._n_checks = problem.n_checks
        self._observables = problem.l.tocsr().astype(np.int32)
        self._decoder = BpLsdDecoder(
            sp.csr_matrix(problem.h, dtype=np.uint8),
            error_channel=problem.priors.tolist(),
            max_iter=ITERATIONS,
            bp_method="minimum_sum",
            ms_scaling_factor=0.0,
            lsd_method="lsd_0",
            lsd_order=0,
        )

    def decode(self, detectors: U8) -> U8:
        return decode_one_by_one(self._decoder.decode, detectors, self._n_checks, self._observables)


ENTRY = Baseline(
    name="bplsd",
    summary="belief propagation + localised statistics (Hillmann et al. 2024)",
    build=lambda problem, _order: BpLsd(problem),
    module="ldpc",
    distribution="ldpc",
)
