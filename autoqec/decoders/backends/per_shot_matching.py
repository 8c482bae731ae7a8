"""Exact minimum-weight perfect matching in which every shot has its own edge weights.

A correction is a set of edges whose ends, counted mod 2 with the boundary free, are the shot's defects; the
answer is one of minimum total weight. Weights are log odds and may be negative: such edges are flipped into the
correction beforehand and cost |w| to take out again, which leaves the optimum unchanged.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from autoqec.decoders.backends._kernels.matching_batch import BAD_WEIGHT, Batch
from autoqec.decoders.backends._kernels.matching_engine import Engine
from autoqec.decoders.backends._kernels.matching_gauge import (
    boundary_gauge,
    observable_as_detector,
    unmatchable_detectors,
)
from autoqec.decoders.backends._kernels.matching_grow import SOLVED, UNMATCHABLE
from autoqec.decoders.backends._kernels.pieces import read_only
from autoqec.decoders.backends.matching_graph import checked_ends, checked_observables
from autoqec.decoders.protocol import Confident
from autoqec.envs.packing import checked, pack, unpack, width
from autoqec.envs.problem import F64, I32, U8, MatchingGraph
from autoqec.errors import InputError, UnavailableError

I64 = npt.NDArray[np.int64]
Weights = npt.NDArray[np.float32] | npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class MatchingSolutions:
    """The correction of each shot.

    edges: [shots, ceil(n_edges / 8)] packed. observables: [shots, ceil(n_observables / 8)] packed, what the
    correction flips. weights: [shots] sum of the weights of its edges, negative ones included.
    """

    edges: U8
    observables: U8
    weights: F64


@dataclass(frozen=True, eq=False)
class LogicalClasses:
    """The cheapest correction of a shot that leaves the observable alone (0) and that flips it (1).

    edges: [shots, 2, ceil(n_edges / 8)] packed. weights: [shots, 2]; infinite, and no edges, where the class
    has no correction.
    """

    edges: U8
    weights: F64

    @property
    def gap(self) -> F64:
        """[shots] weight of class 1 less weight of class 0: positive where "not flipped" is likelier."""
        gap: F64 = self.weights[:, 1] - self.weights[:, 0]
        return gap


class PerShotMatcher:
    """Exact minimum-weight perfect matching with weights given per shot.

    The search runs on integers: a shot's weights are rounded to multiples of a power of two, about 2**-36 of
    the largest at a thousand detectors, and the answer is optimal up to that. For an edge that must not be
    used write `inf`: a huge number would coarsen the grid of all others.

    Args:
        n_detectors: number of detectors.
        ends: [n_edges, 2] detectors of each edge; `ends[e, 1] == BOUNDARY` (-1) marks a boundary edge. Of
            parallel edges the one that is cheaper in the shot is used.
        observables: [n_edges, n_observables] bool, which observables each edge flips.

    Instances may be used from several threads at once, and pickled.
    """

    def __init__(self, n_detectors: int, ends: I32, observables: npt.NDArray[np.bool_]) -> None:
        self.n_detectors = int(n_detectors)
        self.ends = checked_ends(self.n_detectors, ends)
        self.observables = checked_observables(len(self.ends), observables)
        self._masks = read_only(pack(self.observables))
        self._engine = Engine(self.n_detectors, self.ends)
        self._class_engines: dict[int, tuple[Engine, U8]] = {}

    @classmethod
    def from_graph(cls, graph: MatchingGraph, n_detectors: int) -> PerShotMatcher:
        """Matcher on the graph of a decoding problem; its priors are not used."""
        return cls(n_detectors, graph.ends, graph.observables)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.n_detectors, self.ends, self.observables)

    @property
    def n_edges(self) -> int:
        return int(self.ends.shape[0])

    @property
    def n_observables(self) -> int:
        return int(self.observables.shape[1])

    def decode(self, detectors: U8, weights: Weights, *, threads: int | None = None) -> U8:
        """Predicted observables, [shots, ceil(n_observables / 8)] packed.

        Args:
            detectors: [shots, ceil(n_detectors / 8)] packed, little bit order.
            weights: [shots, n_edges], or [n_edges] for all shots.
            threads: by default one per available core. The answer does not depend on it.
        """
        observables: U8 = self._solve(detectors, weights, threads, edges=False).observables
        return observables

    def decode_to_edges(
        self, detectors: U8, weights: Weights, *, threads: int | None = None
    ) -> MatchingSolutions:
        """The corrections themselves, with their weights. Arguments as for `decode`."""
        batch = self._solve(detectors, weights, threads, edges=True)
        return MatchingSolutions(batch.edges, batch.observables, batch.totals)

    def logical_classes(
        self, detectors: U8, weights: Weights, *, observable: int = 0, threads: int | None = None
    ) -> LogicalClasses:
        """The cheapest correction for either value of one observable. Arguments as for `decode`.

        The observable becomes one more detector. That is exact where it can be moved to the boundary: no
        cycle of edges between detectors may flip it. So it is for the memory experiments of surface and
        repetition codes; the graph of a toric code is refused.
        """
        detectors = checked(detectors, self.n_detectors, what="detectors")
        values = [np.full(len(detectors), value) for value in (0, 1)]
        batches = self._match_classes(detectors, weights, observable, values, threads)
        missing = np.stack([b.status == UNMATCHABLE for b in batches], axis=1)
        self._refuse_unmatchable(batches[0]._replace(detectors=detectors), missing[:, 0] & missing[:, 1])
        edges = np.stack([b.edges for b in batches], axis=1)
        totals = np.stack([b.totals for b in batches], axis=1)
        edges[missing] = 0
        totals[missing] = np.inf
        return LogicalClasses(edges, totals)

    def decode_with_margins(
        self, detectors: U8, weights: Weights, *, predicted: U8 | None = None, threads: int | None = None
    ) -> Confident:
        """Predicted observables, and the margin of each shot: the weight of the cheapest correction with any other values of the
        observables, less that of the cheapest of all. Exact, with one matching more for every observable, each of which must be
        one that `logical_classes` can take.

        Raises:
            UnavailableError: an observable is one that `logical_classes` refuses.

        predicted: packed observables of the same weights by another exact matcher, which break ties in their own way.
        Others as for `decode`. Infinite where no correction has other values.
        """
        self.check_classes()
        best = self._solve(detectors, weights, threads, edges=True)
        answers = best.observables if predicted is None else predicted
        detectors = checked(detectors, self.n_detectors, what="detectors")
        values = unpack(answers, self.n_observables).astype(np.int64)
        lightest = np.full(len(detectors), np.inf)
        for observable in range(self.n_observables):
            wrong = [1 - values[:, observable]]
            (other,) = self._match_classes(detectors, weights, observable, wrong, threads)
            found = other.status != UNMATCHABLE
            lightest[found] = np.minimum(lightest[found], other.totals[found])
        return Confident(answers, np.maximum(lightest - best.totals, 0.0))

    def check_classes(self) -> None:
        """Raises UnavailableError where an observable is one that `logical_classes` refuses."""
        try:
            for observable in range(self.n_observables):
                self._class_engine(observable)
        except InputError as error:
            raise UnavailableError(
                error.what, where="confidence", hint="decode without a confidence"
            ) from None

    def _match_classes(
        self, detectors: U8, weights: Weights, observable: int, values: Sequence[I64], threads: int | None
    ) -> list[Batch]:
        """Cheapest corrections that give an observable these values, each [shots] of 0 and 1."""
        engine, gauge = self._class_engine(observable)
        n = self.n_detectors
        # A correction flips the observable: what it flips in this gauge, plus the defects in `gauge`, mod 2.
        defects = np.bitwise_count(detectors & gauge).sum(axis=1, dtype=np.int64) & 1
        seen = []
        for value in values:
            with_observable = np.zeros((len(detectors), width(n + 1)), dtype=np.uint8)
            with_observable[:, : detectors.shape[1]] = detectors
            with_observable[:, -1] |= ((defects ^ value) << (n % 8)).astype(np.uint8)
            seen.append(with_observable)
        return self._match(engine, seen, weights, threads, edges=True)

    def _solve(self, detectors: U8, weights: Weights, threads: int | None, *, edges: bool) -> Batch:
        detectors = checked(detectors, self.n_detectors, what="detectors")
        (batch,) = self._match(self._engine, [detectors], weights, threads, edges=edges)
        self._refuse_unmatchable(batch, batch.status == UNMATCHABLE)
        return batch

    def _match(
        self, engine: Engine, seen: Sequence[U8], weights: Weights, threads: int | None, *, edges: bool
    ) -> list[Batch]:
        """Run batches with the same weights; an unusable one raises, shots without a matching stay marked in `status`. seen: their
        packed detectors."""
        shots = len(seen[0])
        weights = self._checked_weights(weights, shots)
        single = weights.dtype == np.float32
        # All inputs go in read-only, so that writable and read-only arrays need only one compiled kernel.
        batches = [
            Batch(
                detectors=read_only(detectors),
                single=read_only(weights if single else np.empty((0, self.n_edges), dtype=np.float32)),
                double=read_only(np.empty((0, self.n_edges)) if single else weights),
                masks=self._masks,
                observables=np.zeros((shots, self._masks.shape[1]), dtype=np.uint8),
                edges=np.zeros((shots, width(self.n_edges)) if edges else (1, 0), dtype=np.uint8),
                totals=np.zeros(shots, dtype=np.float64),
                status=np.full(shots, SOLVED, dtype=np.uint8),
            )
            for detectors in seen
        ]
        engine.run(batches, threads)
        bad = np.flatnonzero(batches[0].status == BAD_WEIGHT)
        if len(bad):
            shot = int(bad[0]) % len(weights)
            edge = int(np.flatnonzero(np.isnan(weights[shot]) | (weights[shot] == -np.inf))[0])
            raise InputError(
                f"the weight of edge {edge} in shot {int(bad[0])} is {weights[shot, edge]}",
                where="weights",
                hint="give finite log odds; +inf marks an edge that must not be used",
            )
        return batches

    def _class_engine(self, observable: int) -> tuple[Engine, U8]:
        if observable not in self._class_engines:
            if not 0 <= observable < self.n_observables:
                raise InputError(
                    f"observable {observable} does not exist",
                    where="observable",
                    hint=f"this graph has {self.n_observables} observable(s), counted from 0",
                )
            mask = self.observables[:, observable]
            gauge = boundary_gauge(self.n_detectors, self.ends, mask)
            if gauge is None:
                raise InputError(
                    f"observable {observable} is flipped by a cycle of edges between detectors, "
                    "so it cannot be moved to the boundary",
                    where="logical_classes",
                    hint="use decode or decode_to_edges, which need no such structure",
                )
            ends = observable_as_detector(self.n_detectors, self.ends, mask, gauge)
            self._class_engines[observable] = Engine(self.n_detectors + 1, ends), pack(gauge[None])
        return self._class_engines[observable]

    def _checked_weights(self, weights: Weights, shots: int) -> Weights:
        given = np.asarray(weights)
        if given.dtype.kind not in "fiu" or given.shape not in {(self.n_edges,), (shots, self.n_edges)}:
            raise InputError(
                f"got {given.dtype} of shape {given.shape} for {shots} shots and {self.n_edges} edges",
                where="weights",
                hint=f"give floats [{shots}, {self.n_edges}], or [{self.n_edges}] for all shots",
            )
        rows: Weights
        if given.dtype == np.float32:
            rows = np.ascontiguousarray(given, dtype=np.float32)
        else:
            rows = np.ascontiguousarray(given, dtype=np.float64)
        return rows.reshape(1, self.n_edges) if rows.ndim == 1 else rows

    def _refuse_unmatchable(self, batch: Batch, without: npt.NDArray[np.bool_]) -> None:
        stuck = np.flatnonzero(without)
        if not len(stuck):
            return
        shot = int(stuck[0])
        weights = batch.single if len(batch.single) else batch.double
        usable = self.ends[weights[shot % len(weights)] < np.inf]
        defects = unpack(batch.detectors[shot : shot + 1], self.n_detectors)[0].astype(np.bool_)
        found = unmatchable_detectors(self.n_detectors, usable, defects)
        shown = " ".join(f"D{d}" for d in found[:8]) + (" ..." if len(found) > 8 else "")
        raise InputError(
            f"shot {shot} has no correction: an odd number of defects is cut off from the boundary ({shown})",
            where="detectors",
            hint="check that the shots belong to this graph, or leave a usable edge to the boundary",
        )
