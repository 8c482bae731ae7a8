"""Learned belief propagation and its gradients on a GPU, in Triton.

The iteration is that of `learned_bp`. Tensors are [row, shot], shots contiguous. One program has a block of shots and all links of
one check, or of one fault: its rows stay in the first-level cache between the passes over them. Messages to checks are never stored:
they are made from posteriors and the messages before, m = q - k, wherever they are needed.

A check of any degree is done without cancellation, from both ends. Its state is r = (1 - T) / (1 + T), with T the product of tanh(|m|/2)
so far: one more message with e = exp(-|m|) makes it (r + e) / (1 + r e), and the message to a fault has the size -log r.

Kernels take their tensors in named tuples, which the caller makes:
    links: check_ptr, link_fault; fault_ptr, fault_link: the links of each check and of each fault.
    state: q [fault, shot] and, if it goes on, k [link, shot], posteriors and messages to faults of the iteration before.
    learned: weight [link], damping [1], memory [fault], readout [1], of one iteration.
"""

from __future__ import annotations

import triton
import triton.language as tl

_CLIP = tl.constexpr(25.0)
_FARTHEST = tl.constexpr(100.0)
_CAP = tl.constexpr(16.11809565095832)  # the reference floors tanh(x / 2) at 1e-7
_TINY = tl.constexpr(1e-25)
_LEAST = tl.constexpr(2e-5)  # of 1 - exp(-2 |m|): see `learned_bp`


@triton.jit
def _message(links, state, link, shots, inside, stride, GOES_ON: tl.constexpr):  # type: ignore[no-untyped-def]
    """What a fault tells a check along a link, within +-CLIP."""
    fault = tl.load(links.link_fault + link)
    m = tl.load(state.q + fault * stride + shots, mask=inside, other=0.0)
    if GOES_ON:
        m -= tl.load(state.k + link * stride + shots, mask=inside, other=0.0)
    return tl.minimum(tl.maximum(m, -_CLIP), _CLIP)


@triton.jit
def _joined(r, e):  # type: ignore[no-untyped-def]
    return (r + e) / (1.0 + r * e)


@triton.jit
def _two_smallest(  # type: ignore[no-untyped-def]
    links, state, first, end, odd, shots, inside, stride, GOES_ON: tl.constexpr
):
    """The two smallest sizes, the links that have them, and the parity of the signs."""
    smallest, second = (
        tl.zeros_like(shots).to(tl.float32) + _CLIP,
        tl.zeros_like(shots).to(tl.float32) + _CLIP,
    )
    at_smallest, at_second = tl.zeros_like(shots) - 1, tl.zeros_like(shots) - 1
    for link in range(first, end):
        m = _message(links, state, link, shots, inside, stride, GOES_ON)
        odd = odd ^ (m < 0)
        size = tl.abs(m)
        is_smallest, is_second = size < smallest, size < second
        at_second = tl.where(is_smallest, at_smallest, tl.where(is_second, link, at_second))
        second = tl.where(is_smallest, smallest, tl.where(is_second, size, second))
        at_smallest = tl.where(is_smallest, link, at_smallest)
        smallest = tl.where(is_smallest, size, smallest)
    return smallest, second, at_smallest, at_second, odd


@triton.jit(do_not_specialize=["batch"])
def checks_forward(  # type: ignore[no-untyped-def]
    links, state, learned, syndrome, out, batch,
    GOES_ON: tl.constexpr, DAMPED: tl.constexpr, MIN_SUM: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """out [link, shot]: weighted messages to faults."""
    check = tl.program_id(0)
    shots = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = shots < batch
    stride = batch.to(tl.int64)
    first, end = tl.load(links.check_ptr + check), tl.load(links.check_ptr + check + 1)
    odd = tl.load(syndrome + check * stride + shots, mask=inside, other=0.0) > 0.5
    g = 0.0
    if DAMPED:
        g = tl.load(learned.damping)
    if MIN_SUM:
        smallest, second, at_smallest, _, odd = _two_smallest(
            links, state, first, end, odd, shots, inside, stride, GOES_ON
        )
        for link in range(first, end):
            m = _message(links, state, link, shots, inside, stride, GOES_ON)
            size = tl.where(at_smallest == link, second, smallest)
            answer = tl.where(odd ^ (m < 0), -size, size) * tl.load(learned.weight + link)
            row = link * stride + shots
            if DAMPED:
                answer = answer * (1.0 - g) + g * tl.load(state.k + row, mask=inside, other=0.0)
            tl.store(out + row, answer, mask=inside)
    else:
        r = tl.zeros([BLOCK], tl.float32)
        for link in range(first, end):
            m = _message(links, state, link, shots, inside, stride, GOES_ON)
            odd = odd ^ (m < 0)
            tl.store(out + link * stride + shots, r, mask=inside)
            r = _joined(r, tl.exp(-tl.abs(m)))
        tl.debug_barrier()
        r = tl.zeros([BLOCK], tl.float32)
        for k in range(0, end - first):
            link = end - 1 - k
            m = _message(links, state, link, shots, inside, stride, GOES_ON)
            row = link * stride + shots
            others = _joined(tl.load(out + row, mask=inside, other=0.0), r)
            size = tl.minimum(-tl.log(tl.maximum(others, _TINY)), _CAP)
            answer = tl.where(odd ^ (m < 0), -size, size) * tl.load(learned.weight + link)
            if DAMPED:
                answer = answer * (1.0 - g) + g * tl.load(state.k + row, mask=inside, other=0.0)
            tl.store(out + row, answer, mask=inside)
            r = _joined(r, tl.exp(-tl.abs(m)))


@triton.jit(do_not_specialize=["batch"])
def faults_forward(  # type: ignore[no-untyped-def]
    links, learned, prior, earlier, k, q, answer, batch,
    REMEMBERS: tl.constexpr, BOUNDED: tl.constexpr, ANSWERS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """q [fault, shot]: posteriors, from the prior and the messages k, and from those before, `earlier`, where it remembers."""
    fault = tl.program_id(0)
    shots = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = shots < batch
    stride = batch.to(tl.int64)
    row = fault * stride + shots
    total = tl.load(prior + row, mask=inside, other=0.0)
    if REMEMBERS:
        total += tl.load(learned.memory + fault) * (tl.load(earlier + row, mask=inside, other=0.0) - total)
    for i in range(tl.load(links.fault_ptr + fault), tl.load(links.fault_ptr + fault + 1)):
        link = tl.load(links.fault_link + i)
        total += tl.load(k + link * stride + shots, mask=inside, other=0.0)
    if BOUNDED:
        total = tl.minimum(tl.maximum(total, -_FARTHEST), _FARTHEST)
    tl.store(q + row, total, mask=inside)
    if ANSWERS:
        so_far = tl.load(answer + row, mask=inside, other=0.0)
        tl.store(answer + row, so_far + tl.load(learned.readout) * total, mask=inside)


@triton.jit(do_not_specialize=["batch", "blocks"])
def faults_backward(  # type: ignore[no-untyped-def]
    links, learned, prior, earlier, q, above, gradients, batch, blocks,
    FIRST: tl.constexpr, LAST: tl.constexpr, CARRIES: tl.constexpr, REMEMBERS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """`messages` [link, shot], gradients by messages to checks, not yet set if this is the first step back, become those by messages to
    faults.

    above: by the answer and by the last posteriors. gradients: messages and carry [link, shot]; earlier and prior [fault, shot];
    memory and readout [fault, block], sums over the block's shots, added to and set.
    """
    fault = tl.program_id(0)
    block = tl.program_id(1)
    shots = block * BLOCK + tl.arange(0, BLOCK)
    inside = shots < batch
    stride = batch.to(tl.int64)
    row = fault * stride + shots
    start, end = tl.load(links.fault_ptr + fault), tl.load(links.fault_ptr + fault + 1)
    given = tl.load(above.answer + row, mask=inside, other=0.0)
    now = tl.load(q + row, mask=inside, other=0.0)
    tl.store(gradients.readout + fault * blocks + block, tl.sum(given * now, axis=0))
    total = given * tl.load(learned.readout)
    if LAST:
        total += tl.load(above.last + row, mask=inside, other=0.0)
    if not FIRST:
        if REMEMBERS:
            total += tl.load(gradients.earlier + row, mask=inside, other=0.0)
        for k in range(start, end):
            link = tl.load(links.fault_link + k)
            total += tl.load(gradients.messages + link * stride + shots, mask=inside, other=0.0)
    total = tl.where(tl.abs(now) < _FARTHEST, total, 0.0)
    direct = total
    if REMEMBERS:
        u = tl.load(learned.memory + fault)
        tl.store(gradients.earlier + row, u * total, mask=inside)
        direct = total - u * total
        moved = tl.load(earlier + row, mask=inside, other=0.0) - tl.load(prior + row, mask=inside, other=0.0)
        place = gradients.memory + fault * blocks + block
        tl.store(place, tl.load(place) + tl.sum(total * moved, axis=0))
    tl.store(
        gradients.prior + row, tl.load(gradients.prior + row, mask=inside, other=0.0) + direct, mask=inside
    )
    for k in range(start, end):
        at = tl.load(links.fault_link + k) * stride + shots
        by_link = total
        if not FIRST:
            by_link -= tl.load(gradients.messages + at, mask=inside, other=0.0)
        if CARRIES:
            by_link += tl.load(gradients.carry + at, mask=inside, other=0.0)
        tl.store(gradients.messages + at, by_link, mask=inside)


@triton.jit(do_not_specialize=["batch", "blocks"])
def checks_backward(  # type: ignore[no-untyped-def]
    links, state, learned, syndrome, gradients, batch, blocks,
    GOES_ON: tl.constexpr, DAMPED: tl.constexpr, MIN_SUM: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """`messages` [link, shot], gradients by messages to faults, become those by messages to checks; `carry` gets what goes to the messages
    before.

    gradients: messages, carry and scratch [link, shot]; weight [link, block] and damping [check, block], sums over the block's shots.
    """
    check = tl.program_id(0)
    block = tl.program_id(1)
    shots = block * BLOCK + tl.arange(0, BLOCK)
    inside = shots < batch
    stride = batch.to(tl.int64)
    first, end = tl.load(links.check_ptr + check), tl.load(links.check_ptr + check + 1)
    odd = tl.load(syndrome + check * stride + shots, mask=inside, other=0.0) > 0.5
    g = 0.0
    if DAMPED:
        g = tl.load(learned.damping)
    by_g = tl.zeros([BLOCK], tl.float32)
    smallest, second = tl.zeros([BLOCK], tl.float32), tl.zeros([BLOCK], tl.float32)
    at_smallest, at_second = tl.zeros_like(shots), tl.zeros_like(shots)
    if MIN_SUM:
        smallest, second, at_smallest, at_second, odd = _two_smallest(
            links, state, first, end, odd, shots, inside, stride, GOES_ON
        )
    else:
        r = tl.zeros([BLOCK], tl.float32)
        for link in range(first, end):
            m = _message(links, state, link, shots, inside, stride, GOES_ON)
            odd = odd ^ (m < 0)
            tl.store(gradients.scratch + link * stride + shots, r, mask=inside)
            r = _joined(r, tl.exp(-tl.abs(m)))
        tl.debug_barrier()
    r = tl.zeros([BLOCK], tl.float32)
    after, by_second = tl.zeros([BLOCK], tl.float32), tl.zeros([BLOCK], tl.float32)
    for k in range(0, end - first):
        link = end - 1 - k
        m = _message(links, state, link, shots, inside, stride, GOES_ON)
        row = link * stride + shots
        negative = odd ^ (m < 0)
        if MIN_SUM:
            raw = tl.where(at_smallest == link, second, smallest)
            slope = tl.full([BLOCK], 1.0, tl.float32)
        else:
            others = tl.maximum(_joined(tl.load(gradients.scratch + row, mask=inside, other=0.0), r), _TINY)
            raw = tl.minimum(-tl.log(others), _CAP)
            slope = tl.where(raw < _CAP, 0.5 * (1.0 / others - others), 0.0)
            r = _joined(r, tl.exp(-tl.abs(m)))
        raw = tl.where(negative, -raw, raw)
        by_link = tl.load(gradients.messages + row, mask=inside, other=0.0)
        w = tl.load(learned.weight + link)
        if DAMPED:
            by_g += by_link * (tl.load(state.k + row, mask=inside, other=0.0) - raw * w)
            tl.store(gradients.carry + row, by_link * g, mask=inside)
            by_link *= 1.0 - g
        tl.store(gradients.weight + link * blocks + block, tl.sum(by_link * raw, axis=0))
        part = tl.where(negative, -by_link, by_link) * w * slope
        if MIN_SUM:
            sees_second = at_smallest == link
            after += tl.where(sees_second, 0.0, part)
            by_second += tl.where(sees_second, part, 0.0)
        else:
            tl.store(gradients.messages + row, part, mask=inside)
            tl.store(gradients.scratch + row, after, mask=inside)
            after += part
    if DAMPED:
        tl.store(gradients.damping + check * blocks + block, tl.sum(by_g, axis=0))
    tl.debug_barrier()
    earlier = tl.zeros([BLOCK], tl.float32)
    for link in range(first, end):
        m = _message(links, state, link, shots, inside, stride, GOES_ON)
        row = link * stride + shots
        if MIN_SUM:
            by_m = tl.where(at_smallest == link, after, tl.where(at_second == link, by_second, 0.0))
        else:
            e = tl.exp(-tl.abs(m))
            by_m = earlier + tl.load(gradients.scratch + row, mask=inside, other=0.0)
            by_m *= 2.0 * e / tl.maximum(1.0 - e * e, _LEAST)
            earlier += tl.load(gradients.messages + row, mask=inside, other=0.0)
        by_m = tl.where(m < 0, -by_m, by_m)
        tl.store(gradients.messages + row, tl.where(tl.abs(m) < _CLIP, by_m, 0.0), mask=inside)
