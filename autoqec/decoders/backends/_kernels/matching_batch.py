"""Many shots: weights to integers, negative edges flipped beforehand, and the answers packed."""

from __future__ import annotations

import hashlib
import math
from pathlib import Path
from typing import Any

from numba import njit

from autoqec.decoders.backends._kernels.matching_solve import (
    ARENA_FULL,
    SOLVED,
    add_defect,
    choose_edges,
    clear,
    grow,
    mark_links,
    start,
)
from autoqec.decoders.backends._kernels.matching_state import NEVER, as_memory

PLAIN, SIGNED, BAD_WEIGHT = 0, 1, 3


@njit(nogil=True)
def survey(bits, infinity, mantissa_bits):
    """(kind, exponent) of one shot's weights: every finite one is below 2 ** exponent.

    BAD_WEIGHT: NaN or -inf among them. SIGNED: perhaps a negative one. Works on the bit patterns, which order
    like the magnitudes, because integer reductions vectorise where float ones do not.
    """
    low = 0
    top = 0
    below_sign = infinity | (infinity - 1)
    for e in range(bits.shape[0]):
        low = min(low, bits[e])
        top = max(top, bits[e] & below_sign)
    if top > infinity:
        return BAD_WEIGHT, 0
    if top == infinity:
        top = 0
        for e in range(bits.shape[0]):
            magnitude = bits[e] & below_sign
            if magnitude != infinity:
                top = max(top, magnitude)
            elif bits[e] < 0:
                return BAD_WEIGHT, 0
    bias = (infinity >> (mantissa_bits + 1)) - 1
    return (SIGNED if low < 0 else PLAIN), (top >> mantissa_bits) - bias


@njit(nogil=True)
def scale_weights(a, values, exponent, weight_bits):
    """Even integers proportional to |weight|, by a power of two: weights on a dyadic grid stay exact."""
    scale = math.ldexp(1.0, min(weight_bits - 1 - exponent, 1000))
    weight = a.weight
    for e in range(values.shape[0]):
        magnitude = abs(values[e])
        weight[e] = 2 * int(magnitude * scale + 0.5) if magnitude != math.inf else NEVER


@njit(nogil=True)
def toggle(e, masks, prediction, chosen):
    for i in range(masks.shape[1]):
        prediction[i] ^= masks[e, i]
    if chosen.shape[0] > 0:
        chosen[e >> 3] ^= 1 << (e & 7)


@njit(nogil=True)
def flip_negative(g, a, values, masks, prediction, chosen):
    syndrome, ends = a.syndrome, g.ends
    for e in range(values.shape[0]):
        if values[e] < 0:
            u, v = ends[e, 0], ends[e, 1]
            syndrome[u >> 3] ^= 1 << (u & 7)
            syndrome[v >> 3] ^= 1 << (v & 7)
            toggle(e, masks, prediction, chosen)


@njit(nogil=True)
def total_weight(values, chosen):
    total = 0.0
    for i in range(chosen.shape[0]):
        byte = chosen[i]
        e = 8 * i
        while byte != 0:
            if byte & 1:
                total += values[e]
            byte >>= 1
            e += 1
    return total


@njit(nogil=True)
def match_range(g, a, shots, values, bits, infinity, mantissa_bits, masks, lo, hi, predictions, chosen, totals, status):
    m = as_memory(g, a)
    syndrome = a.syndrome
    shared = values.shape[0] == 1
    scaled = False
    kind = PLAIN
    exponent = 0
    for s in range(lo, hi):
        row = 0 if shared else s
        if not shared or s == lo:
            kind, exponent = survey(bits[row], infinity, mantissa_bits)
            scaled = False
        if kind == BAD_WEIGHT:
            status[s] = BAD_WEIGHT
            continue
        for i in range(shots.shape[1]):
            syndrome[i] = shots[s, i]
        prediction = predictions[s]
        prediction[:] = 0
        flips = chosen[s] if chosen.shape[0] > 0 else chosen[:, 0]
        flips[:] = 0
        if kind == SIGNED:
            flip_negative(g, a, values[row], masks, prediction, flips)
        start(m)
        n_defects = 0
        for i in range(shots.shape[1]):
            byte = syndrome[i]
            u = 8 * i
            while byte != 0:
                if byte & 1 and u < m.n:
                    add_defect(m, u)
                    n_defects += 1
                byte >>= 1
                u += 1
        if n_defects > 0:
            if not scaled:
                scale_weights(a, values[row], exponent, g.weight_bits)
                scaled = True
            outcome = grow(m)
            if outcome == SOLVED:
                mark_links(m, n_defects)
                for i in range(choose_edges(m)):
                    toggle(a.chosen[i], masks, prediction, flips)
            clear(m)
            if outcome == ARENA_FULL:
                return s
            status[s] = outcome
        if chosen.shape[0] > 0:
            totals[s] = total_weight(values[row], flips)
    return hi


def _kernel(sources: str) -> Any:
    # numba's disk cache looks for changes in this file only; the closure makes it depend on all kernel sources.
    @njit(nogil=True, cache=True)
    def match_shots(
        g, a, shots, values, bits, infinity, mantissa_bits, masks, lo, hi, predictions, chosen, totals, status
    ):
        """Match shots lo..hi - 1; returns the first shot not done, below `hi` if the arena was too small for it."""
        if sources:
            return match_range(
                g, a, shots, values, bits, infinity, mantissa_bits, masks, lo, hi, predictions, chosen, totals, status
            )
        return lo

    return match_shots


def _fingerprint() -> str:
    digest = hashlib.sha256()
    for path in sorted(Path(__file__).parent.glob("matching*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()


match_shots = _kernel(_fingerprint())
