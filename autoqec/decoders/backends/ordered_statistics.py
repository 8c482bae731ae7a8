"""Ordered statistics decoding with reliabilities of its own for every shot."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from autoqec.decoders.backends._kernels import osd
from autoqec.decoders.backends._kernels.pieces import in_pieces, read_only
from autoqec.decoders.protocol import Confident
from autoqec.envs.packing import checked, pack, width
from autoqec.envs.problem import F64, U8
from autoqec.errors import InputError

Method = Literal["e", "cs"]
Reliabilities = npt.NDArray[np.float32] | npt.NDArray[np.float64]

_METHODS = {"e": osd.EXHAUSTIVE, "cs": osd.COMBINATION_SWEEP}
_MOST_EXHAUSTIVE = 20
MARGIN_ORDER = 10
"""Of the combination sweep that gives the margins of order 0."""
_WORTH_A_THREAD = 64


class Corrections(NamedTuple):
    """faults: [shots, ceil(n_faults / 8)] packed.

    weights: [shots] sum over the faults set of their log-odds, or of `weights` where these were given.
    """

    faults: U8
    weights: F64


class OrderedStatistics:
    """Fault sets with the right syndrome that are light under per-shot log-odds (Panteleev and Kalachev 2019;
    Roffe, White, Burton, Campbell 2020).

    The faults are sorted by log-odds, likeliest flipped first and ties by index. The first rank(H) columns of H
    that are independent are the pivots. All other faults keep their hard decision, 1 where the log-odds are
    negative, and the pivots are solved for: that is order 0. Since negative log-odds come first, such a fault is not
    a pivot only where it depends on still likelier ones; `ldpc` sets it to 0 then. If the hard decision itself has
    the syndrome, it is the answer at any order.

    Order w > 0 also tries, from there, to flip non-pivot faults:
    "e": all 2**w patterns on the first w of them. "cs": each of them alone, and all pairs among the first w.
    The lightest candidate wins, by the sum of the shot's own log-odds over its faults. `ldpc` sorts by the posteriors
    but weighs with the channel priors; `weights` does that here, and is the better choice where the log-odds come
    from propagation that did not converge (BB72, p = 3e-3, 30 iterations, 60,000 paired shots: LER 0.0224 instead of
    0.0236 at OSD-CS-10, 0.0188 instead of 0.0215 at OSD-CS-60, which costs about the same).

    For the best candidate of a chosen logical class stack L under H and append the class to the detectors.

    Args:
        h: [n_checks, n_faults] over GF(2), of any rank.
        l: [n_observables, n_faults] over GF(2).

    Safe to share between threads.
    """

    def __init__(
        self, h: sp.csc_array[Any] | sp.csr_array[Any], l: sp.csc_array[Any] | sp.csr_array[Any]
    ) -> None:
        columns = _over_gf2(h)
        observables = _over_gf2(l)
        if observables.shape[1] != columns.shape[1]:
            raise InputError(
                f"L has {observables.shape[1]} columns and H has {columns.shape[1]}",
                where="l",
                hint="give both one column per fault",
            )
        self.n_checks, self.n_faults = (int(n) for n in columns.shape)
        self.n_observables = int(observables.shape[0])
        starts = read_only(columns.indptr.astype(np.int64))
        rows = read_only(columns.indices.astype(np.int64))
        masks = read_only(pack(observables.toarray().T))
        self.rank = int(osd.rank(starts, rows, self.n_checks))
        self._classes = _classes(observables)
        self._matrix = osd.Matrix(starts, rows, masks, self._classes, self.n_checks, self.rank)

    def decode(
        self,
        detectors: U8,
        reliabilities: Reliabilities,
        *,
        order: int = 0,
        method: Method = "cs",
        weights: npt.ArrayLike | None = None,
        threads: int | None = None,
    ) -> U8:
        """Predicted observables, [shots, ceil(n_observables / 8)] packed.

        Args:
            detectors: [shots, ceil(n_checks / 8)] packed, little bit order.
            reliabilities: log-odds log((1 - q) / q) [shots, n_faults], or [n_faults] for all shots. Infinite ones
                count as 1e9.
            order: 0 for OSD-0.
            method: how an order above 0 is meant: "e", exhaustive, or "cs", combination sweep.
            weights: [n_faults] log-odds to weigh candidates with, in place of `reliabilities`, which still give
                the order and the hard decision.
            threads: by default one per available core. The answer does not depend on it.
        """
        observables, _, _ = self._decode(detectors, reliabilities, order, method, weights, threads)
        return observables

    def decode_with_margins(
        self,
        detectors: U8,
        reliabilities: Reliabilities,
        *,
        order: int = 0,
        margin_weights: npt.ArrayLike | None = None,
        given: npt.NDArray[np.uint8] | None = None,
        threads: int | None = None,
    ) -> Confident:
        """The predictions of `decode`, and the margin of each: the weight of the lightest candidate of another logical class, less
        that of the lightest of the predicted one.

        The candidates are those of the combination sweep of this order. At order 0 they are those of order `MARGIN_ORDER`, for the
        margin alone. Where a solution of another class is lighter than the predicted one, the margin is negative. Infinite where all candidates have one class. It takes the whole elimination for
        every shot, also for one whose hard decision explains its syndrome.

        Args:
            margin_weights: [n_faults] log-odds to weigh candidates with in the margin alone, in place of `reliabilities`.
            given: [shots, n_faults] of 0 and 1, solutions that were found elsewhere: theirs are the margins, while the predictions
                are those of `decode`.

        Others as for `decode`.
        """
        observables, _, margins = self._decode(
            detectors, reliabilities, order, "cs", None, threads,
            with_margins=True, margin_weights=margin_weights, given=given,
        )  # fmt: skip
        return Confident(observables, margins)

    def decode_to_faults(
        self,
        detectors: U8,
        reliabilities: Reliabilities,
        *,
        order: int = 0,
        method: Method = "cs",
        weights: npt.ArrayLike | None = None,
        threads: int | None = None,
    ) -> Corrections:
        """The fault sets themselves, with their weights. Arguments as for `decode`."""
        return self._decode(detectors, reliabilities, order, method, weights, threads, to_faults=True)[1]

    def _decode(
        self,
        detectors: U8,
        reliabilities: Reliabilities,
        order: int,
        method: Method,
        weights: npt.ArrayLike | None,
        threads: int | None,
        *,
        to_faults: bool = False,
        with_margins: bool = False,
        margin_weights: npt.ArrayLike | None = None,
        given: npt.NDArray[np.uint8] | None = None,
    ) -> tuple[U8, Corrections, F64]:
        packed = read_only(checked(detectors, self.n_checks, what="detectors"))
        shots = len(packed)
        rows = self._checked_reliabilities(reliabilities, shots)
        single, double = (
            read_only(rows if rows.dtype == kind else np.empty((0, self.n_faults), dtype=kind))
            for kind in (np.float32, np.float64)
        )
        order = self._checked_order(order, method)
        reach = min(order or MARGIN_ORDER, self.n_faults - self.rank) if with_margins else 0
        search = osd.Search(order, _METHODS[method], reach)
        own = read_only(self._checked_weights(weights))
        odds = osd.Odds(single, double, np.ndim(reliabilities) == 1, own)
        observables = np.zeros((shots, width(self.n_observables)), dtype=np.uint8)
        kept = shots if to_faults else 0
        found = Corrections(np.zeros((kept, width(self.n_faults)), dtype=np.uint8), np.zeros(kept))
        margins = np.zeros(shots if with_margins else 0)
        rating = read_only(self._checked_weights(margin_weights))
        wanted = osd.Margins(margins, rating, *self._weighed(given, rating, rows))

        def work(start: int, stop: int) -> tuple[int, int, int]:
            status, shot, fault = osd.decode(
                self._matrix, odds, search, packed, start, stop, observables, found, wanted
            )
            return int(shot), int(status), int(fault)

        failed = [
            outcome
            for outcome in in_pieces(work, shots, threads, worth_a_thread=_WORTH_A_THREAD)
            if outcome[1] != osd.OK
        ]
        if failed:
            shot, status, fault = min(failed)
            if status == osd.NOT_A_NUMBER:
                raise InputError(
                    f"the log-odds of fault {fault} in shot {shot} are not a number",
                    where="reliabilities",
                    hint="give log((1 - q) / q) of a probability q",
                )
            raise InputError(
                f"no set of faults has the syndrome of shot {shot}: it is outside the column space of H "
                f"(rank {self.rank} of {self.n_checks})",
                where="detectors",
                hint="use shots of this very model",
            )
        return observables, found, margins

    def _weighed(
        self, given: npt.NDArray[np.uint8] | None, own: F64, rows: Reliabilities
    ) -> tuple[npt.NDArray[np.uint64], F64]:
        """Logical class and weight of solutions that were found elsewhere."""
        if given is None:
            return read_only(np.empty(0, dtype=np.uint64)), read_only(np.empty(0))
        chosen = given.astype(np.bool_)
        classes = np.bitwise_xor.reduce(np.where(chosen, self._classes, np.uint64(0)), axis=1)
        weights = np.clip(own if len(own) else rows, -osd.BOUND, osd.BOUND)
        return read_only(classes), read_only((chosen * weights).sum(axis=1, dtype=np.float64))

    def _checked_reliabilities(self, reliabilities: Reliabilities, shots: int) -> Reliabilities:
        given = np.asarray(reliabilities)
        if given.dtype.kind not in "fiu" or given.shape not in {(self.n_faults,), (shots, self.n_faults)}:
            raise InputError(
                f"got {given.dtype} of shape {given.shape} for {shots} shots and {self.n_faults} faults",
                where="reliabilities",
                hint=f"give floats [{shots}, {self.n_faults}], or [{self.n_faults}] for all shots",
            )
        rows: Reliabilities
        if given.dtype == np.float32:
            rows = np.ascontiguousarray(given, dtype=np.float32)
        else:
            rows = np.ascontiguousarray(given, dtype=np.float64)
        return rows.reshape(-1, self.n_faults) if self.n_faults else np.zeros((max(1, shots), 0))

    def _checked_weights(self, weights: npt.ArrayLike | None) -> F64:
        if weights is None:
            return np.empty(0)
        given = np.array(weights, dtype=np.float64)
        if given.shape != (self.n_faults,) or not np.isfinite(given).all():
            raise InputError(
                f"got weights of shape {given.shape}, or some that are not finite, for {self.n_faults} faults",
                where="weights",
                hint=f"give finite log-odds [{self.n_faults}]",
            )
        return given

    def _checked_order(self, order: int, method: Method) -> int:
        if method not in _METHODS:
            raise InputError(f"no method {method!r}", where="method", hint="choose from e, cs")
        if order < 0:
            raise InputError(f"order is {order}", where="order", hint="give 0 or more")
        order = min(order, self.n_faults - self.rank)
        if method == "e" and order > _MOST_EXHAUSTIVE:
            raise InputError(
                f"order {order} means 2**{order} candidates per shot",
                where="order",
                hint=f'give at most {_MOST_EXHAUSTIVE}, or method="cs"',
            )
        return order


def _classes(observables: Any) -> npt.NDArray[np.uint64]:
    """[n_faults] what each fault flips in one word: its observables or, of more than 64, a sum of random words of theirs, so that
    different classes have the same word with probability 2**-64."""
    n = int(observables.shape[0])
    words = np.uint64(1) << np.arange(min(n, 64), dtype=np.uint64)
    if n > 64:
        words = np.random.default_rng(0).integers(1 << 64, size=n, dtype=np.uint64)
    flipped = np.where(observables.toarray().astype(np.bool_), words[:, None], np.uint64(0))
    return read_only(np.bitwise_xor.reduce(flipped, axis=0).astype(np.uint64))


def _over_gf2(matrix: sp.csc_array[Any] | sp.csr_array[Any]) -> Any:
    columns: Any = matrix.tocsc(copy=True)
    columns.sum_duplicates()
    columns.data = columns.data % 2
    columns.eliminate_zeros()
    return columns
