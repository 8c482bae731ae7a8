"""BP+OSD from `ldpc`: belief propagation, then ordered statistics where it does not converge.

100 iterations of min-sum with the adaptive scaling 1 - 2^-i: on BB72 at p = 3e-3 this halves the error rate of 30
sum-product iterations. Order 0 is OSD-0; higher orders sweep combinations (OSD-CS).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from autoqec.envs.codes import gf2
from autoqec.envs.packing import checked, pack, unpack
from autoqec.envs.problem import U8, DecodingProblem

ITERATIONS = 100


class BpOsd:
    def __init__(self, problem: DecodingProblem, order: int) -> None:
        from ldpc import BpOsdDecoder

        self._n_checks = problem.n_checks
        self._observables = problem.l.tocsr().astype(np.int32)
        order = min(order, _free_faults(problem, order))
        self._decoder = BpOsdDecoder(
            sp.csr_matrix(problem.h, dtype=np.uint8),
            error_channel=problem.priors.tolist(),
            max_iter=ITERATIONS,
            bp_method="minimum_sum",
            ms_scaling_factor=0.0,
            osd_method="osd_cs" if order else "osd_0",
            osd_order=order,
        )

    def decode(self, detectors: U8) -> U8:
        return decode_one_by_one(self._decoder.decode, detectors, self._n_checks, self._observables)


def _free_faults(problem: DecodingProblem, enough: int) -> int:
    """How many faults lie outside a basis of H, as far as `enough`: `ldpc` reads out of bounds beyond them."""
    if problem.n_faults - problem.n_checks >= enough:
        return enough
    return problem.n_faults - gf2.rank(problem.h.toarray())


def decode_one_by_one(
    decode: Callable[[U8], npt.NDArray[Any]], detectors: U8, n_checks: int, observables: sp.csr_array[Any]
) -> U8:
    """Runs a decoder that takes one syndrome at a time and gives faults; packs the observables they flip."""
    syndromes = unpack(checked(detectors, n_checks, what="detectors"), n_checks)
    flips = np.zeros((len(syndromes), observables.shape[0]), dtype=np.bool_)
    for shot, syndrome in enumerate(syndromes):
        if syndrome.any():
            flips[shot] = (observables @ decode(syndrome)) & 1
    return pack(flips)
