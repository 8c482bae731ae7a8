"""Per-shot matching weights from per-shot fault beliefs."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from autoqec.decoders.backends._kernels.edges import fold_faults
from autoqec.decoders.backends._kernels.pieces import in_pieces, read_only
from autoqec.decoders.backends._kernels.simd import LANES
from autoqec.envs.problem import MatchingGraph, log_odds
from autoqec.errors import InputError

F32 = npt.NDArray[np.float32]


class EdgeWeights:
    """Edge log-odds of a matching graph from fault log-odds: q_e = (1 - prod(1 - 2 q_f)) / 2 over the edge's faults.

    Edge log-odds stay within +-69, whatever the fault log-odds. Safe to share between threads.
    """

    def __init__(self, graph: MatchingGraph) -> None:
        self._n_faults = int(graph.fault_edges.shape[1])
        self._n_edges = graph.n_edges
        self._graph = (
            read_only(graph.fault_edges.indptr.astype(np.int32)),
            read_only(graph.fault_edges.indices.astype(np.int32)),
            read_only(log_odds(graph.priors).astype(np.float32)),
        )

    def __call__(self, fault_log_odds: F32, *, threads: int | None = 1) -> F32:
        """[shots, n_faults] -> [shots, n_edges], both log((1 - q) / q). Faults the decomposition left out add nothing.

        threads: None takes one per available core. The answer does not depend on it.
        """
        if fault_log_odds.ndim != 2 or fault_log_odds.shape[1] != self._n_faults:
            raise InputError(
                f"got fault beliefs of shape {fault_log_odds.shape}, expected [shots, {self._n_faults}]",
                where="soft_priors",
            )
        odds = read_only(np.ascontiguousarray(fault_log_odds, dtype=np.float32))
        out = np.empty((len(odds), self._n_edges), dtype=np.float32)
        in_pieces(
            lambda start, stop: fold_faults(odds, *self._graph, start, stop, out),
            len(odds),
            threads,
            worth_a_thread=16 * LANES,
        )
        return out


def checked_log_odds(priors: npt.NDArray[np.floating], shots: int, n_faults: int) -> F32:
    """Fault probabilities [shots, n_faults] as log-odds, or an InputError that names the first bad entry."""
    if priors.shape != (shots, n_faults):
        raise InputError(
            f"got priors of shape {priors.shape}, expected [{shots}, {n_faults}]",
            where="soft_priors",
            hint="one probability per shot and merged fault",
        )
    good = (priors >= 0) & (priors <= 1)
    if not good.all():
        shot, fault = np.argwhere(~good)[0].tolist()
        raise InputError(
            f"prior of fault {fault} in shot {shot} is {priors[shot, fault]}",
            where="soft_priors",
            hint="give probabilities between 0 and 1",
        )
    q = np.clip(priors.astype(np.float64), 1e-12, 1 - 1e-12)
    return log_odds(q).astype(np.float32)
