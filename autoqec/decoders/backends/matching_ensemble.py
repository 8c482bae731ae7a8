"""Matchings that decide together: the same shot with small changes of its weights, and the class whose corrections weigh less in the mean.

One matching knows the lightest correction of each class, and not how many others come close. Under random changes of the weights the
lightest of many is lighter than that of one, so the mean over changes favours the class with more of them: a cheap stand-in for the sum over all
corrections of a class. The changes are the same for all shots, so that an answer does not depend on the shots beside it.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np
import numpy.typing as npt

from autoqec.decoders.backends.matching import MatchingBackend
from autoqec.decoders.protocol import Confident
from autoqec.envs.packing import pack
from autoqec.envs.problem import F64, U8, DecodingProblem
from autoqec.errors import InputError

SPREAD = 0.4
"""Standard deviation of the changes, in log-odds. On surface_d5_depol at p = 5e-3, 16 members: with 0.3, 0.6 and 1.0 on plain weights 3203, 3159 and 3142 failures of
12,000 open shots, 3259 without. Behind a trained hybrid, 8,577 open shots: 2282 without, 2274, 2263, 2247, 2237, 2244, 2297 with 0.1, 0.2, 0.3, 0.4, 0.5, 0.7; on 400,000
fresh ones 3438 with 0.4 and 3444 without, so nothing is left of it there. A sum over members within each class is worse."""
_SEED = 0x3A7C


class MatchingEnsemble(MatchingBackend):
    """members: matchings for each shot that comes with weights of its own."""

    def __init__(self, problem: DecodingProblem, members: int) -> None:
        super().__init__(problem)
        if problem.n_observables != 1:
            raise InputError(
                f"an ensemble of matchings needs one observable, not {problem.n_observables}",
                where="stages.members",
                hint="remove members",
            )
        self.members = members

    @cached_property
    def _changes(self) -> npt.NDArray[np.float32]:
        """[members, n_edges], in pairs of opposite sign, and the weights as they are where the number is odd."""
        half = np.random.default_rng(_SEED).standard_normal((self.members // 2, self.graph.n_edges))
        unchanged = np.zeros((self.members % 2, self.graph.n_edges))
        return (SPREAD * np.concatenate([half, -half, unchanged])).astype(np.float32)

    def decode_edges(
        self, detectors: U8, weights: npt.NDArray[np.floating], *, threads: int | None = None
    ) -> U8:
        return self.edges_with_confidence(detectors, weights, threads=threads).predictions

    def edges_with_confidence(
        self, detectors: U8, weights: npt.NDArray[np.floating], *, threads: int | None = None
    ) -> Confident:
        """The log-odds are the mean difference of the classes."""
        gap = self._mean_gap(detectors, np.asarray(weights, dtype=np.float32), threads)
        return Confident(pack((gap < 0)[:, None].astype(np.uint8)), np.abs(gap))

    def _mean_gap(self, detectors: U8, weights: npt.NDArray[np.float32], threads: int | None) -> F64:
        """[shots] how much more the lightest correction that flips the observable weighs than the lightest that does not."""
        total = np.zeros(len(detectors))
        for change in self._changes:
            total += self.per_shot.logical_classes(detectors, weights + change, threads=threads).gap
        mean: F64 = total / self.members
        return mean
