"""Which graphs the matcher takes."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from autoqec.envs.problem import BOUNDARY, I32
from autoqec.errors import InputError

MAX_DETECTORS = 1 << 20
"""Leaves at least 16 bits for the weights beside time and node in a 64-bit queue entry."""


def checked_ends(n: int, ends: I32) -> I32:
    if not 0 <= n <= MAX_DETECTORS:
        raise InputError(f"{n} detectors", where="n_detectors", hint=f"0 to {MAX_DETECTORS} are possible")
    ends = np.asarray(ends)
    if ends.dtype.kind not in "iu" or ends.ndim != 2 or ends.shape[1] != 2:
        raise InputError(
            f"got {ends.dtype} of shape {ends.shape}", where="ends", hint="give integers [n_edges, 2]"
        )
    wrong = (ends[:, 0] < 0) | (ends >= n).any(axis=1) | (ends[:, 1] < BOUNDARY) | (ends[:, 0] == ends[:, 1])
    if wrong.any():
        edge = int(np.flatnonzero(wrong)[0])
        raise InputError(
            f"edge {edge} joins {ends[edge, 0]} and {ends[edge, 1]}, with {n} detectors",
            where="ends",
            hint=f"join two different detectors below {n}, or put {BOUNDARY} second for the boundary",
        )
    return np.ascontiguousarray(ends, dtype=np.int32)


def checked_observables(n_edges: int, observables: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
    observables = np.asarray(observables)
    if observables.dtype != np.bool_ or observables.ndim != 2 or len(observables) != n_edges:
        raise InputError(
            f"got {observables.dtype} of shape {observables.shape} for {n_edges} edges",
            where="observables",
            hint=f"give bool [{n_edges}, n_observables]",
        )
    return observables
