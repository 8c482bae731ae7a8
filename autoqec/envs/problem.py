"""DecodingProblem: what a decoder may know about one environment at one physical error rate.

Arrays follow the detector error model after merging faults with equal symptoms. Shots travel bit-packed
(`uint8`, little bit order, as in Stim and sinter), one row per shot.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

F64 = npt.NDArray[np.float64]
I32 = npt.NDArray[np.int32]
U8 = npt.NDArray[np.uint8]
BOUNDARY = -1


@dataclass(frozen=True, eq=False)
class MatchingGraph:
    """The graph on which minimum-weight perfect matching runs.

    ends: [n_edges, 2] detectors of each edge, `ends[e, 0] >= 0`; `ends[e, 1] == BOUNDARY` marks a boundary edge.
    priors: [n_edges] probability that an odd number of the edge's faults happened.
    observables: [n_edges, n_observables] bool, which observables the edge flips.
    fault_edges: [n_edges, n_faults] CSR incidence: the edges that each merged fault decomposes into.

    At most one edge joins two nodes. Parallel edges with different observables cannot be told apart by
    matching; the likelier mask is kept and `conflicts` counts how many edges had one.
    """

    ends: I32
    priors: F64
    observables: npt.NDArray[np.bool_]
    fault_edges: sp.csr_array[Any]
    conflicts: int = 0

    @property
    def n_edges(self) -> int:
        return int(self.ends.shape[0])


class CheckMatrix:
    """What has a check matrix `h`: [n_checks, n_faults], and priors [n_faults].

    rates: [n_faults] how often each fault happens for each unit of p, `flip_rates` at the first p of the environment's sweep,
    whatever p the priors are for: what looks alike does so at every p. None where no environment made it.
    """

    h: sp.csc_array[Any]
    priors: F64
    rates: F64 | None

    @property
    def n_checks(self) -> int:
        return int(self.h.shape[0])

    @property
    def n_faults(self) -> int:
        return int(self.h.shape[1])


@dataclass(frozen=True, eq=False)
class JointModel(CheckMatrix):
    """All faults on all detectors, where the backend decodes only some of the detectors.

    seen: [n_checks] bool, the detectors that the backend decodes; the others are the predecoder's context.
    h, l, priors: as in `DecodingProblem`, of the joint faults.
    fault_of: [n_joint] which fault of the problem the backend sees of each joint fault; -1 where it sees nothing.
    """

    seen: npt.NDArray[np.bool_]
    h: sp.csc_array[Any]
    l: sp.csc_array[Any]
    priors: F64
    fault_of: I32
    rates: F64 | None = None


@dataclass(frozen=True, eq=False)
class DecodingProblem(CheckMatrix):
    """H, L and priors of one environment at one p, plus the matching graph where every fault is graph-like.

    h: [n_checks, n_faults] CSC over GF(2) (`uint8` ones): which detectors each fault flips.
    l: [n_observables, n_faults] CSC: which observables each fault flips.
    priors: [n_faults] probabilities in (0, 1/2].
    detector_coords: [n_checks, c] float, NaN-padded; detector_basis: [n_checks] of "X", "Z" or "?".
    dem: the detector error model as text, faults decomposed where `graph` is present.
    joint: where the predecoder sees more detectors than the backend. The problem's faults are then what the backend sees of
        the joint ones; the rows of `h` that it does not see are empty.
    """

    name: str
    p: float
    h: sp.csc_array[Any]
    l: sp.csc_array[Any]
    priors: F64
    detector_coords: F64
    detector_basis: npt.NDArray[np.str_]
    dem: str
    graph: MatchingGraph | None = None
    joint: JointModel | None = None
    rates: F64 | None = None

    @property
    def n_observables(self) -> int:
        return int(self.l.shape[0])

    @property
    def sampled(self) -> DecodingProblem | JointModel:
        """The model that shots are drawn from: the joint one where there is one."""
        return self if self.joint is None else self.joint

    def backend_shots(self, detectors: U8) -> U8:
        """Packed shots as the backend sees them: the detectors that it does not decode are zero."""
        if self.joint is None:
            return detectors
        return detectors & np.packbits(self.joint.seen, bitorder="little")

    @property
    def is_matchable(self) -> bool:
        """Whether every fault flips at most two detectors of each basis: what matching is made for.

        Stim can decompose other models, too (a colour code, say), but matching decodes them poorly.
        """
        rows = self.h.tocsr()
        return all(
            int(rows[np.flatnonzero(self.detector_basis == basis)].sum(axis=0).max(initial=0)) <= 2
            for basis in np.unique(self.detector_basis)
        )


def flip_rates(priors: F64, p: float) -> F64:
    """-log(1 - 2 q) / 2 p: what adds up where faults with the same symptom are merged, and hardly depends on p."""
    return np.asarray(-np.log1p(-2.0 * np.minimum(priors, 0.5 - 1e-15)) / (2.0 * p))


def log_odds(priors: npt.ArrayLike) -> F64:
    """log((1 - p) / p), the weight of a fault or edge; positive below 1/2."""
    q = np.asarray(priors, dtype=np.float64)
    return np.log1p(-q) - np.log(q)
