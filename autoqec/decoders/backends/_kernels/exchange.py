"""What one half of a CSS code tells the other, `LANES` shots side by side, and its gradient. See `modules.exchange`.

x = s E                                    evidence of a class of the half that speaks, scaled
v = 1 - k tanh(x / 2)                      k: of the other faults of that class
q = p v / (p v + (1 - p) (2 - v))          a fault of that class
Q = Q + q - 2 Q q                          the class of the half that listens: an odd number of its faults
answer = log((1 - Q) / Q)
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit

from autoqec.decoders.backends._kernels.lanes import give, take
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
    sum_lanes,
    where_not_above,
)

_F = np.float32
_MAGNITUDE = np.int32(2**31 - 1)
_ZERO = _F(0.0)
_HALF = _F(0.5)
_ONE = _F(1.0)
_TWO = _F(2.0)
_LEAST = _F(1e-10)
_MOST = _F(1.0 - 1e-7)
_SURE = _F(LARGEST)


class Faults(NamedTuple):
    """Faults that both halves see, sorted by the class that listens, from ptr [class + 1] on. source: [fault] the class that
    speaks.
    """

    ptr: Any
    source: Any


class Odds(NamedTuple):
    """probability, others: [fault, 1 or shots] p and 1 - k. alone: [class, 1 or shots] that an odd number of the faults happened
    that the speaking half does not see.
    """

    probability: Any
    others: Any
    alone: Any


@njit
def _doubt(x):  # type: ignore[no-untyped-def]
    """1 - tanh(x / 2), exact at both ends."""
    e = exp_minus(lesser(from_bits(bits(x) & _MAGNITUDE), _SURE))
    share = (e + e) * inverse(e + _ONE)
    return where_not_above(splat(_ZERO), x, share, _TWO - share)


@njit
def _of_shots(table, first, rows):  # type: ignore[no-untyped-def]
    """A table for the lanes of a block: as it is if all shots share it."""
    if table.shape[1] == 1:
        for row in range(table.shape[0]):
            store(rows, row, splat(table[row, 0]))
    else:
        take(table, first, rows)


@njit
def _posterior(p, others, doubt):  # type: ignore[no-untyped-def]
    """q, and dq / dv."""
    v = doubt + (_ONE - doubt) * others
    happened = p * v
    share = inverse(happened + (_ONE - p) * (_TWO - v))
    return happened * share, (p * (_ONE - p) * _TWO) * share * share


@njit
def _forward(faults, odds, evidence, scale, start, stop, answer):  # type: ignore[no-untyped-def]
    ptr, source = faults
    n_sources, n_classes = evidence.shape[0], answer.shape[0]
    doubt = np.empty((n_sources, LANES), np.float32)
    total = np.empty((n_classes, LANES), np.float32)
    p = np.empty((source.shape[0], LANES), np.float32)
    others = np.empty((source.shape[0], LANES), np.float32)
    alone = np.empty((n_classes, LANES), np.float32)
    shared = odds.probability.shape[1] == 1
    for block in range(start, stop):
        if block == start or not shared:
            _of_shots(odds.probability, block * LANES, p)
            _of_shots(odds.others, block * LANES, others)
            _of_shots(odds.alone, block * LANES, alone)
        take(evidence, block * LANES, doubt)
        for b in range(n_sources):
            store(doubt, b, _doubt(load(doubt, b) * scale))
        for a in range(n_classes):
            odd = load(alone, a)
            for f in range(ptr[a], ptr[a + 1]):
                q, _ = _posterior(load(p, f), load(others, f), load(doubt, source[f]))
                odd = odd + q - (odd + odd) * q
            odd = greater(lesser(odd, _MOST), _LEAST)
            store(total, a, log((_ONE - odd) * inverse(odd)))
        give(total, block * LANES, answer)


@njit
def _backward(faults, odds, evidence, scale, upstream, bounds, start, stop, by_evidence, by_scale):  # type: ignore[no-untyped-def]
    """Gradients of groups `start <= group < stop`; group i has the blocks from bounds[i] to bounds[i + 1]."""
    ptr, source = faults
    n_sources, n_classes = evidence.shape[0], upstream.shape[0]
    largest = 0
    for a in range(n_classes):
        largest = max(largest, ptr[a + 1] - ptr[a])
    given = np.empty((n_sources, LANES), np.float32)
    doubt = np.empty((n_sources, LANES), np.float32)
    gradient = np.empty((n_sources, LANES), np.float32)
    above = np.empty((n_classes, LANES), np.float32)
    p = np.empty((source.shape[0], LANES), np.float32)
    others = np.empty((source.shape[0], LANES), np.float32)
    alone = np.empty((n_classes, LANES), np.float32)
    scratch = np.empty((3 * largest, LANES), np.float32)
    for group in range(start, stop):
        for block in range(bounds[group], bounds[group + 1]):
            _of_shots(odds.probability, block * LANES, p)
            _of_shots(odds.others, block * LANES, others)
            _of_shots(odds.alone, block * LANES, alone)
            take(evidence, block * LANES, given)
            take(upstream, block * LANES, above)
            gradient[:] = _ZERO
            for b in range(n_sources):
                store(doubt, b, _doubt(load(given, b) * scale))
            for a in range(n_classes):
                first, last = ptr[a], ptr[a + 1]
                # With even - odd as the measure of a set of faults, sets multiply; each fault is asked what the others have.
                before = _ONE - _TWO * load(alone, a)
                for f in range(first, last):
                    q, slope = _posterior(load(p, f), load(others, f), load(doubt, source[f]))
                    k = 3 * (f - first)
                    store(scratch, k, _ONE - _TWO * q)
                    store(scratch, k + 1, before)
                    store(scratch, k + 2, slope)
                    before = before * (_ONE - _TWO * q)
                odd = (_ONE - before) * _HALF
                inside = where_not_above(
                    odd,
                    splat(_LEAST),
                    splat(_ZERO),
                    where_not_above(splat(_MOST), odd, splat(_ZERO), splat(_ONE)),
                )
                by_odd = _ZERO - load(above, a) * inside * inverse(greater(odd * (_ONE - odd), _LEAST))
                after = splat(_ONE)
                for f in range(last - 1, first - 1, -1):
                    k = 3 * (f - first)
                    by_q = by_odd * load(scratch, k + 1) * after
                    after = after * load(scratch, k)
                    b = source[f]
                    by_doubt = by_q * load(scratch, k + 2) * (_ONE - load(others, f))
                    store(gradient, b, load(gradient, b) + by_doubt)
            total = splat(_ZERO)
            for b in range(n_sources):
                d = load(doubt, b)
                by_x = _ZERO - load(gradient, b) * d * (_TWO - d) * _HALF
                total = total + by_x * load(given, b)
                store(gradient, b, by_x * scale)
            by_scale[group] += sum_lanes(total)
            give(gradient, block * LANES, by_evidence)


def _with_disk_cache(sources: str) -> tuple[Any, Any]:
    @njit(cache=True, nogil=True)
    def forward(*args):  # type: ignore[no-untyped-def]
        if sources:
            _forward(*args)

    @njit(cache=True, nogil=True)
    def backward(*args):  # type: ignore[no-untyped-def]
        if sources:
            _backward(*args)

    return forward, backward


forward, backward = _with_disk_cache(sources_of("simd.py", "lanes.py"))
