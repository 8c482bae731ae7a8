"""The best decoder there can be, by enumeration: for every syndrome the likeliest observables, summed over all sets of faults.

The probability of each pattern of detectors and observables comes from the faults one by one: P <- (1 - p) P + p P[. xor fault].
So it takes 2**(detectors + observables) numbers, and is for small problems.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from autoqec.envs.packing import checked, pack, unpack
from autoqec.envs.problem import F64, U8, DecodingProblem
from autoqec.errors import InputError

MOST_BITS = 20


def outcome_probabilities(problem: DecodingProblem) -> F64:
    """[2**n_observables, 2**n_checks]: bit i of an index is detector (observable) i."""
    bits = problem.n_checks + problem.n_observables
    if bits > MOST_BITS:
        raise InputError(
            f"{problem.name} has {bits} detectors and observables, and {MOST_BITS} can be enumerated",
            where="maximum_likelihood",
            hint="use a smaller code or fewer rounds",
        )
    symptoms = np.concatenate([problem.h.toarray(), problem.l.toarray()]).astype(np.int64)
    pattern = (1 << np.arange(bits)) @ symptoms
    index = np.arange(1 << bits)
    chance = np.zeros(1 << bits)
    chance[0] = 1.0
    for mask, p in zip(pattern, problem.priors, strict=True):
        chance = (1.0 - p) * chance + p * chance[index ^ mask]
    return chance.reshape(1 << problem.n_observables, 1 << problem.n_checks)


def exact_ler(chances: F64, predictions: npt.NDArray[np.integer]) -> float:
    """chances: of `outcome_probabilities`; predictions: [2**n_checks] the observables answered to each syndrome, as an index."""
    return float(chances.sum() - chances[predictions, np.arange(chances.shape[1])].sum())


class MaximumLikelihood:
    def __init__(self, problem: DecodingProblem) -> None:
        self._n_checks, self._n_observables = problem.n_checks, problem.n_observables
        self._best = outcome_probabilities(problem).argmax(axis=0)

    def decode(self, detectors: U8) -> U8:
        bits = unpack(checked(detectors, self._n_checks, what="detectors"), self._n_checks)
        best = self._best[bits.astype(np.int64) @ (1 << np.arange(self._n_checks))]
        return pack(((best[:, None] >> np.arange(self._n_observables)) & 1).astype(np.uint8))
