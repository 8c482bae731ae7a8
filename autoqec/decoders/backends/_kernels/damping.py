"""Weights and damping of the messages from checks, and their reverse: the same whatever rule made the messages."""

from __future__ import annotations

import numpy as np
from numba import njit

from autoqec.decoders.backends._kernels.simd import load, store, sum_lanes

_ZERO = np.float32(0.0)
_ONE = np.float32(1.0)


@njit
def damp(value, weight, g, check, before):  # type: ignore[no-untyped-def]
    """(1 - g) w c + g k of a link, with k in row `before` of `check`; that row is read only where there is damping."""
    value = value * weight
    if g != _ZERO:
        value = value * (_ONE - g) + load(check, before) * g
    return value


@njit
def undamp(  # type: ignore[no-untyped-def]
    link, value, weight, g, damps, check, before, gradient, carry, weight_gradient, by_damping
):  # fmt: skip
    """The gradient by w c of a link, and `by_damping` with its part.

    Adds to weight_gradient [link]; `carry` gets what goes to the message of the iteration before.
    """
    by_link = load(gradient, link)
    if damps:
        by_damping = by_damping + by_link * (load(check, before) - value * weight)
        store(carry, link, by_link * g)
        by_link = by_link * (_ONE - g)
    weight_gradient[link] += sum_lanes(by_link * value)
    return by_link * weight, by_damping
