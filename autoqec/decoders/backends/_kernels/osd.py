"""Compiled ordered statistics decoding, one shot at a time, bit-packed.

With z the hard decision (1 where the log-odds are negative) and y = x xor z, a fault set x explains the
syndrome s when H y = s xor H z, and its weight exceeds that of z by the sum of |log-odds| over y. So the search
is for a light y, and non-pivot faults with y = 0 keep their hard decision.

Columns enter a Gauss-Jordan basis one by one, likeliest flipped first. Slot k of the basis holds a sum of
pivot columns that is 1 in its lead row and 0 in the lead rows of all other slots and, beside it, which pivots
were added, so that a sparse column is reduced by at most as many additions as it has rows. Order 0 stops as soon
as the residual syndrome is spanned: later pivots would have y = 0.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numba.cpython.unsafe.numbers import trailing_zeros

OK = 0
NOT_A_NUMBER = 1
NO_SOLUTION = 2

EXHAUSTIVE = 0
COMBINATION_SWEEP = 1

BOUND = 1e9  # infinite log-odds count as this much, so that sums stay finite
_BETTER = 1e-9  # by how much a candidate must be lighter: keeps rounding from breaking ties
_BUCKETS = 256
_ONE = np.uint64(1)
_BYTE = np.uint64(255)
_SIGN = np.uint64(1 << 63)
_SHORT = 24  # up to here insertion sort is the faster one


class Matrices(NamedTuple):
    """Columns of H (CSC) and of L (bit-packed, one row per fault)."""

    col_ptr: Any
    col_rows: Any
    observables: Any
    n_checks: int
    rank: int


class Basis(NamedTuple):
    """sums: [word, slot] sums of pivot columns; pivots: [word, slot] which slots' pivots were added.

    pivot, lead: [slot] fault and row; slot_of_row: [check], -1 where no slot leads; is_pivot: [fault].
    residual, column: a vector like a sum, followed by its pivots; mask: [slot] scratch.
    Slots run along the last axis so that one new pivot is cleared from all of them in long, branch-free loops.
    """

    sums: Any
    pivots: Any
    pivot: Any
    lead: Any
    slot_of_row: Any
    is_pivot: Any
    residual: Any
    column: Any
    mask: Any


class Queue(NamedTuple):
    """Faults by ascending log-odds: split into buckets at once, each bucket sorted when it is reached."""

    order: Any
    bucket: Any
    ends: Any
    keys: Any
    spare_keys: Any
    spare_order: Any
    count: Any


@njit(cache=True)
def _words(n_bits):  # type: ignore[no-untyped-def]
    return (n_bits + 63) // 64


@njit(cache=True)
def _new_basis(m):  # type: ignore[no-untyped-def]
    half = _words(m.n_checks)
    n_faults = m.col_ptr.shape[0] - 1
    return Basis(
        np.zeros((half, m.n_checks), np.uint64),
        np.zeros((half, m.n_checks), np.uint64),
        np.zeros(m.n_checks, np.int64),
        np.zeros(m.n_checks, np.int64),
        np.full(m.n_checks, -1, np.int64),
        np.zeros(n_faults, np.bool_),
        np.zeros(2 * half, np.uint64),
        np.zeros(2 * half, np.uint64),
        np.zeros(m.n_checks, np.uint64),
    )


@njit(cache=True)
def _clear(basis, n_slots):  # type: ignore[no-untyped-def]
    for k in range(n_slots):
        basis.slot_of_row[basis.lead[k]] = -1
        basis.is_pivot[basis.pivot[k]] = False


@njit(cache=True)
def _combination(m, basis, fault, out):  # type: ignore[no-untyped-def]
    """Which pivots sum to a column of H, in the lead rows."""
    for w in range(out.shape[0]):
        out[w] = 0
    for i in range(m.col_ptr[fault], m.col_ptr[fault + 1]):
        k = basis.slot_of_row[m.col_rows[i]]
        if k >= 0:
            for w in range(out.shape[0]):
                out[w] ^= basis.pivots[w, k]


@njit(cache=True)
def _add_where(row, mask, word, n_slots):  # type: ignore[no-untyped-def]
    if word != 0:
        for k in range(n_slots):
            row[k] ^= mask[k] & word


@njit(cache=True)
def _insert(m, basis, n_slots, fault):  # type: ignore[no-untyped-def]
    """Add a column of H to a basis of `n_slots`; False if the basis spans it already."""
    sums, pivots, column, residual = basis.sums, basis.pivots, basis.column, basis.residual
    half = sums.shape[0]
    first, last = m.col_ptr[fault], m.col_ptr[fault + 1]
    for w in range(half):
        column[w] = 0
    for i in range(first, last):
        r = m.col_rows[i]
        column[r >> 6] ^= _ONE << np.uint64(r & 63)
    for i in range(first, last):
        k = basis.slot_of_row[m.col_rows[i]]
        if k >= 0:
            for w in range(half):
                column[w] ^= sums[w, k]
    word = 0
    while word < half and column[word] == 0:
        word += 1
    if word == half:
        return False
    bit = np.uint64(trailing_zeros(column[word]))
    _combination(m, basis, fault, column[half:])
    column[half + (n_slots >> 6)] ^= _ONE << np.uint64(n_slots & 63)

    mask = basis.mask
    for k in range(n_slots):
        mask[k] = np.uint64(0) - ((sums[word, k] >> bit) & _ONE)
    for w in range(half):
        _add_where(sums[w], mask, column[w], n_slots)
        sums[w, n_slots] = column[w]
    for w in range(half):
        _add_where(pivots[w], mask, column[half + w], n_slots)
        pivots[w, n_slots] = column[half + w]
    if (residual[word] >> bit) & _ONE:
        for w in range(2 * half):
            residual[w] ^= column[w]
    row = 64 * word + np.int64(bit)
    basis.slot_of_row[row] = n_slots
    basis.lead[n_slots] = row
    basis.pivot[n_slots] = fault
    basis.is_pivot[fault] = True
    return True


@njit(cache=True)
def rank(m):  # type: ignore[no-untyped-def]
    """Rank of H over GF(2); `m.rank` is not read."""
    basis = _new_basis(m)
    n_slots = 0
    for f in range(m.col_ptr.shape[0] - 1):
        if _insert(m, basis, n_slots, f):
            n_slots += 1
            if n_slots == m.n_checks:
                break
    return n_slots


@njit(cache=True)
def _new_queue(n_faults):  # type: ignore[no-untyped-def]
    return Queue(
        np.empty(n_faults, np.int64),
        np.empty(n_faults, np.uint8),
        np.empty(_BUCKETS + 1, np.int64),
        np.empty(n_faults, np.uint64),
        np.empty(n_faults, np.uint64),
        np.empty(n_faults, np.int64),
        np.empty(257, np.int64),
    )


@njit(cache=True)
def _fill(queue, value):  # type: ignore[no-untyped-def]
    """Split the faults into buckets of ascending `value`, by index within a bucket."""
    n = value.shape[0]
    low = np.inf
    total = 0.0
    for f in range(n):
        low = min(low, value[f])
        total += value[f]
    # Log-odds have a long tail above; what counts is resolution from the lowest up to the bulk.
    high = 2.0 * total / n - low
    scale = (_BUCKETS - 1) / (high - low) if high - low > 1e-12 else 0.0
    ends = queue.ends
    for b in range(_BUCKETS + 1):
        ends[b] = 0
    for f in range(n):
        b = np.int64(min((value[f] - low) * scale, _BUCKETS - 1.0))
        queue.bucket[f] = b
        ends[b + 1] += 1
    for b in range(_BUCKETS):
        ends[b + 1] += ends[b]
    for f in range(n):
        b = queue.bucket[f]
        queue.order[ends[b]] = f
        ends[b] += 1  # from the start of bucket b to its end


@njit(cache=True)
def _sort(queue, value, start, stop):  # type: ignore[no-untyped-def]
    """Sort order[start:stop] by `value`; stable, so that ties stay in the order of the faults."""
    order = queue.order
    if stop - start <= _SHORT:
        for i in range(start + 1, stop):
            f = order[i]
            k = i
            while k > start and value[order[k - 1]] > value[f]:
                order[k] = order[k - 1]
                k -= 1
            order[k] = f
        return
    # Radix sort on the bits of the float64, with negative numbers turned round.
    bits = value.view(np.uint64)
    keys, other_keys = queue.keys, queue.spare_keys
    faults, other_faults = order, queue.spare_order
    count = queue.count
    varying = np.uint64(0)
    for i in range(start, stop):
        key = bits[order[i]]
        keys[i] = ~key if key & _SIGN else key | _SIGN
        varying |= keys[i] ^ keys[start]
    for d in range(8):
        shift = np.uint64(8 * d)
        if (varying >> shift) & _BYTE == 0:
            continue
        for b in range(257):
            count[b] = 0
        for i in range(start, stop):
            count[((keys[i] >> shift) & _BYTE) + _ONE] += 1
        count[0] = start
        for b in range(256):
            count[b + 1] += count[b]
        for i in range(start, stop):
            b = (keys[i] >> shift) & _BYTE
            to = count[b]
            count[b] = to + 1
            other_keys[to] = keys[i]
            other_faults[to] = faults[i]
        keys, other_keys = other_keys, keys
        faults, other_faults = other_faults, faults
    for i in range(start, stop):
        order[i] = faults[i]


@njit(cache=True)
def _eliminate(m, basis, queue, value, full, order):  # type: ignore[no-untyped-def]
    """Build the basis from an empty one; returns the number of slots.

    Unless `full`, stops as soon as the residual is spanned. Otherwise goes on to the rank of H and until
    `order` non-pivot faults have come out of the queue; the rest of it stays in buckets.
    """
    half = basis.sums.shape[0]
    n_slots = 0
    start = 0
    for b in range(_BUCKETS):
        stop = queue.ends[b]
        if stop > start:
            _sort(queue, value, start, stop)
        for i in range(start, stop):
            if n_slots == m.rank:
                break
            if _insert(m, basis, n_slots, queue.order[i]):
                n_slots += 1
                if not full and _is_zero(basis.residual, half):
                    return n_slots
        start = stop
        if n_slots == m.rank and start - n_slots >= order:
            break
    return n_slots


@njit(cache=True)
def _is_zero(vector, n_words):  # type: ignore[no-untyped-def]
    for w in range(n_words):
        if vector[w] != 0:
            return False
    return True


@njit(cache=True)
def _reduce(basis, n_slots):  # type: ignore[no-untyped-def]
    """Subtract the basis from the residual: needed where the basis is older than the residual."""
    residual = basis.residual
    for k in range(n_slots):
        r = basis.lead[k]
        if (residual[r >> 6] >> np.uint64(r & 63)) & _ONE:
            for w in range(basis.sums.shape[0]):
                residual[w] ^= basis.sums[w, k]
                residual[basis.sums.shape[0] + w] ^= basis.pivots[w, k]


@njit(cache=True)
def _price(table, pivots):  # type: ignore[no-untyped-def]
    """Change of weight when the given pivots flip: one look-up per eight of them."""
    total = 0.0
    for b in range(table.shape[0]):
        byte = (pivots[b >> 3] >> np.uint64(8 * (b & 7))) & np.uint64(255)
        total += table[b, byte]
    return total


@njit(cache=True)
def _sweep(m, basis, n_slots, queue, value, order, method, table, combos, flips):  # type: ignore[no-untyped-def]
    """Find the best pattern of non-pivot flips; writes its faults to `flips`, returns how many.

    The residual's pivot part is updated to the solution of that pattern.
    """
    n_faults = value.shape[0]
    half = basis.residual.shape[0] // 2
    spent = 0.0  # no pattern can gain more than this
    for b in range(table.shape[0]):
        table[b, 0] = 0.0
        for i in range(8):
            k = 8 * b + i
            delta = 0.0
            if k < n_slots:
                delta = abs(value[basis.pivot[k]])
                if (basis.residual[half + (k >> 6)] >> np.uint64(k & 63)) & _ONE:
                    spent += delta
                    delta = -delta
            for low in range(1 << i):
                table[b, (1 << i) + low] = table[b, low] + delta

    trial = combos[order]
    chosen = combos[order + 1]
    for w in range(half):
        chosen[w] = 0
    best = 0.0
    n_flips = 0
    depth = 0
    for i in range(n_faults):
        f = queue.order[i]
        if basis.is_pivot[f]:
            continue
        cost = abs(value[f])
        if depth < order:
            _combination(m, basis, f, combos[depth])
            flips[2 + depth] = f
            depth += 1
        elif method == EXHAUSTIVE:
            break
        if method == COMBINATION_SWEEP and cost - spent < best - _BETTER:
            _combination(m, basis, f, trial)
            delta = cost + _price(table, trial)
            if delta < best - _BETTER:
                best = delta
                n_flips = 1
                flips[0] = f
                for w in range(half):
                    chosen[w] = trial[w]

    if method == COMBINATION_SWEEP:
        for i in range(depth):
            for k in range(i + 1, depth):
                f, g = flips[2 + i], flips[2 + k]
                cost = abs(value[f]) + abs(value[g])
                if cost - spent < best - _BETTER:
                    for w in range(half):
                        trial[w] = combos[i, w] ^ combos[k, w]
                    delta = cost + _price(table, trial)
                    if delta < best - _BETTER:
                        best = delta
                        n_flips = 2
                        flips[0] = f
                        flips[1] = g
                        for w in range(half):
                            chosen[w] = trial[w]
    else:
        # All patterns in Gray order: one fault flips from each to the next.
        pattern = 0
        best_pattern = 0
        for w in range(half):
            trial[w] = 0
        cost = 0.0
        for step in range(1, 1 << depth):
            i = 0
            while not (step >> i) & 1:
                i += 1
            pattern ^= 1 << i
            sign = 1.0 if (pattern >> i) & 1 else -1.0
            cost += sign * abs(value[flips[2 + i]])
            for w in range(half):
                trial[w] ^= combos[i, w]
            if cost - spent < best - _BETTER:
                delta = cost + _price(table, trial)
                if delta < best - _BETTER:
                    best = delta
                    best_pattern = pattern
                    for w in range(half):
                        chosen[w] = trial[w]
        for i in range(depth):
            if (best_pattern >> i) & 1:
                flips[n_flips] = flips[2 + i]
                n_flips += 1

    for w in range(half):
        basis.residual[half + w] ^= chosen[w]
    return n_flips


@njit(cache=True)
def _flip(m, fault, shot, observables, faults):  # type: ignore[no-untyped-def]
    for b in range(observables.shape[1]):
        observables[shot, b] ^= m.observables[fault, b]
    if faults.shape[0] > 0:
        faults[shot, fault >> 3] ^= np.uint8(1 << (fault & 7))


@njit(cache=True, nogil=True)
def decode(  # type: ignore[no-untyped-def]
    m, detectors, odds, start, stop, order, method, observables, faults, weights
):
    """Decode shots `start <= shot < stop` into zeroed rows of `observables`, `faults` and `weights`.

    odds: [shots, n_faults] log-odds, or one row for all shots, which are then served by one elimination.
    faults and weights may have no rows when they are not wanted. Returns (status, shot, fault).
    """
    n_faults = m.col_ptr.shape[0] - 1
    half = _words(m.n_checks)
    shared = odds.shape[0] == 1
    full = order > 0 or shared
    basis = _new_basis(m)
    queue = _new_queue(n_faults)
    value = np.empty(n_faults, np.float64)
    table = np.empty(((m.rank + 7) // 8 if order > 0 else 0, 256), np.float64)
    combos = np.empty((order + 2, half), np.uint64)
    flips = np.empty(order + 2, np.int64)
    residual = basis.residual
    n_slots = 0
    built = False
    last_word = np.uint64(0xFFFFFFFFFFFFFFFF)
    if m.n_checks & 63:
        last_word = (_ONE << np.uint64(m.n_checks & 63)) - _ONE

    for shot in range(start, stop):
        row = 0 if shared else shot
        for w in range(2 * half):
            residual[w] = 0
        for b in range(detectors.shape[1]):
            residual[b >> 3] |= np.uint64(detectors[shot, b]) << np.uint64(8 * (b & 7))
        if half > 0:
            residual[half - 1] &= last_word
        unusual = False  # negative or not a number
        for f in range(n_faults):
            unusual |= not (odds[row, f] >= 0)
        weight = 0.0
        if unusual:
            for f in range(n_faults):
                if not (odds[row, f] >= 0):
                    if np.isnan(odds[row, f]):
                        return NOT_A_NUMBER, row, f
                    weight += max(odds[row, f], -BOUND)
                    _flip(m, f, shot, observables, faults)
                    for i in range(m.col_ptr[f], m.col_ptr[f + 1]):
                        r = m.col_rows[i]
                        residual[r >> 6] ^= _ONE << np.uint64(r & 63)
        if not _is_zero(residual, half):
            if shared and built:
                _reduce(basis, n_slots)
            else:
                for f in range(n_faults):
                    value[f] = min(max(odds[row, f], -BOUND), BOUND)
                _clear(basis, n_slots)
                _fill(queue, value)
                n_slots = _eliminate(m, basis, queue, value, full, order)
                built = True
            if not _is_zero(residual, half):
                return NO_SOLUTION, shot, -1
            if order > 0:
                for i in range(
                    _sweep(m, basis, n_slots, queue, value, order, method, table, combos, flips)
                ):
                    weight += abs(value[flips[i]])
                    _flip(m, flips[i], shot, observables, faults)
            for k in range(n_slots):
                if (residual[half + (k >> 6)] >> np.uint64(k & 63)) & _ONE:
                    weight += abs(value[basis.pivot[k]])
                    _flip(m, basis.pivot[k], shot, observables, faults)
        if weights.shape[0] > 0:
            weights[shot] = weight
    return OK, -1, -1
