"""Compiled belief propagation (flooding schedule), `LANES` shots side by side.

Messages live in one array `[edge, lane]`, edges sorted by check, so that every inner loop runs over the lanes
of a cache line and the compiler turns it into vector instructions. Lanes never mix: a shot's answer does not
depend on its neighbours. A lane whose shot is finished takes the next shot at once.

A message is a log-odds m. In a check the tanh rule is taken in the form P(odd parity) = a(1-b) + b(1-a) with
a, b = 1/(1+exp|m|) <= 1/2 and the signs apart: there is no subtraction of near-equal numbers, so single
precision holds for messages of any size, where 1 - tanh would round to zero.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from autoqec.decoders.backends._kernels.simd import (
    LANES,
    bits,
    from_bits,
    greater,
    lesser,
    load,
    negative_lanes,
    splat,
    store,
    to_floats,
    where_not_above,
)

CLIP = 50.0  # largest |message|; exp(-50) is far from single precision's underflow

SUM_PRODUCT = 0
MIN_SUM = 1

_F = np.float32
_I = np.int32
_SIGN = np.int32(-(2**31))
_MAGNITUDE = np.int32(2**31 - 1)
_LOG2E = _F(1.4426950408889634)
_LN2 = _F(0.6931471805599453)
_ROUND = _F(12582912.0)  # 1.5 * 2**23: adding it rounds to an integer held in the low mantissa bits
_TWO_THIRDS = np.int32(0x3F2AAAAB)  # its bits: the mantissa is taken in [2/3, 4/3)
_TINY = _F(1e-25)  # below any exp(-CLIP)
_INVERSE_GUESS = np.int32(0x7EF311C3)
_CLIP = _F(CLIP)
_ONE = _F(1.0)
_ZERO = _F(0.0)


@njit(cache=True)
def _exp_minus(a):  # type: ignore[no-untyped-def]
    """exp(-a) for 0 <= a <= CLIP, relative error 2e-7: 2**n times a minimax polynomial in |r| <= log(2)/2."""
    x = _ZERO - a
    t = x * _LOG2E + _ROUND
    n = t - _ROUND
    r = x - n * _LN2
    y = r * _F(8.31252e-3) + _F(4.189016e-2)
    y = y * r + _F(1.6667115e-1)
    y = y * r + _F(4.9999231e-1)
    y = y * (r * r) + (r + _ONE)
    return from_bits(bits(y) + (bits(t) << _I(23)))


@njit(cache=True)
def _log(y):  # type: ignore[no-untyped-def]
    """log(y) of positive normal numbers, error 2e-6: a minimax polynomial in the mantissa minus one."""
    whole = bits(y)
    e = (whole - _TWO_THIRDS) >> _I(23)
    m = from_bits(whole - (e << _I(23))) - _ONE
    p = m * _F(-0.20171353) + _F(0.2307386)
    p = p * m - _F(0.24721758)
    p = p * m + _F(0.3316072)
    p = p * m - _F(0.50006475)
    p = p * m + _F(1.00002285)
    return p * m + to_floats(e) * _LN2


@njit(cache=True)
def _inverse(y):  # type: ignore[no-untyped-def]
    """1 / y of positive normal numbers by three Newton steps: a third of the time of a vector division."""
    r = from_bits(_INVERSE_GUESS - bits(y))
    r = r + r * (_ONE - y * r)
    r = r + r * (_ONE - y * r)
    return r + r * (_ONE - y * r)


@njit(cache=True)
def _sum_product_checks(check_ptr, msg, syn, scratch):  # type: ignore[no-untyped-def]
    """One check update, in place: fault-to-check messages become check-to-fault messages.

    syn: [check, lane] sign bit of the parity asked for. scratch: [3 * max degree, lane].
    (odd, even) is the pair of parity likelihoods of the faults seen so far, up to a common factor: each fault
    brings (exp(-|m|), 1).
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
            e = _exp_minus(lesser(from_bits(m & _MAGNITUDE), _CLIP))
            store(scratch, 3 * k, e)
            store(scratch, 3 * k + 1, odd)
            store(scratch, 3 * k + 2, even)
            odd, even = odd + even * e, even + odd * e
            if k & 31 == 31:  # each fault at most doubles the pair
                odd, even = odd * _inverse(even), splat(_ONE)
        odd = splat(_ZERO)
        even = splat(_ONE)
        for k in range(degree - 1, -1, -1):
            e = load(scratch, 3 * k)
            odd_before = load(scratch, 3 * k + 1)
            even_before = load(scratch, 3 * k + 2)
            odd_others = greater(odd_before * even + even_before * odd, _TINY)
            ratio = (even_before * even + odd_before * odd) * _inverse(odd_others)
            size = lesser(_log(ratio), _CLIP)
            sign = (parity ^ bits(load(msg, first + k))) & _SIGN
            store(msg, first + k, from_bits(bits(size) ^ sign))
            odd, even = odd + even * e, even + odd * e
            if k & 31 == 0:
                odd, even = odd * _inverse(even), splat(_ONE)


@njit(cache=True)
def _min_sum_checks(check_ptr, msg, syn, scaling):  # type: ignore[no-untyped-def]
    """As `_sum_product_checks` with the smallest other |message|, times `scaling`."""
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


@njit(cache=True)
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


@njit(cache=True)
def check_messages(check_ptr, edge_fault, prior, method, scaling):  # type: ignore[no-untyped-def]
    """Check-to-fault messages [edge] of the first iteration for the empty syndrome."""
    n_edges = edge_fault.shape[0]
    msg = np.empty((n_edges, LANES), np.float32)
    for e in range(n_edges):
        for s in range(LANES):
            msg[e, s] = prior[edge_fault[e]]
    n_checks = check_ptr.shape[0] - 1
    syn = np.zeros((n_checks, LANES), np.int32)
    _checks(check_ptr, msg, syn, method, scaling, _check_scratch(check_ptr))
    return msg[:, 0].copy()


@njit(cache=True)
def _check_scratch(check_ptr):  # type: ignore[no-untyped-def]
    degree = 0
    for c in range(check_ptr.shape[0] - 1):
        degree = max(degree, check_ptr[c + 1] - check_ptr[c])
    return np.empty((3 * degree, LANES), np.float32)


@njit(cache=True)
def _checks(check_ptr, msg, syn, method, scaling, scratch):  # type: ignore[no-untyped-def]
    if method == SUM_PRODUCT:
        _sum_product_checks(check_ptr, msg, syn, scratch)
    else:
        _min_sum_checks(check_ptr, msg, syn, scaling)


@njit(cache=True, nogil=True)
def propagate(  # type: ignore[no-untyped-def]
    check_ptr,
    edge_fault,
    edge_check,
    fault_ptr,
    fault_edge,
    prior,
    first_messages,
    detectors,
    shot_priors,
    start,
    stop,
    iterations,
    early,
    method,
    scaling,
    posterior,
    satisfied,
):
    """Decode shots `start <= shot < stop` into rows of `posterior` and `satisfied`.

    prior: [fault] log-odds; shot_priors: [shot, fault] probabilities, or of no rows when `prior` holds for all.
    Returns -1, or the shot whose `shot_priors` are not probabilities.
    """
    n_checks = check_ptr.shape[0] - 1
    n_faults = fault_ptr.shape[0] - 1
    n_edges = edge_fault.shape[0]
    own_priors = shot_priors.shape[0] > 0
    msg = np.zeros((n_edges, LANES), np.float32)
    odds = np.zeros((n_faults, LANES), np.float32)
    total = np.empty((n_faults, LANES), np.float32)
    syn = np.zeros((n_checks, LANES), np.int32)
    asked = np.zeros(n_checks, np.int32)
    wrong = np.zeros(n_checks, np.int32)
    scratch = _check_scratch(check_ptr)
    shot_of = np.full(LANES, -1, np.int64)
    age = np.zeros(LANES, np.int64)
    fresh = np.empty(LANES, np.int64)
    done = np.empty(LANES, np.int64)
    if not own_priors:
        for f in range(n_faults):
            for s in range(LANES):
                odds[f, s] = prior[f]

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
        for i in range(n_fresh):
            s = fresh[i]
            shot = shot_of[s]
            for c in range(n_checks):
                bit = _I((detectors[shot, c >> 3] >> (c & 7)) & 1)
                syn[c, s] = _I(-bit) & _SIGN
                asked[c] = _I((asked[c] & ~(1 << s)) | (bit << s))
            if own_priors:
                for f in range(n_faults):
                    q = shot_priors[shot, f]
                    if not (q >= _ZERO and q <= _ONE):
                        return shot
                    q = min(max(q, _F(1e-15)), _F(1.0 - 2.0**-24))
                    odds[f, s] = np.log((_ONE - q) / q)
        if own_priors:
            for e in range(n_edges):
                f = edge_fault[e]
                for i in range(n_fresh):
                    msg[e, fresh[i]] = odds[f, fresh[i]]
        if own_priors or n_fresh < busy:
            _checks(check_ptr, msg, syn, method, scaling, scratch)
        if not own_priors:
            if n_fresh == LANES:
                for e in range(n_edges):
                    size = bits(splat(first_messages[e]))
                    store(msg, e, from_bits(size ^ load(syn, edge_check[e])))
            elif n_fresh > 0:
                for e in range(n_edges):
                    size = first_messages[e]
                    c = edge_check[e]
                    for i in range(n_fresh):
                        s = fresh[i]
                        msg[e, s] = -size if syn[c, s] != 0 else size
        for c in range(n_checks):
            wrong[c] = asked[c]
        _faults(fault_ptr, fault_edge, edge_check, msg, odds, total, wrong)
        unmet = 0
        for c in range(n_checks):
            unmet |= wrong[c]

        n_done = 0
        for s in range(LANES):
            if shot_of[s] < 0:
                continue
            age[s] += 1
            met = (unmet >> s) & 1 == 0
            if age[s] == iterations or (early and met):
                satisfied[shot_of[s]] = met
                done[n_done] = s
                n_done += 1
        for i in range(n_done):
            s = done[i]
            shot = shot_of[s]
            for f in range(n_faults):
                posterior[shot, f] = total[f, s]
            shot_of[s] = -1
