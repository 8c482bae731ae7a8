"""Many shots: weights to integers, negative edges flipped beforehand, and the answers packed."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

from numba import njit

from autoqec.decoders.backends._kernels.matching_grow import (
    ARENA_FULL,
    SOLVED,
    add_defect,
    clear,
    grow,
    start,
)
from autoqec.decoders.backends._kernels.matching_read import choose_edges, mark_links
from autoqec.decoders.backends._kernels.matching_state import NEVER, Arena, Graph, as_memory, compiled
from autoqec.decoders.backends._kernels.pieces import sources_of

PLAIN, SIGNED, BAD_WEIGHT = 0, 1, 3
INFINITY = 0x7FF << 52
MAGNITUDE = (1 << 63) - 1


class Batch(NamedTuple):
    """Shots and where their answers go.

    detectors: [shots, ceil(n / 8)] packed. single, double: weights [shots, n_edges], or [1, n_edges] for all
    shots, in the precision in which they were given; the other one has no rows. masks: [n_edges,
    ceil(n_obs / 8)] packed observables of the edges.
    observables: [shots, ceil(n_obs / 8)]. edges: [shots, ceil(n_edges / 8)], or [1, 0] if not wanted.
    totals: [shots] weight of `edges`. status: [shots] SOLVED, UNMATCHABLE or BAD_WEIGHT.
    """

    detectors: Any
    single: Any
    double: Any
    masks: Any
    observables: Any
    edges: Any
    totals: Any
    status: Any


class Answer(NamedTuple):
    """The answer to one shot: rows of `observables` and `edges`, the latter empty if not wanted."""

    masks: Any
    observables: Any
    edges: Any


@compiled
def load_weights(a: Arena, b: Batch, row: int) -> None:
    value = a.value
    if b.single.shape[0] > 0:
        for e in range(value.shape[0]):
            value[e] = b.single[row, e]
    else:
        for e in range(value.shape[0]):
            value[e] = b.double[row, e]


@compiled
def survey(bits: Any) -> tuple[int, int]:
    """(kind, exponent) of one shot's weights: every finite one is below 2 ** exponent.

    BAD_WEIGHT: NaN or -inf among them. SIGNED: perhaps a negative one. Works on the bit patterns, which order
    like the magnitudes, because integer reductions vectorise where float ones do not.
    """
    low = 0
    top = 0
    for e in range(bits.shape[0]):
        low = min(low, bits[e])
        top = max(top, bits[e] & MAGNITUDE)
    if top > INFINITY:
        return BAD_WEIGHT, 0
    if top == INFINITY:
        top = 0
        for e in range(bits.shape[0]):
            magnitude = bits[e] & MAGNITUDE
            if magnitude != INFINITY:
                top = max(top, magnitude)
            elif bits[e] < 0:
                return BAD_WEIGHT, 0
    return (SIGNED if low < 0 else PLAIN), (top >> 52) - 1022


@compiled
def scale_weights(a: Arena, exponent: int, weight_bits: int) -> None:
    """Even integers proportional to |weight|, by a power of two: weights on a dyadic grid stay exact."""
    scale = math.ldexp(1.0, min(weight_bits - 1 - exponent, 1000))
    value, weight = a.value, a.weight
    for e in range(value.shape[0]):
        magnitude = abs(value[e])
        weight[e] = 2 * int(magnitude * scale + 0.5) if magnitude != math.inf else NEVER


@compiled
def toggle(answer: Answer, e: int) -> None:
    for i in range(answer.masks.shape[1]):
        answer.observables[i] ^= answer.masks[e, i]
    if answer.edges.shape[0] > 0:
        answer.edges[e >> 3] ^= 1 << (e & 7)


@compiled
def flip_negative(g: Graph, a: Arena, answer: Answer) -> None:
    syndrome, ends, value = a.syndrome, g.ends, a.value
    for e in range(value.shape[0]):
        if value[e] < 0:
            u, v = ends[e, 0], ends[e, 1]
            syndrome[u >> 3] ^= 1 << (u & 7)
            syndrome[v >> 3] ^= 1 << (v & 7)
            toggle(answer, e)


@compiled
def total_weight(value: Any, edges: Any) -> float:
    total = 0.0
    for i in range(edges.shape[0]):
        byte = edges[i]
        e = 8 * i
        while byte != 0:
            if byte & 1:
                total += value[e]
            byte >>= 1
            e += 1
    return total


@compiled
def match_range(g: Graph, a: Arena, b: Batch, lo: int, hi: int) -> int:
    m = as_memory(g, a)
    n_bytes = b.detectors.shape[1]
    shared = b.single.shape[0] + b.double.shape[0] == 1
    want_edges = b.edges.shape[1] > 0
    scaled = False
    kind, exponent = PLAIN, 0
    for s in range(lo, hi):
        if not shared or s == lo:
            load_weights(a, b, 0 if shared else s)
            kind, exponent = survey(a.value_bits)
            scaled = False
        if kind == BAD_WEIGHT:
            b.status[s] = BAD_WEIGHT
            continue
        answer = Answer(b.masks, b.observables[s], b.edges[s if want_edges else 0])
        # A shot may be matched again after the arena was found too small.
        answer.observables[:] = 0
        answer.edges[:] = 0
        for i in range(n_bytes):
            a.syndrome[i] = b.detectors[s, i]
        if kind == SIGNED:
            flip_negative(g, a, answer)
        start(m)
        n_defects = 0
        for i in range(n_bytes):
            byte = a.syndrome[i]
            u = 8 * i
            while byte != 0:
                # Bit n collects what was flipped at the boundary.
                if byte & 1 and u < m.n:
                    add_defect(m, u)
                    n_defects += 1
                byte >>= 1
                u += 1
        if n_defects > 0:
            if not scaled:
                scale_weights(a, exponent, g.weight_bits)
                scaled = True
            outcome = grow(m)
            if outcome == SOLVED:
                mark_links(m, n_defects)
                for i in range(choose_edges(m)):
                    toggle(answer, a.chosen[i])
            clear(m)
            if outcome == ARENA_FULL:
                return s
            b.status[s] = outcome
        if want_edges:
            b.totals[s] = total_weight(a.value, answer.edges)
    return hi


def _with_disk_cache(sources: str) -> Callable[[Graph, Arena, Batch, int, int], int]:
    @njit(nogil=True, cache=True)
    def match_shots(g: Graph, a: Arena, b: Batch, lo: int, hi: int) -> int:
        """Match shots lo..hi - 1; returns the first one not done, below `hi` if the arena was too small."""
        return match_range(g, a, b, lo, hi) if sources else lo

    return match_shots  # type: ignore[no-any-return]


match_shots = _with_disk_cache(sources_of("matching*.py"))
