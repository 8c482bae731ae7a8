"""`backend_gap`: train for the decoding outcome.

For each shot the backend finds, on the model's own weights w, the cheapest correction of the true logical class and the
cheapest of the wrong ones. The loss is softplus(w . (true - wrong)): it pushes the true class below the other. Both
corrections are constants; the gradient flows through w.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from autoqec.decoders.backends.ordered_statistics import OrderedStatistics
from autoqec.decoders.backends.per_shot_matching import PerShotMatcher
from autoqec.envs.packing import pack, unpack, width
from autoqec.envs.problem import U8, DecodingProblem, log_odds
from autoqec.errors import InputError

HARD_GAP = 7.0
"""Shots whose plain gap is at least this carry no signal: their class is decided already (log-odds)."""

F32 = npt.NDArray[np.float32]


@dataclass(frozen=True)
class Corrections:
    """The cheapest corrections of two classes. both: [shots, 2, ceil(n_weights / 8)] packed. signs: [shots] 1 where the first is that of the true
    class, -1 where the second is, 0 where there is no such pair."""

    both: U8
    signs: F32


class Pairs(Protocol):
    """The backend's half of the loss."""

    def corrections(self, detectors: U8, observables: U8, weights: F32) -> Corrections:
        """Of packed shots."""
        ...

    def is_hard(self, detectors: U8, observables: U8) -> npt.NDArray[np.bool_]:
        """Shots that can still go either way under the model's fixed weights."""
        ...


class MatchingPairs:
    """Both logical classes by exact matching, for problems with one observable."""

    def __init__(self, problem: DecodingProblem, threads: int | None) -> None:
        if problem.graph is None or problem.n_observables != 1:
            raise InputError(
                f"backend_gap with matching needs a matching graph and one observable, not {problem.n_observables}",
                where="training.loss",
                hint="use loss: bce",
            )
        self.graph = problem.graph
        self._matcher = PerShotMatcher.from_graph(problem.graph, problem.n_checks)
        self._threads = threads
        self.n_checks = problem.n_checks
        self._fixed = log_odds(problem.graph.priors).astype(np.float32)

    def corrections(self, detectors: U8, observables: U8, weights: F32) -> Corrections:
        classes = self._matcher.logical_classes(detectors, weights, threads=self._threads)
        is_usable = np.isfinite(classes.weights).all(axis=1)
        signs = np.where(unpack(observables, 1)[:, 0] == 1, -1, 1) * is_usable
        return Corrections(classes.edges, signs.astype(np.float32))

    def leads(self, detectors: U8, observables: U8, weights: F32) -> npt.NDArray[np.float64]:
        """[shots] how far the true class is below the wrong one on these weights; negative where matching fails."""
        gap = self._matcher.logical_classes(detectors, weights, threads=self._threads).gap
        return np.where(unpack(observables, 1)[:, 0] == 1, -gap, gap)

    def is_hard(self, detectors: U8, observables: U8) -> npt.NDArray[np.bool_]:
        gap = self._matcher.logical_classes(detectors, self._fixed, threads=self._threads).gap
        return np.asarray(np.abs(gap) < HARD_GAP)


class OsdPairs:
    """Ordered statistics: the cheapest of the true class against a wrong one.

    A class is imposed by adding the observables to the checks. The wrong one is the unconstrained answer where that is
    wrong; where it is right, one observable is flipped, by turns: without such shots the loss would be lowest for a model
    that says nothing at all.
    """

    def __init__(self, problem: DecodingProblem, threads: int | None, order: int = 0) -> None:
        self._problem = problem
        self._threads = threads
        self._order = order
        self._free = OrderedStatistics(problem.h, problem.l)
        self._tied = OrderedStatistics(sp.csc_array(sp.vstack([problem.h, problem.l])), problem.l)

    def corrections(self, detectors: U8, observables: U8, weights: F32) -> Corrections:
        n, classes = self._problem.n_faults, self._problem.n_observables
        actual = unpack(observables, classes)
        detectors = self._problem.backend_shots(detectors)
        syndromes = unpack(detectors, self._problem.n_checks)
        found = unpack(self._faults(self._free, detectors, weights), n)
        right = (actual == (self._problem.l @ found.T).T & 1).all(axis=1)
        true, wrong = found.copy(), found
        if not right.all():
            true[~right] = self._of_class(syndromes[~right], actual[~right], weights[~right])
        if right.any():
            other = actual[right].copy()
            other[np.arange(len(other)), np.arange(len(other)) % classes] ^= 1
            wrong[right] = self._of_class(syndromes[right], other, weights[right])
        return Corrections(np.stack([pack(true), pack(wrong)], axis=1), np.ones(len(true), dtype=np.float32))

    def _faults(self, statistics: OrderedStatistics, detectors: U8, weights: F32) -> U8:
        return statistics.decode_to_faults(
            detectors, weights, order=self._order, threads=self._threads
        ).faults

    def _of_class(self, syndromes: U8, observables: U8, weights: F32) -> U8:
        stacked = pack(np.concatenate([syndromes, observables], axis=1))
        return unpack(self._faults(self._tied, stacked, weights), self._problem.n_faults)

    def is_hard(self, detectors: U8, observables: U8) -> npt.NDArray[np.bool_]:
        if detectors.shape[1] != width(self._problem.n_checks):
            raise InputError("packed detectors of another problem", where="backend_gap")
        return np.asarray(self._problem.backend_shots(detectors).any(axis=1))


def make_pairs(problem: DecodingProblem, backend: str, threads: int | None) -> Pairs:
    makers: dict[str, type[MatchingPairs] | type[OsdPairs]] = {"mwpm": MatchingPairs, "osd": OsdPairs}
    return makers[backend](problem, threads)
