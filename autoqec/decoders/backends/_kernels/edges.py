"""From fault log-odds to matching-edge log-odds, `LANES` shots side by side."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from autoqec.decoders.backends._kernels.pieces import sources_of
from autoqec.decoders.backends._kernels.simd import (
    LANES,
    LARGEST,
    bits,
    exp_minus,
    from_bits,
    greater,
    inverse,
    lesser,
    load,
    log,
    splat,
    store,
)

_F = np.float32
_SIGN = np.int32(-(2**31))
_MAGNITUDE = np.int32(2**31 - 1)
_CLIP = _F(LARGEST)
_FLOOR = _F(1e-30)  # of an edge's odds: its log-odds stay within +-69
_ONE = _F(1.0)
_ZERO = _F(0.0)


@njit
def _fold_faults(odds, indptr, indices, untouched, start, stop, out):  # type: ignore[no-untyped-def]
    """An edge flips when an odd number of its faults did.

    odds: [shots, n_faults] fault log-odds, of which the columns `indices[indptr[e]:indptr[e + 1]]` belong to edge e.
    out: [shots, n_edges] log-odds of each edge, `untouched` for an edge without faults.
    As in belief propagation a fault brings (exp(-|m|), 1) to the likelihoods (odd, even) of the parity, with the
    sign apart: sums of positive numbers keep full precision for faults that are nearly certain either way.
    """
    n_faults = odds.shape[1]
    n_edges = indptr.shape[0] - 1
    minority = np.zeros((n_faults, LANES), np.float32)  # exp(-|m|) with the sign of m
    folded = np.empty((n_edges, LANES), np.float32)
    for first in range(start, stop, LANES):
        lanes = min(LANES, stop - first)
        for tile in range(0, n_faults, LANES):  # transpositions: tile by tile they stay in the first cache
            for s in range(lanes):
                for f in range(tile, min(tile + LANES, n_faults)):
                    minority[f, s] = odds[first + s, f]
        for f in range(n_faults):
            m = bits(load(minority, f))
            e = exp_minus(lesser(from_bits(m & _MAGNITUDE), _CLIP))
            store(minority, f, from_bits(bits(e) ^ (m & _SIGN)))
        for e in range(n_edges):
            begin, end = indptr[e], indptr[e + 1]
            if begin == end:
                store(folded, e, splat(untouched[e]))
                continue
            signed = bits(load(minority, indices[begin]))
            sign = signed
            odd = from_bits(signed & _MAGNITUDE)
            even = splat(_ONE)
            for k in range(begin + 1, end):
                signed = bits(load(minority, indices[k]))
                sign = sign ^ signed
                a = from_bits(signed & _MAGNITUDE)
                odd, even = odd + even * a, even + odd * a
                if (k - begin) & 31 == 31:  # each fault at most doubles the pair
                    odd, even = odd * inverse(even), splat(_ONE)
            weight = greater(log(even * inverse(greater(odd, _FLOOR))), _ZERO)
            store(folded, e, from_bits(bits(weight) ^ (sign & _SIGN)))
        for tile in range(0, n_edges, LANES):
            for s in range(lanes):
                for e in range(tile, min(tile + LANES, n_edges)):
                    out[first + s, e] = folded[e, s]


def _with_disk_cache(sources: str) -> Any:
    @njit(cache=True, nogil=True)
    def fold_faults(*args):  # type: ignore[no-untyped-def]
        if sources:
            _fold_faults(*args)

    return fold_faults


fold_faults = _with_disk_cache(sources_of("simd.py"))
