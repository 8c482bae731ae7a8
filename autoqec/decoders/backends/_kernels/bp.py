"""Compiled belief propagation (flooding schedule), `LANES` shots side by side.

Messages live in one array `[edge, lane]`, edges sorted by check, so that every inner loop runs over the lanes
of a cache line and the compiler turns it into vector instructions. Lanes never mix: a shot's answer does not
depend on its neighbours. A lane whose shot is finished takes the next shot at once.

A message is a log-odds m. The tanh rule of a check is taken on pairs (odd, even) of parity likelihoods, to which
a fault brings (exp(-|m|), 1), with the signs apart: sums of positive numbers only, so single precision holds for
messages of any size, where tanh would round to one.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit

from autoqec.decoders.backends._kernels.pieces import sources_of
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
    negative_lanes,
    splat,
    store,
    where_not_above,
)

SUM_PRODUCT = 0
MIN_SUM = 1

_F = np.float32
_SIGN = np.int32(-(2**31))
_MAGNITUDE = np.int32(2**31 - 1)
_TINY = _F(1e-25)  # below any exp(-_CLIP)
_CLIP = _F(50.0)  # of |message|
_LOWEST = _F(1e-15)  # probabilities are clipped here
_HIGHEST = _F(1.0 - 2.0**-24)  # the last one below 1
_ONE = _F(1.0)
_ZERO = _F(0.0)


class Graph(NamedTuple):
    """Edges are sorted by check: check_ptr [check + 1] says where each check's begin, edge_fault and edge_check [edge]
    what they join; fault_edge lists the edges by fault, from fault_ptr [fault + 1] on.
    """

    check_ptr: Any
    edge_fault: Any
    edge_check: Any
    fault_ptr: Any
    fault_edge: Any


class Priors(NamedTuple):
    """What holds for all shots without priors of their own: log-odds [fault], and `first_messages` [edge]."""

    log_odds: Any
    first_messages: Any


class Shots(NamedTuple):
    """detectors: packed. priors: [shot, fault] probabilities, or without rows when the common ones hold for all."""

    detectors: Any
    priors: Any


class Settings(NamedTuple):
    """average: how many of the last posteriors to take the mean of; 1 with `early_stop`, as the lanes must be in step.

    scaling: single precision, of min-sum messages; 0 for 1 - 2**-i in iteration i.
    """

    iterations: Any
    average: Any
    early_stop: Any
    method: Any
    scaling: Any


@njit
def _sum_product_checks(check_ptr, msg, syn, scratch):  # type: ignore[no-untyped-def]
    """One check update, in place: fault-to-check messages become check-to-fault messages.

    syn: [check, lane] sign bit of the parity asked for. scratch: [3 * max degree, lane].
    """
    for c in range(check_ptr.shape[0] - 1):
        first = check_ptr[c]
        degree = check_ptr[c + 1] - first
        parity = load(syn, c)
        odd = splat(_ZERO)
        even = splat(_ONE)
        for k in range(degree):
            m = bits(load(msg, first + k))
            parity = parity ^ m
            e = exp_minus(lesser(from_bits(m & _MAGNITUDE), _CLIP))
            store(scratch, 3 * k, e)
            store(scratch, 3 * k + 1, odd)
            store(scratch, 3 * k + 2, even)
            odd, even = odd + even * e, even + odd * e
            if k & 31 == 31:  # each fault at most doubles the pair
                odd, even = odd * inverse(even), splat(_ONE)
        odd = splat(_ZERO)
        even = splat(_ONE)
        for k in range(degree - 1, -1, -1):
            e = load(scratch, 3 * k)
            odd_before = load(scratch, 3 * k + 1)
            even_before = load(scratch, 3 * k + 2)
            odd_others = greater(odd_before * even + even_before * odd, _TINY)
            ratio = (even_before * even + odd_before * odd) * inverse(odd_others)
            size = lesser(log(ratio), _CLIP)
            sign = (parity ^ bits(load(msg, first + k))) & _SIGN
            store(msg, first + k, from_bits(bits(size) ^ sign))
            odd, even = odd + even * e, even + odd * e
            if k & 31 == 0:
                odd, even = odd * inverse(even), splat(_ONE)


@njit
def _min_sum_checks(check_ptr, msg, syn, factor):  # type: ignore[no-untyped-def]
    """As `_sum_product_checks` with the smallest other |message|, times factor [1, lane]."""
    scaling = load(factor, 0)
    for c in range(check_ptr.shape[0] - 1):
        parity = load(syn, c)
        least = splat(_CLIP)
        second = splat(_CLIP)
        for e in range(check_ptr[c], check_ptr[c + 1]):
            m = bits(load(msg, e))
            parity = parity ^ m
            size = from_bits(m & _MAGNITUDE)
            second = lesser(second, greater(size, least))
            least = lesser(least, size)
        for e in range(check_ptr[c], check_ptr[c + 1]):
            m = bits(load(msg, e))
            # Two equal minima make `second` equal to `least`, so comparing sizes is enough.
            size = where_not_above(from_bits(m & _MAGNITUDE), least, second, least) * scaling
            store(msg, e, from_bits(bits(size) ^ ((parity ^ m) & _SIGN)))


@njit
def _faults(fault_ptr, fault_edge, edge_check, msg, prior, total, wrong):  # type: ignore[no-untyped-def]
    """One fault update, in place; `total` gets the posteriors and `wrong` [check] loses the parity of the
    hard decision, as one bit per lane.
    """
    for f in range(fault_ptr.shape[0] - 1):
        first, last = fault_ptr[f], fault_ptr[f + 1]
        posterior = load(prior, f)
        for k in range(first, last):
            posterior = posterior + load(msg, fault_edge[k])
        store(total, f, posterior)
        for k in range(first, last):
            store(msg, fault_edge[k], posterior - load(msg, fault_edge[k]))
        flips = negative_lanes(posterior)
        if flips != 0:
            for k in range(first, last):
                wrong[edge_check[fault_edge[k]]] ^= flips


@njit
def _add_up(total, share, fresh, summed):  # type: ignore[no-untyped-def]
    """summed (+)= share * total, beginning from zero when `fresh`."""
    for f in range(total.shape[0]):
        part = load(total, f) * share
        store(summed, f, part if fresh else load(summed, f) + part)


@njit
def _check_scratch(check_ptr):  # type: ignore[no-untyped-def]
    degree = 0
    for c in range(check_ptr.shape[0] - 1):
        degree = max(degree, check_ptr[c + 1] - check_ptr[c])
    return np.empty((3 * degree, LANES), np.float32)


@njit
def _factor(scaling, iteration):  # type: ignore[no-untyped-def]
    return scaling if scaling > _ZERO else _F(1.0 - 0.5**iteration)


@njit
def _first_messages(graph, prior, settings):  # type: ignore[no-untyped-def]
    """Check-to-fault messages [edge] of the first iteration for the empty syndrome, given log-odds [fault].

    They are the same for all shots up to the sign, so that with common priors the first check update is free.
    """
    check_ptr, edge_fault = graph.check_ptr, graph.edge_fault
    n_edges = edge_fault.shape[0]
    msg = np.empty((n_edges, LANES), np.float32)
    for e in range(n_edges):
        store(msg, e, splat(prior[edge_fault[e]]))
    syn = np.zeros((check_ptr.shape[0] - 1, LANES), np.int32)
    if settings.method == SUM_PRODUCT:
        _sum_product_checks(check_ptr, msg, syn, _check_scratch(check_ptr))
    else:
        _min_sum_checks(check_ptr, msg, syn, np.full((1, LANES), _factor(settings.scaling, 1)))
    return msg[:, 0].copy()


@njit
def _start_syndromes(detectors, fresh, n_fresh, shot_of, syn, asked):  # type: ignore[no-untyped-def]
    for i in range(n_fresh):
        s = fresh[i]
        for c in range(syn.shape[0]):
            bit = np.int64((detectors[shot_of[s], c >> 3] >> (c & 7)) & 1)
            syn[c, s] = _SIGN if bit else 0
            asked[c] = (asked[c] & ~(1 << s)) | (bit << s)


@njit
def _start_priors(shot_priors, fresh, n_fresh, shot_of, prob, odds):  # type: ignore[no-untyped-def]
    """Log-odds of the fresh lanes; returns -1, or a shot that has something else than probabilities."""
    bad = -1
    for tile in range(0, prob.shape[0], LANES):
        for i in range(n_fresh):
            s = fresh[i]
            for f in range(tile, min(tile + LANES, prob.shape[0])):
                q = shot_priors[shot_of[s], f]
                if not (q >= _ZERO and q <= _ONE) and (bad < 0 or shot_of[s] < bad):
                    bad = shot_of[s]
                prob[f, s] = min(max(q, _LOWEST), _HIGHEST)
    for f in range(prob.shape[0]):
        q = load(prob, f)
        store(odds, f, log((_ONE - q) * inverse(q)))
    return bad


@njit
def _propagate(graph, priors, shots, settings, start, stop, answer):  # type: ignore[no-untyped-def]
    """Decode shots `start <= shot < stop` into rows of answer.log_odds [shot, fault] and answer.satisfied [shot].

    Returns -1, or the first shot seen whose own priors are not probabilities.
    """
    # Arrays are taken out of their tuples once: inside a loop each time would cost an atomic reference count.
    check_ptr, edge_fault, edge_check, fault_ptr, fault_edge = graph
    prior, first_msg = priors
    detectors, shot_priors = shots
    iterations, average, early, method, scaling = settings
    posterior, satisfied = answer
    n_checks = check_ptr.shape[0] - 1
    n_faults = fault_ptr.shape[0] - 1
    n_edges = edge_fault.shape[0]
    own_priors = shot_priors.shape[0] > 0
    msg = np.zeros((n_edges, LANES), np.float32)
    odds = np.zeros((n_faults, LANES), np.float32)
    prob = np.full((n_faults if own_priors else 0, LANES), _F(0.5))
    total = np.empty((n_faults, LANES), np.float32)
    mean = np.empty((n_faults if average > 1 else 0, LANES), np.float32)
    syn = np.zeros((n_checks, LANES), np.int32)
    asked = np.zeros(n_checks, np.int64)  # the syndromes, one bit per lane
    wrong = np.zeros(n_checks, np.int64)
    factor = np.empty((1, LANES), np.float32)
    scratch = _check_scratch(check_ptr)
    shot_of = np.full(LANES, -1, np.int64)
    age = np.zeros(LANES, np.int64)
    fresh = np.empty(LANES, np.int64)
    done = np.empty(LANES, np.int64)
    if not own_priors:
        for f in range(n_faults):
            store(odds, f, splat(prior[f]))

    following = start
    while True:
        n_fresh = 0
        busy = 0
        for s in range(LANES):
            if shot_of[s] < 0 and following < stop:
                shot_of[s] = following
                following += 1
                age[s] = 0
                fresh[n_fresh] = s
                n_fresh += 1
            if shot_of[s] >= 0:
                busy += 1
        if busy == 0:
            return -1
        if n_fresh > 0:
            _start_syndromes(detectors, fresh, n_fresh, shot_of, syn, asked)
            if own_priors:
                bad = _start_priors(shot_priors, fresh, n_fresh, shot_of, prob, odds)
                if bad >= 0:
                    return bad
                for e in range(n_edges):
                    f = edge_fault[e]
                    for i in range(n_fresh):
                        msg[e, fresh[i]] = odds[f, fresh[i]]

        if own_priors or n_fresh < busy:
            if method == SUM_PRODUCT:
                _sum_product_checks(check_ptr, msg, syn, scratch)
            else:
                for s in range(LANES):
                    factor[0, s] = _factor(scaling, age[s] + 1)
                _min_sum_checks(check_ptr, msg, syn, factor)
        if n_fresh == busy and not own_priors:
            for e in range(n_edges):
                size = bits(splat(first_msg[e]))
                store(msg, e, from_bits(size ^ load(syn, edge_check[e])))
        elif n_fresh > 0 and not own_priors:
            for e in range(n_edges):
                size = first_msg[e]
                c = edge_check[e]
                for i in range(n_fresh):
                    msg[e, fresh[i]] = -size if syn[c, fresh[i]] != 0 else size

        for c in range(n_checks):
            wrong[c] = asked[c]
        _faults(fault_ptr, fault_edge, edge_check, msg, odds, total, wrong)
        if average > 1 and age[0] >= iterations - average:
            _add_up(total, _ONE / _F(average), age[0] == iterations - average, mean)
        unmet = 0
        for c in range(n_checks):
            unmet |= wrong[c]

        n_done = 0
        for s in range(LANES):
            if shot_of[s] >= 0:
                age[s] += 1
                met = (unmet >> s) & 1 == 0
                if age[s] == iterations or (early and met):
                    satisfied[shot_of[s]] = met
                    done[n_done] = s
                    n_done += 1
        wanted = mean if average > 1 else total
        for tile in range(0, n_faults, LANES):  # a transposition: tile by tile it stays in the first cache
            for i in range(n_done):
                s = done[i]
                for f in range(tile, min(tile + LANES, n_faults)):
                    posterior[shot_of[s], f] = wanted[f, s]
        for i in range(n_done):
            shot_of[done[i]] = -1


def _with_disk_cache(sources: str) -> tuple[Any, Any]:
    @njit(cache=True)
    def first_messages(*args):  # type: ignore[no-untyped-def]
        return _first_messages(*args) if sources else np.empty(0, np.float32)

    @njit(cache=True, nogil=True)
    def propagate(*args):  # type: ignore[no-untyped-def]
        return _propagate(*args) if sources else -1

    return first_messages, propagate


first_messages, propagate = _with_disk_cache(sources_of("simd.py"))
