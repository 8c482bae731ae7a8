"""Belief propagation on the faults of a detector error model, many shots at once."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from autoqec.decoders.backends._kernels import bp
from autoqec.decoders.backends._kernels.pieces import in_pieces, read_only
from autoqec.decoders.backends._kernels.simd import LANES
from autoqec.envs.packing import checked
from autoqec.envs.problem import U8, log_odds
from autoqec.errors import InputError

F32 = npt.NDArray[np.float32]
Method = Literal["sum_product", "min_sum"]

_METHODS = {"sum_product": bp.SUM_PRODUCT, "min_sum": bp.MIN_SUM}
_SMALLEST = 1e-15


class Posteriors(NamedTuple):
    """log_odds: [shots, n_faults] log((1 - q) / q), positive where the fault is unlikely to have happened.

    satisfied: [shots] whether the hard decision (log-odds below zero) of the last iteration has the shot's syndrome.
    """

    log_odds: F32
    satisfied: npt.NDArray[np.bool_]


class BeliefPropagation:
    """Flooding belief propagation: every check, then every fault, `iterations` times.

    Args:
        h: [n_checks, n_faults] check matrix over GF(2).
        priors: [n_faults] probabilities, clipped to [1e-15, 1 - 1e-15].
        iterations: how often checks and faults are updated.
        average: the log-odds are the mean of the posteriors after each of the last `average` iterations. Flooding
            oscillates with period two, so an even number smooths it; `satisfied` is about the last iteration alone.
        method: "sum_product" (the tanh rule) or "min_sum".
        scaling: factor on min-sum messages; "adaptive" is 1 - 2**-i in iteration i, as in `ldpc`.
        early_stop: stop a shot as soon as its hard decision has its syndrome and keep the posteriors of that
            iteration, as BP+OSD does. By default all shots run all iterations: belief matching wants posteriors
            that do not depend on where a shot happened to stop.

    Messages are kept within +-50, so no syndrome gives NaN or infinity, not even one that no fault set has.
    Single precision: log-odds agree with double precision to about 1e-4 until a shot's messages turn chaotic,
    which loopy propagation does where it does not converge.
    Shots go through in vectors of 16, so a single shot takes as long as 16. Safe to share between threads.
    """

    def __init__(
        self,
        h: sp.csc_array[Any] | sp.csr_array[Any],
        priors: npt.ArrayLike,
        *,
        iterations: int,
        average: int = 1,
        method: Method = "sum_product",
        scaling: float | Literal["adaptive"] = 1.0,
        early_stop: bool = False,
    ) -> None:
        rows: Any = h.tocsr(copy=True)
        rows.sum_duplicates()
        rows.data = rows.data % 2
        rows.eliminate_zeros()
        self.n_checks, self.n_faults = (int(n) for n in rows.shape)
        if iterations < 1:
            raise InputError(f"{iterations} iterations", where="iterations", hint="give 1 or more")
        if not 1 <= average <= iterations:
            raise InputError(
                f"average is {average} of {iterations} iterations",
                where="average",
                hint=f"give 1 to {iterations}",
            )
        if average > 1 and early_stop:
            raise InputError(
                "a shot that stops early has no last iterations to average",
                where="average",
                hint="leave average at 1, or early_stop at False",
            )
        if method not in _METHODS:
            raise InputError(
                f"no method {method!r}", where="method", hint=f"choose from {', '.join(_METHODS)}"
            )
        adaptive = scaling == "adaptive"
        if not adaptive and not (isinstance(scaling, int | float) and 0.0 < scaling <= 2.0):
            raise InputError(
                f"scaling is {scaling!r}", where="scaling", hint='give 0 < scaling <= 2, or "adaptive"'
            )
        if method == "sum_product" and scaling != 1.0:
            raise InputError("sum-product messages are not scaled", where="scaling", hint="leave it at 1")
        self.iterations = iterations
        self.average = average
        self.early_stop = early_stop
        self._settings = bp.Settings(
            iterations, average, early_stop, _METHODS[method], np.float32(0.0 if adaptive else scaling)
        )
        fault_of = rows.indices.astype(np.int32)
        by_fault = np.argsort(fault_of, kind="stable").astype(np.int32)
        starts = np.zeros(self.n_faults + 1, dtype=np.int32)
        np.cumsum(np.bincount(fault_of, minlength=self.n_faults), out=starts[1:])
        check_of = np.repeat(np.arange(self.n_checks, dtype=np.int32), np.diff(rows.indptr))
        checks = rows.indptr.astype(np.int32)
        prior = log_odds(np.clip(self._checked_priors(priors), _SMALLEST, 1.0 - _SMALLEST)).astype(np.float32)
        self._graph = bp.Graph(*map(read_only, (checks, fault_of, check_of, starts, by_fault)))
        prior = read_only(prior)
        first = bp.first_messages(self._graph, prior, self._settings)
        self._priors = bp.Priors(prior, read_only(first))

    def posteriors(
        self, detectors: U8, *, priors: npt.NDArray[np.floating] | None = None, threads: int | None = None
    ) -> Posteriors:
        """Run on packed shots [shots, ceil(n_checks / 8)].

        Args:
            priors: [shots, n_faults] probabilities of each shot, in place of the common ones.
            threads: by default one per available core. The answer does not depend on it.
        """
        packed = read_only(checked(detectors, self.n_checks, what="detectors"))
        shots = len(packed)
        own = np.empty((0, self.n_faults), dtype=np.float32)
        if priors is not None:
            own = np.ascontiguousarray(priors, dtype=np.float32)
            if own.shape != (shots, self.n_faults):
                raise InputError(
                    f"got priors of shape {own.shape}, expected [{shots}, {self.n_faults}]",
                    where="priors",
                    hint="one probability per shot and fault",
                )
        own = read_only(own)
        given = bp.Shots(packed, own)
        answer = Posteriors(
            np.empty((shots, self.n_faults), dtype=np.float32), np.empty(shots, dtype=np.bool_)
        )

        def work(start: int, stop: int) -> int:
            shot: int = bp.propagate(self._graph, self._priors, given, self._settings, start, stop, answer)
            return shot

        bad = [shot for shot in in_pieces(work, shots, threads, worth_a_thread=4 * LANES) if shot >= 0]
        if bad:
            shot = min(bad)
            fault = int(np.flatnonzero(~((own[shot] >= 0) & (own[shot] <= 1)))[0])
            raise InputError(
                f"the prior of fault {fault} in shot {shot} is {own[shot, fault]}",
                where="priors",
                hint="give probabilities between 0 and 1",
            )
        return answer

    def _checked_priors(self, priors: npt.ArrayLike) -> npt.NDArray[np.float64]:
        given = np.asarray(priors, dtype=np.float64)
        if given.shape != (self.n_faults,):
            raise InputError(
                f"got priors of shape {given.shape} for {self.n_faults} faults",
                where="priors",
                hint=f"give one probability per fault: [{self.n_faults}]",
            )
        wrong = np.flatnonzero(~((given >= 0) & (given <= 1)))
        if len(wrong):
            fault = int(wrong[0])
            raise InputError(
                f"the prior of fault {fault} is {given[fault]}",
                where="priors",
                hint="give probabilities between 0 and 1",
            )
        return given
