"""Learned belief propagation and its gradients, `LANES` shots side by side. Long, as each step is next to its reverse.

The iteration is that of `autoqec.decoders.modules.neural_bp` without attention; here with the sum-product rule, and with the
one of `learned_min_sum` if `min_sum` says so:

    c = 2 artanh prod tanh(m'/2)                 signed messages from checks, at most `_CAP` in size
    k = (1 - g) w c + g k_before
    q = (1 - u) prior + u q_before + sum k       within +-_FARTHEST
    m = q - k                                    within +-_CLIP

Going back, the tanh rule has dc_e / dm_e' = sinh(c_e) / sinh(m_e'), so a check of any degree takes one sum over its
links, without the own term. That sum is taken from both ends: the term left out may be a million times the others.

Propagation may go on from the messages k that an earlier one ended with, under another prior; the memory then starts at the
posteriors of the earlier one.

A block of `LANES` shots is taken forward again before it is taken back: its messages of all iterations then come from
the cache, where those of a whole batch would come from main memory.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit

from autoqec.decoders.backends._kernels import learned_min_sum
from autoqec.decoders.backends._kernels.lanes import give, take
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
_TINY = _F(1e-25)
_CLIP = _F(25.0)
_FARTHEST = _F(100.0)
_CAP = _F(-np.log(1e-7))  # the reference floors tanh(x / 2) at 1e-7
# What lies beyond has been clamped and passes no gradient on.
_BELOW_CLIP = np.nextafter(_CLIP, _ZERO)
_BELOW_FARTHEST = np.nextafter(_FARTHEST, _ZERO)
_BELOW_CAP = np.nextafter(_CAP, _ZERO)
_LEAST = _F(
    2e-5
)  # of 1 - exp(-2 |m|): check messages have errors of 1e-7, which 1 / sinh(m) must not blow up


class Links(NamedTuple):
    """Links are sorted by check, from check_ptr [check + 1] on; fault_link lists them by fault, from fault_ptr on.

    link_fault: [link] its fault.
    """

    check_ptr: Any
    link_fault: Any
    fault_ptr: Any
    fault_link: Any


class Weights(NamedTuple):
    """link: [iteration, link]. readout: [iteration]. damping: [iteration] and memory: [fault], empty when there is none."""

    link: Any
    damping: Any
    memory: Any
    readout: Any


class Shots(NamedTuple):
    """syndrome: [check, shot] 0 and 1. prior: [fault, shot] log-odds. begin: [link, shot] messages from checks to go on from, and
    before: [fault, shot] posteriors that the memory starts at; both may be empty.
    """

    syndrome: Any
    prior: Any
    begin: Any
    before: Any


class Answers(NamedTuple):
    """answer: [fault, shot] by the readout. last: [fault, shot] the last posterior, and end: [link, shot] the last messages from
    checks; both empty if they are not asked for. Also the gradients by them.
    """

    answer: Any
    last: Any
    end: Any


class Gradients(NamedTuple):
    """By the prior [fault, shot] and by the messages gone on from [link, shot], and by `Weights`: one entry per group of shots,
    which add up to the whole.
    """

    link: Any
    damping: Any
    memory: Any
    readout: Any
    prior: Any
    begin: Any


class _Rows(NamedTuple):
    """Where the links of one iteration begin: in `check`, in `check` one iteration earlier, and in what is kept."""

    check: Any
    before: Any
    kept: Any


class _Kept(NamedTuple):
    """What sum-product keeps of each link and iteration for going back: messages to faults before weights, their sinh, and
    1 / sinh of the messages to checks. The last two are zero where the message was clamped.

    Min-sum keeps the first, and in place of the last which messages to checks were the smallest two.
    """

    raw: Any
    sinh_raw: Any
    one_over_sinh: Any


class _Passed(NamedTuple):
    """Gradients [fault, lane] on the way back: by the posterior of the iteration before, by the prior, by the memory; and by the
    last posterior, of its iteration alone.
    """

    posterior: Any
    prior: Any
    memory: Any
    last: Any


@njit
def _size(x):  # type: ignore[no-untyped-def]
    return from_bits(bits(x) & _MAGNITUDE)


@njit
def _clamp(x, bound):  # type: ignore[no-untyped-def]
    return greater(lesser(x, bound), _ZERO - bound)


@njit
def _update_checks(check_ptr, syn, weight, g, message, check, rows, keep, kept, scratch):  # type: ignore[no-untyped-def]
    """Messages to checks become weighted messages to faults, in rows of `check`; rows of `kept` are filled if `keep`.

    The parity likelihoods are those of `bp`. scratch: [3 * max degree, lane].
    """
    c0, b0, r0 = rows.check, rows.before, rows.kept
    raw, sinh_raw, one_over_sinh = kept.raw, kept.sinh_raw, kept.one_over_sinh
    for c in range(check_ptr.shape[0] - 1):
        first = check_ptr[c]
        degree = check_ptr[c + 1] - first
        parity = load(syn, c)
        odd = splat(_ZERO)
        even = splat(_ONE)
        for k in range(degree):
            m = bits(load(message, first + k))
            parity = parity ^ m
            size = from_bits(m & _MAGNITUDE)
            e = exp_minus(size)
            if keep:
                share = (e + e) * inverse(greater(_ONE - e * e, _LEAST))
                share = where_not_above(size, splat(_BELOW_CLIP), share, splat(_ZERO))
                store(one_over_sinh, r0 + first + k, from_bits(bits(share) ^ (m & _SIGN)))
            store(scratch, 3 * k, e)
            store(scratch, 3 * k + 1, odd)
            store(scratch, 3 * k + 2, even)
            odd, even = odd + even * e, even + odd * e
            if k & 31 == 31:  # each fault at most doubles the pair
                odd, even = odd * inverse(even), splat(_ONE)
        odd = splat(_ZERO)
        even = splat(_ONE)
        for k in range(degree - 1, -1, -1):
            link = first + k
            e = load(scratch, 3 * k)
            odd_before = load(scratch, 3 * k + 1)
            even_before = load(scratch, 3 * k + 2)
            odd_others = greater(odd_before * even + even_before * odd, _TINY)
            even_others = even_before * even + odd_before * odd
            scale = inverse(even_others * odd_others)
            square = even_others * even_others
            size = log(square * scale)
            sign = (parity ^ bits(load(message, link))) & _SIGN
            answer = from_bits(bits(lesser(size, _CAP)) ^ sign)
            if keep:
                slope = (square - odd_others * odd_others) * scale * _HALF
                slope = where_not_above(size, splat(_BELOW_CAP), slope, splat(_ZERO))
                store(raw, r0 + link, answer)
                store(sinh_raw, r0 + link, from_bits(bits(slope) ^ sign))
            answer = answer * weight[link]
            if g != _ZERO:
                answer = answer * (_ONE - g) + load(check, b0 + link) * g
            store(check, c0 + link, answer)
            odd, even = odd + even * e, even + odd * e
            if k & 31 == 0:
                odd, even = odd * inverse(even), splat(_ONE)


@njit
def _check_gradients(  # type: ignore[no-untyped-def]
    check_ptr, weight, g, damped, check, rows, kept, gradient, carry, weight_gradient, scratch
):  # fmt: skip
    """`gradient` [link, lane] by the messages to faults becomes that by the messages to checks.

    Adds to weight_gradient [link]; `carry` gets what goes to the messages to faults of the iteration before. Returns
    the gradient by the damping, lane by lane.
    """
    b0, r0 = rows.before, rows.kept
    raw, sinh_raw, one_over_sinh = kept.raw, kept.sinh_raw, kept.one_over_sinh
    by_damping = splat(_ZERO)
    for c in range(check_ptr.shape[0] - 1):
        first = check_ptr[c]
        degree = check_ptr[c + 1] - first
        before = splat(_ZERO)
        for k in range(degree):
            link = first + k
            by_link = load(gradient, link)
            value = load(raw, r0 + link)
            if damped:
                by_damping = by_damping + by_link * (load(check, b0 + link) - value * weight[link])
                store(carry, link, by_link * g)
                by_link = by_link * (_ONE - g)
            weight_gradient[link] += sum_lanes(by_link * value)
            part = by_link * weight[link] * load(sinh_raw, r0 + link)
            store(scratch, 2 * k, part)
            store(scratch, 2 * k + 1, before)
            before = before + part
        after = splat(_ZERO)
        for k in range(degree - 1, -1, -1):
            others = load(scratch, 2 * k + 1) + after
            store(gradient, first + k, others * load(one_over_sinh, r0 + first + k))
            after = after + load(scratch, 2 * k)
    return by_damping


@njit
def _update_faults(  # type: ignore[no-untyped-def]
    fault_ptr, fault_link, prior, memory, readout, check, c0, posterior, p0, q0, answer, message
):  # fmt: skip
    """Posteriors into rows p0 on, from those before in rows q0 on, and new messages from rows c0 on of `check`."""
    for f in range(fault_ptr.shape[0] - 1):
        first, last = fault_ptr[f], fault_ptr[f + 1]
        total = load(prior, f)
        if memory.shape[0] > 0:
            total = total + (load(posterior, q0 + f) - total) * memory[f]
        for k in range(first, last):
            total = total + load(check, c0 + fault_link[k])
        total = _clamp(total, _FARTHEST)
        store(posterior, p0 + f, total)
        store(answer, f, load(answer, f) + total * readout)
        for k in range(first, last):
            link = fault_link[k]
            store(message, link, _clamp(total - load(check, c0 + link), _CLIP))


@njit
def _fault_gradients(  # type: ignore[no-untyped-def]
    links, upstream, prior, memory, readout, posterior, p0, q0, carried, gradient, carry, passed
):  # fmt: skip
    """`gradient` [link, lane] by the messages to checks becomes that by the messages to faults.

    upstream: [fault, lane] by the answer. Adds to `passed`. Returns the gradient by the readout, lane by lane.
    """
    fault_ptr, fault_link = links.fault_ptr, links.fault_link
    by_posterior, by_prior, by_memory = passed.posterior, passed.prior, passed.memory
    by_readout = splat(_ZERO)
    for f in range(fault_ptr.shape[0] - 1):
        first, last = fault_ptr[f], fault_ptr[f + 1]
        above = load(upstream, f)
        now = load(posterior, p0 + f)
        by_readout = by_readout + above * now
        total = above * readout
        if passed.last.shape[0] > 0:
            total = total + load(passed.last, f)
            store(passed.last, f, splat(_ZERO))
        if memory.shape[0] > 0:
            total = total + load(by_posterior, f)
        for k in range(first, last):
            total = total + load(gradient, fault_link[k])
        total = where_not_above(_size(now), splat(_BELOW_FARTHEST), total, splat(_ZERO))
        if memory.shape[0] > 0:
            to_before = total * memory[f]
            store(by_posterior, f, to_before)
            store(by_memory, f, load(by_memory, f) + total * (load(posterior, q0 + f) - load(prior, f)))
            store(by_prior, f, load(by_prior, f) + (total - to_before))
        else:
            store(by_prior, f, load(by_prior, f) + total)
        for k in range(first, last):
            link = fault_link[k]
            by_link = total - load(gradient, link)
            if carried:
                by_link = by_link + load(carry, link)
            store(gradient, link, by_link)
    return by_readout


@njit
def _max_degree(check_ptr):  # type: ignore[no-untyped-def]
    degree = 0
    for c in range(check_ptr.shape[0] - 1):
        degree = max(degree, check_ptr[c + 1] - check_ptr[c])
    return degree


@njit
def _start(shots, first, links, asked, syn, odds, posterior, message, check, answer):  # type: ignore[no-untyped-def]
    """Everything of a block before its first iteration; messages to go on from are put into the first rows of `check`."""
    link_fault, fault_ptr, fault_link = links.link_fault, links.fault_ptr, links.fault_link
    take(shots.syndrome, first, asked)
    take(shots.prior, first, odds)
    for c in range(syn.shape[0]):
        for s in range(LANES):
            syn[c, s] = _SIGN if asked[c, s] > _HALF else 0
    for f in range(odds.shape[0]):
        store(posterior, f, load(odds, f))
        store(answer, f, splat(_ZERO))
    if shots.begin.shape[0] > 0:
        take(shots.begin, first, check)
        for f in range(odds.shape[0]):
            total = load(odds, f)
            for k in range(fault_ptr[f], fault_ptr[f + 1]):
                total = total + load(check, fault_link[k])
            for k in range(fault_ptr[f], fault_ptr[f + 1]):
                link = fault_link[k]
                store(message, link, _clamp(total - load(check, link), _CLIP))
    else:
        for link in range(link_fault.shape[0]):
            store(message, link, _clamp(load(odds, link_fault[link]), _CLIP))
    if shots.before.shape[0] > 0:
        take(shots.before, first, posterior)


@njit
def _forward(links, weights, shots, min_sum, start, stop, answers):  # type: ignore[no-untyped-def]
    """Answers of blocks `start <= block < stop` of LANES shots."""
    check_ptr, link_fault, fault_ptr, fault_link = links
    weight, damping, memory, readout = weights
    n_checks, n_faults, n_links = check_ptr.shape[0] - 1, shots.prior.shape[0], link_fault.shape[0]
    begun = shots.begin.shape[0] > 0
    iterations = weight.shape[0]
    asked = np.empty((n_checks, LANES), np.float32)
    syn = np.empty((n_checks, LANES), np.int32)
    odds = np.empty((n_faults, LANES), np.float32)
    posterior = np.empty((n_faults, LANES), np.float32)
    total = np.empty((n_faults, LANES), np.float32)
    message = np.empty((n_links, LANES), np.float32)
    # Without damping, and if propagation does not go on, nobody asks for the messages from checks again.
    separate = damping.shape[0] > 0 or begun or answers.end.shape[0] > 0
    check = np.empty((n_links, LANES), np.float32) if separate else message
    scratch = np.empty((3 * _max_degree(check_ptr), LANES), np.float32)
    rows = _Rows(0, 0, 0)
    nothing = _Kept(message, message, message)
    for block in range(start, stop):
        _start(shots, block * LANES, links, asked, syn, odds, posterior, message, check, total)
        for t in range(iterations):
            g = damping[t] if (t > 0 or begun) and damping.shape[0] > 0 else _ZERO
            if min_sum:
                learned_min_sum.update_checks(
                    check_ptr, syn, weight[t], g, message, check, 0, 0, False, message, message, 0
                )
            else:
                _update_checks(check_ptr, syn, weight[t], g, message, check, rows, False, nothing, scratch)
            _update_faults(
                fault_ptr, fault_link, odds, memory, readout[t], check, 0, posterior, 0, 0, total, message
            )
        give(total, block * LANES, answers.answer)
        give(posterior, block * LANES, answers.last)
        give(check, block * LANES, answers.end)


@njit
def _backward(links, weights, shots, min_sum, upstream, bounds, start, stop, gradients):  # type: ignore[no-untyped-def]
    """Gradients of groups `start <= group < stop`; group i has the blocks from bounds[i] to bounds[i + 1].

    upstream: by the answers. Which shots share a group does not depend on the number of threads. Where the memory starts is a
    constant.
    """
    check_ptr, link_fault, fault_ptr, fault_link = links
    weight, damping, memory, readout = weights
    weight_gradient, damping_gradient, memory_gradient, readout_gradient, prior_gradient, begin_gradient = (
        gradients
    )
    n_checks, n_faults, n_links = check_ptr.shape[0] - 1, shots.prior.shape[0], link_fault.shape[0]
    begun = shots.begin.shape[0] > 0
    ended = upstream.end.shape[0] > 0
    iterations = weight.shape[0]
    damped = damping.shape[0] > 0
    remembering = memory.shape[0] > 0
    asked = np.empty((n_checks, LANES), np.float32)
    syn = np.empty((n_checks, LANES), np.int32)
    odds = np.empty((n_faults, LANES), np.float32)
    total = np.empty((n_faults, LANES), np.float32)
    above = np.empty((n_faults, LANES), np.float32)
    by_prior = np.empty((n_faults, LANES), np.float32)
    by_memory = np.empty((n_faults if remembering else 0, LANES), np.float32)
    by_posterior = np.empty((n_faults if remembering else 0, LANES), np.float32)
    posterior = np.empty(((iterations + 1) * n_faults, LANES), np.float32)
    message = np.empty((n_links, LANES), np.float32)
    # Messages from checks: those gone on from, then one set per iteration.
    separate = damped or begun
    check = np.empty(((iterations + 1) * n_links, LANES), np.float32) if separate else message
    raw = np.empty((iterations * n_links, LANES), np.float32)
    sinh_raw = np.empty((0 if min_sum else iterations * n_links, LANES), np.float32)
    one_over_sinh = np.empty((iterations * n_links, LANES), np.float32)
    gradient = np.empty((n_links, LANES), np.float32)
    carried = damped or ended or begun
    carry = np.empty((n_links if carried else 0, LANES), np.float32)
    last = np.empty((upstream.last.shape[0], LANES), np.float32)
    scratch = np.empty((3 * _max_degree(check_ptr), LANES), np.float32)
    kept = _Kept(raw, sinh_raw, one_over_sinh)
    passed = _Passed(by_posterior, by_prior, by_memory, last)
    for group in range(start, stop):
        for block in range(bounds[group], bounds[group + 1]):
            _start(shots, block * LANES, links, asked, syn, odds, posterior, message, check, total)
            for t in range(iterations):
                g = damping[t] if (t > 0 or begun) and damped else _ZERO
                c0 = (t + 1) * n_links if separate else 0
                if min_sum:
                    learned_min_sum.update_checks(
                        check_ptr, syn, weight[t], g, message, check, c0, c0 - n_links, True, raw, one_over_sinh,
                        t * n_links
                    )  # fmt: skip
                else:
                    rows = _Rows(c0, c0 - n_links, t * n_links)
                    _update_checks(check_ptr, syn, weight[t], g, message, check, rows, True, kept, scratch)
                _update_faults(
                    fault_ptr, fault_link, odds, memory, readout[t], check, c0, posterior, (t + 1) * n_faults,
                    t * n_faults, total, message
                )  # fmt: skip
            take(upstream.answer, block * LANES, above)
            take(upstream.last, block * LANES, last)
            gradient[:] = _ZERO
            carry[:] = _ZERO
            take(upstream.end, block * LANES, carry)
            by_prior[:] = _ZERO
            by_memory[:] = _ZERO
            by_posterior[:] = _ZERO
            for t in range(iterations - 1, -1, -1):
                by_readout = _fault_gradients(
                    links, above, odds, memory, readout[t], posterior, (t + 1) * n_faults, t * n_faults, carried,
                    gradient, carry, passed
                )  # fmt: skip
                readout_gradient[group, t] += sum_lanes(by_readout)
                damps = damped and (t > 0 or begun)
                g = damping[t] if damps else _ZERO
                if min_sum:
                    by_damping = learned_min_sum.check_gradients(
                        check_ptr, weight[t], g, damps, check, t * n_links, raw, one_over_sinh, t * n_links,
                        gradient, carry, weight_gradient[group, t]
                    )  # fmt: skip
                else:
                    rows = _Rows((t + 1) * n_links, t * n_links, t * n_links)
                    by_damping = _check_gradients(
                        check_ptr, weight[t], g, damps, check, rows, kept, gradient, carry,
                        weight_gradient[group, t], scratch
                    )  # fmt: skip
                if damps:
                    damping_gradient[group, t] += sum_lanes(by_damping)
                elif carried:
                    carry[:] = _ZERO
            for f in range(n_faults):
                whole = load(by_prior, f)
                if remembering:
                    if shots.before.shape[0] == 0:  # the posterior before the first iteration is the prior
                        whole = whole + load(by_posterior, f)
                    memory_gradient[group, f] += sum_lanes(load(by_memory, f))
                by_messages = splat(_ZERO)
                for k in range(fault_ptr[f], fault_ptr[f + 1]):
                    by_messages = by_messages + load(gradient, fault_link[k])
                store(by_prior, f, whole + by_messages)
                if begun:
                    for k in range(fault_ptr[f], fault_ptr[f + 1]):
                        link = fault_link[k]
                        store(carry, link, load(carry, link) + by_messages - load(gradient, link))
            give(by_prior, block * LANES, prior_gradient)
            give(carry, block * LANES, begin_gradient)


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


forward, backward = _with_disk_cache(sources_of("simd.py", "lanes.py", "learned_min_sum.py"))
