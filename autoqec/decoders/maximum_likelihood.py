"""The best decoder there can be: for every syndrome the likeliest observables, summed over all sets of faults.

Where detectors and observables are few, all of their patterns are enumerated: the probability of each comes from the faults one by one,
P <- (1 - p) P + p P[. xor fault]. Otherwise the detectors are swept (`decoders.detector_sweep`), if few are open at a time.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from autoqec.decoders.detector_sweep import DetectorSweep, is_narrow
from autoqec.envs.packing import checked, pack, unpack
from autoqec.envs.problem import F64, U8, DecodingProblem
from autoqec.errors import InputError

MOST_BITS = 20
MOST_OPEN = 16
"""Bits of a sweep: a few milliseconds for each shot on one core."""


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
        if (reason := too_large(problem)) is not None:
            raise InputError(
                f"{problem.name}: {reason}",
                where="maximum_likelihood",
                hint="use a smaller code or fewer rounds",
            )
        self._n_checks, self._n_observables = problem.n_checks, problem.n_observables
        self._best: npt.NDArray[np.int64] | None = None
        if _is_small(problem):
            self._best = outcome_probabilities(problem).argmax(axis=0)
        else:
            self._sweep = DetectorSweep(problem)

    def decode(self, detectors: U8) -> U8:
        if self._best is None:
            best = self._sweep.probabilities(detectors).argmax(axis=1)
        else:
            bits = unpack(checked(detectors, self._n_checks, what="detectors"), self._n_checks)
            best = self._best[bits.astype(np.int64) @ (1 << np.arange(self._n_checks))]
        return pack(((best[:, None] >> np.arange(self._n_observables)) & 1).astype(np.uint8))


def too_large(problem: DecodingProblem) -> str | None:
    """Why the best decoder of a problem is out of reach; None where it is not."""
    if _is_small(problem) or is_narrow(problem, MOST_OPEN):
        return None
    return f"needs at most {MOST_BITS} detectors and observables, or {MOST_OPEN} open at a time"


def _is_small(problem: DecodingProblem) -> bool:
    return problem.n_checks + problem.n_observables <= MOST_BITS
