"""Log-odds of matching edges from those of their faults, and the gradients, `LANES` shots side by side.

An edge flips if an odd number of its faults did. With e = exp(-|fault|) the parity likelihoods (odd, even) of the faults so far become
(odd + even e, even + odd e), and the edge has the size log(even / odd). Its derivative by a fault is T' (1 - t^2) / (1 - T^2), with t the
tanh(fault / 2) of that fault, T' the product of the others', from both ends, and T that of all.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit

from autoqec.decoders.backends._kernels.lanes import give, take
from autoqec.decoders.backends._kernels.pieces import sources_of
from autoqec.decoders.backends._kernels.rows import add, clear
from autoqec.decoders.backends._kernels.simd import (
    LANES,
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
    where_not_above,
)

_F = np.float32
_SIGN = np.int32(-(2**31))
_MAGNITUDE = np.int32(2**31 - 1)
_ZERO = _F(0.0)
_ONE = _F(1.0)
_TINY = _F(1e-25)
_CLIP = _F(25.0)
_BELOW_CLIP = np.nextafter(_CLIP, _ZERO)
_CAP = _F(-np.log(1e-7))  # the reference floors tanh(x / 2) at 1e-7


class FaultsOfEdges(NamedTuple):
    """fault: those of edge i from edge_ptr[i] on. untouched: [edge] the log-odds of an edge without faults."""

    edge_ptr: Any
    fault: Any
    untouched: Any


@njit
def _size(x):  # type: ignore[no-untyped-def]
    return lesser(from_bits(bits(x) & _MAGNITUDE), _CLIP)


def _compiled(sources: str) -> tuple[Any, Any]:
    @njit(cache=True, nogil=True)
    def forward(table, odds, start, stop, answer):  # type: ignore[no-untyped-def]
        """answer [edge, shot] from odds [fault, shot], of blocks `start <= block < stop` of LANES shots."""
        edge_ptr, fault, untouched = table
        given = np.empty((odds.shape[0], LANES), np.float32)
        out = np.empty((untouched.shape[0], LANES), np.float32)
        for block in range(start, stop if sources else start):
            take(odds, block * LANES, given)
            for edge in range(untouched.shape[0]):
                odd, even = splat(_ZERO), splat(_ONE)
                parity = bits(odd)
                count = 0
                for k in range(edge_ptr[edge], edge_ptr[edge + 1]):
                    x = load(given, fault[k])
                    parity = parity ^ bits(x)
                    e = exp_minus(_size(x))
                    odd, even = odd + even * e, even + odd * e
                    count += 1
                    if count & 31 == 0:  # each fault at most doubles the pair
                        odd, even = odd * inverse(even), splat(_ONE)
                size = lesser(log(even * inverse(greater(odd, _TINY))), _CAP)
                whole = from_bits(bits(size) ^ (parity & _SIGN))
                if count == 0:
                    whole = splat(untouched[edge])
                store(out, edge, whole)
            give(out, block * LANES, answer)

    @njit(cache=True, nogil=True)
    def backward(table, odds, upstream, start, stop, gradient):  # type: ignore[no-untyped-def]
        """gradient [fault, shot] from upstream [edge, shot]."""
        edge_ptr, fault, untouched = table
        given = np.empty((odds.shape[0], LANES), np.float32)
        above = np.empty((untouched.shape[0], LANES), np.float32)
        by_given = np.empty((odds.shape[0], LANES), np.float32)
        most = 0
        for edge in range(untouched.shape[0]):
            most = max(most, edge_ptr[edge + 1] - edge_ptr[edge])
        scratch = np.empty((3 * most, LANES), np.float32)
        for block in range(start, stop if sources else start):
            take(odds, block * LANES, given)
            take(upstream, block * LANES, above)
            clear(by_given)
            for edge in range(untouched.shape[0]):
                first = edge_ptr[edge]
                degree = edge_ptr[edge + 1] - first
                odd, even = splat(_ZERO), splat(_ONE)
                parity = bits(odd)
                for k in range(degree):
                    x = load(given, fault[first + k])
                    parity = parity ^ bits(x)
                    e = exp_minus(_size(x))
                    store(scratch, 3 * k, e)
                    store(scratch, 3 * k + 1, odd)
                    store(scratch, 3 * k + 2, even)
                    odd, even = odd + even * e, even + odd * e
                    if k & 31 == 31:
                        odd, even = odd * inverse(even), splat(_ONE)
                r = greater(odd * inverse(even), _TINY)
                inside = where_not_above(log(inverse(r)), splat(_CAP), load(above, edge), splat(_ZERO))
                scale = inside * (r + _ONE) * (r + _ONE) * inverse(r)
                odd, even = splat(_ZERO), splat(_ONE)
                for k in range(degree - 1, -1, -1):
                    x = load(given, fault[first + k])
                    e = load(scratch, 3 * k)
                    odd_before, even_before = load(scratch, 3 * k + 1), load(scratch, 3 * k + 2)
                    odd_others = odd_before * even + even_before * odd
                    even_others = even_before * even + odd_before * odd
                    product = (even_others - odd_others) * inverse(even_others + odd_others)
                    share = inverse(e + _ONE)
                    by_x = scale * product * (e * share * share)
                    by_x = from_bits(bits(by_x) ^ ((parity ^ bits(x)) & _SIGN))
                    add(
                        by_given,
                        fault[first + k],
                        where_not_above(_size(x), splat(_BELOW_CLIP), by_x, splat(_ZERO)),
                    )
                    odd, even = odd + even * e, even + odd * e
                    if k & 31 == 0:
                        odd, even = odd * inverse(even), splat(_ONE)
            give(by_given, block * LANES, gradient)

    return forward, backward


forward, backward = _compiled(sources_of("simd.py", "lanes.py", "rows.py"))
