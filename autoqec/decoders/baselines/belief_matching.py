"""Belief matching: sum-product BP on the undecomposed model, then matching on each shot's own posteriors.

Higgott, Bohdanowicz, Kubica, Flammia, Campbell (2022). BP sees the hyperedges, so the Y-type correlations that
plain matching throws away reach the weights. The number of iterations is fixed, and the weights come from the mean
posteriors of the last four, because flooding oscillates with period two. Measured at p = 5e-3 on two samples each
(surface_d5_depol, 200k shots in all; surface_d7_depol, 120k; every setting on the same shots): logical errors, how many
times more plain matching made, and CPU time of propagation at d = 5.

    iterations   averaged   d = 5          d = 7         us per shot
    (plain matching)         2796           1125
             6          4    1965   1.42     620   1.81           38
             8          1                    676   1.66
             8          2    1956   1.43                          49
             8          4    1962   1.43     623   1.81           50
            10          1    2036   1.37     671   1.68           62
            10          4    1969   1.42     633   1.78           63

The settings that average cannot be told apart, so the cheapest is taken. The ratios at d = 7 vary between samples: that
of (8, 4) was 2.02 in one and 1.64 in the other.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from autoqec.decoders.backends.belief_propagation import BeliefPropagation
from autoqec.decoders.backends.edge_weights import EdgeWeights
from autoqec.decoders.backends.per_shot_matching import PerShotMatcher
from autoqec.decoders.baselines.registry import Baseline
from autoqec.decoders.protocol import Confident
from autoqec.envs.packing import checked, width
from autoqec.envs.problem import U8, DecodingProblem
from autoqec.errors import InputError

ITERATIONS = 6
AVERAGED = 4
_BATCH = 1024  # keeps [shots, n_faults] beliefs in cache-sized pieces


class BeliefMatching:
    def __init__(self, problem: DecodingProblem) -> None:
        if problem.graph is None:
            raise InputError(f"{problem.name} is not graph-like", where="belief_matching", hint="use bposd")
        self._problem = problem
        self._bp = BeliefPropagation(problem.h, problem.priors, iterations=ITERATIONS, average=AVERAGED)
        self._weights = EdgeWeights(problem.graph)
        self._matcher = PerShotMatcher.from_graph(problem.graph, problem.n_checks)

    def decode(self, detectors: U8) -> U8:
        packed = checked(detectors, self._problem.n_checks, what="detectors")
        predictions = np.zeros((len(packed), width(self._problem.n_observables)), dtype=np.uint8)
        # The empty syndrome needs no correction: with all priors below 1/2 its posteriors are, too.
        busy = np.flatnonzero(packed.any(axis=1))
        for start in range(0, len(busy), _BATCH):
            shots = busy[start : start + _BATCH]
            predictions[shots] = self._matcher.decode(
                packed[shots], self._weights_of(packed[shots]), threads=1
            )
        return predictions

    def decode_with_confidence(self, detectors: U8) -> Confident:
        packed = checked(detectors, self._problem.n_checks, what="detectors")
        predictions = np.zeros((len(packed), width(self._problem.n_observables)), dtype=np.uint8)
        log_odds = np.zeros(len(packed))
        for start in range(0, len(packed), _BATCH):
            rows = slice(start, start + _BATCH)
            found = self._matcher.decode_with_margins(packed[rows], self._weights_of(packed[rows]), threads=1)
            predictions[rows], log_odds[rows] = found
        return Confident(predictions, log_odds)

    def _weights_of(self, detectors: U8) -> npt.NDArray[np.float32]:
        return self._weights(self._bp.posteriors(detectors, threads=1).log_odds)


ENTRY = Baseline(
    name="belief_matching",
    summary="belief propagation feeding per-shot matching weights (Higgott et al. 2022)",
    build=lambda problem, _order: BeliefMatching(problem),
    module="numba",
    distribution="autoqec",
    needs_graph=True,
    fast=True,
)
