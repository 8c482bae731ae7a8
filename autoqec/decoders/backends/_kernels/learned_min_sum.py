"""The min-sum rule of learned belief propagation and its gradient, `LANES` shots side by side.

    c = sign * smallest |m'| over the other links m' of the check

Every link but the smallest sees the smallest, and that one sees the second: going back, these two get all there is. A message
that was clamped passes nothing on; it is the smallest only where all are.

Weights and damping are those of `learned_bp`, written out here as there: shared as functions they halve the speed of both rules.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from autoqec.decoders.backends._kernels.simd import (
    bits,
    from_bits,
    greater,
    lesser,
    load,
    splat,
    store,
    sum_lanes,
    where_not_above,
)

_F = np.float32
_SIGN = np.int32(-(2**31))
_MAGNITUDE = np.int32(2**31 - 1)
_ZERO = _F(0.0)
_HALF = _F(0.5)
_ONE = _F(1.0)
_CLIP = _F(25.0)
_BELOW_CLIP = np.nextafter(_CLIP, _ZERO)
_SMALLEST = _F(2.0)
_SECOND = _F(1.0)
_BETWEEN = _F(1.5)


@njit
def update_checks(check_ptr, syn, weight, g, message, check, c0, b0, keep, raw, rank, r0):  # type: ignore[no-untyped-def]
    """Messages to checks become weighted messages to faults, in rows c0 on of `check`; those before begin at b0.

    If `keep`, rows r0 on get what `check_gradients` needs: `raw`, the messages to faults before weights, and `rank`, which says
    of the messages to checks whether they were the smallest or the second, with their sign; zero for all others.
    """
    for c in range(check_ptr.shape[0] - 1):
        first = check_ptr[c]
        degree = check_ptr[c + 1] - first
        parity = load(syn, c)
        smallest, second = splat(_CLIP), splat(_CLIP)
        at_smallest, at_second = splat(_F(-1.0)), splat(_F(-1.0))
        for k in range(degree):
            m = bits(load(message, first + k))
            parity = parity ^ m
            size = from_bits(m & _MAGNITUDE)
            here = splat(_F(k))
            at_second = where_not_above(
                smallest, size, where_not_above(second, size, at_second, here), at_smallest
            )
            at_smallest = where_not_above(smallest, size, at_smallest, here)
            second = lesser(second, greater(smallest, size))
            smallest = lesser(smallest, size)
        for k in range(degree):
            link = first + k
            m = bits(load(message, link))
            here = splat(_F(k))
            is_smallest = _same(at_smallest, here)
            size = where_not_above(splat(_HALF), is_smallest, second, smallest)
            answer = from_bits(bits(size) ^ ((parity ^ m) & _SIGN))
            if keep:
                place = is_smallest * _SMALLEST + _same(at_second, here) * _SECOND
                own = from_bits(m & _MAGNITUDE)
                place = where_not_above(own, splat(_BELOW_CLIP), place, splat(_ZERO))
                store(raw, r0 + link, answer)
                store(rank, r0 + link, from_bits(bits(place) ^ (m & _SIGN)))
            answer = answer * weight[link]
            if g != _ZERO:
                answer = answer * (_ONE - g) + load(check, b0 + link) * g
            store(check, c0 + link, answer)


@njit
def _same(a, b):  # type: ignore[no-untyped-def]
    """1 where two places are one, else 0."""
    apart = from_bits(bits(a - b) & _MAGNITUDE)
    return where_not_above(apart, splat(_HALF), splat(_ONE), splat(_ZERO))


@njit
def check_gradients(  # type: ignore[no-untyped-def]
    check_ptr, weight, g, damped, check, b0, raw, rank, r0, gradient, carry, weight_gradient
):  # fmt: skip
    """`gradient` [link, lane] by the messages to faults becomes that by the messages to checks.

    Adds to weight_gradient [link]; `carry` gets what goes to the messages to faults of the iteration before. Returns
    the gradient by the damping, lane by lane.
    """
    by_damping = splat(_ZERO)
    for c in range(check_ptr.shape[0] - 1):
        first = check_ptr[c]
        last = check_ptr[c + 1]
        by_smallest, by_second = splat(_ZERO), splat(_ZERO)
        for link in range(first, last):
            by_link = load(gradient, link)
            value = load(raw, r0 + link)
            if damped:
                by_damping = by_damping + by_link * (load(check, b0 + link) - value * weight[link])
                store(carry, link, by_link * g)
                by_link = by_link * (_ONE - g)
            weight_gradient[link] += sum_lanes(by_link * value)
            by_size = from_bits(bits(by_link * weight[link]) ^ (bits(value) & _SIGN))
            place = from_bits(bits(load(rank, r0 + link)) & _MAGNITUDE)
            sees_smallest = where_not_above(place, splat(_BETWEEN), by_size, splat(_ZERO))
            by_smallest = by_smallest + sees_smallest
            by_second = by_second + (by_size - sees_smallest)
        for link in range(first, last):
            signed = bits(load(rank, r0 + link))
            place = from_bits(signed & _MAGNITUDE)
            passed = where_not_above(place, splat(_BETWEEN), by_second, by_smallest)
            passed = where_not_above(place, splat(_HALF), splat(_ZERO), passed)
            store(gradient, link, from_bits(bits(passed) ^ (signed & _SIGN)))
    return by_damping
