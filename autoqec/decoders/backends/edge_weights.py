"""Per-shot matching weights from per-shot fault beliefs."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from autoqec.decoders.backends._kernels.edges import fold_faults
from autoqec.envs.problem import MatchingGraph, log_odds
from autoqec.errors import InputError

F32 = npt.NDArray[np.float32]


class EdgeWeights:
    """Edge log-odds of a matching graph from fault log-odds: q_e = (1 - prod(1 - 2 q_f)) / 2 over the edge's faults."""

    def __init__(self, graph: MatchingGraph) -> None:
        self._indptr = graph.fault_edges.indptr.astype(np.int64)
        self._indices = graph.fault_edges.indices.astype(np.int64)
        self._n_faults = int(graph.fault_edges.shape[1])
        self._untouched = log_odds(graph.priors).astype(np.float32)

    def __call__(self, fault_log_odds: F32) -> F32:
        """[shots, n_faults] -> [shots, n_edges], both log((1 - q) / q). Faults the decomposition left out add nothing."""
        if fault_log_odds.ndim != 2 or fault_log_odds.shape[1] != self._n_faults:
            raise InputError(
                f"got fault beliefs of shape {fault_log_odds.shape}, expected [shots, {self._n_faults}]",
                where="soft_priors",
            )
        odds = np.exp(-np.abs(fault_log_odds, dtype=np.float32))
        out = np.empty((len(fault_log_odds), len(self._untouched)), dtype=np.float32)
        fold_faults(odds / (1 + odds), fault_log_odds < 0, self._indptr, self._indices, self._untouched, out)
        return out


def checked_log_odds(priors: npt.NDArray[np.floating], shots: int, n_faults: int) -> F32:
    """Fault probabilities [shots, n_faults] as log-odds, or an InputError that names the first bad entry."""
    if priors.shape != (shots, n_faults):
        raise InputError(
            f"got priors of shape {priors.shape}, expected [{shots}, {n_faults}]",
            where="soft_priors",
            mend="one probability per shot and merged fault",
        )
    good = (priors >= 0) & (priors <= 1)
    if not good.all():
        shot, fault = np.argwhere(~good)[0].tolist()
        raise InputError(
            f"prior of fault {fault} in shot {shot} is {priors[shot, fault]}",
            where="soft_priors",
            mend="give probabilities between 0 and 1",
        )
    q = np.clip(priors.astype(np.float64), 1e-12, 1 - 1e-12)
    return log_odds(q).astype(np.float32)
