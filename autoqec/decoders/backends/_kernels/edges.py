"""From fault log-odds to matching-edge log-odds, shot by shot."""

from __future__ import annotations

import numpy as np
from numba import njit


@njit(cache=True, nogil=True)
def fold_faults(minority, flipped, indptr, indices, untouched, out):  # type: ignore[no-untyped-def]
    """An edge flips when an odd number of its faults did.

    minority: [shots, n_faults] probability of each fault's less likely value; flipped: [shots, n_faults] whether the
    likelier value is "happened". out: [shots, n_edges] log-odds of each edge, `untouched` for an edge without faults.
    Working with the minority value keeps full precision for faults that are nearly certain either way.
    """
    one, half = np.float32(1.0), np.float32(0.5)
    floor = np.float32(1e-30)
    n_edges = len(indptr) - 1
    for shot in range(out.shape[0]):
        for e in range(n_edges):
            begin, end = indptr[e], indptr[e + 1]
            if begin == end:
                out[shot, e] = untouched[e]
                continue
            odd = np.float32(0.0)
            sign = False
            for k in range(begin, end):
                a = minority[shot, indices[k]]
                odd = odd * (one - a) + a * (one - odd)
                sign ^= flipped[shot, indices[k]]
            odd = min(max(odd, floor), half)
            weight = np.log((one - odd) / odd)
            out[shot, e] = -weight if sign else weight
