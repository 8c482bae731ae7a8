"""Compiled ordered statistics decoding, bit-packed (long: numba's disk cache notices changes of one file only).

With z the hard decision (1 where the log-odds are negative) and y = x xor z, a fault set x explains the
syndrome s when H y = s xor H z, and its weight exceeds that of z by the sum of |log-odds| over y. So the search
is for a cheap y, and non-pivot faults with y = 0 keep their hard decision. With weights other than the log-odds
w, a fault in y costs w, or -w where z = 1.

Columns enter a Gauss-Jordan basis one by one, likeliest flipped first. Slot k of the basis holds a sum of
pivot columns that is 1 in its lead row and 0 in the lead rows of all other slots and, beside it, which pivots
were added, so that a sparse column is reduced by at most as many additions as it has rows. Order 0 stops as soon
as the residual syndrome is spanned: later pivots would have y = 0.

Arrays are taken out of their tuples once per call: taking them out in a loop, or slicing them, costs an atomic reference
count each time.
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
_ZERO = np.uint64(0)
_ONE = np.uint64(1)
_BYTE = np.uint64(255)
_LOW = np.uint64(0xFFFFFFFF)
_SIGN = np.uint32(1 << 31)


class Matrix(NamedTuple):
    """H by columns, col_rows from col_ptr [fault + 1] on, the packed observables [fault, byte] of the faults, and their logical
    classes [fault] as 64-bit words, which add like them."""

    col_ptr: Any
    col_rows: Any
    fault_observables: Any
    fault_classes: Any
    n_checks: Any
    rank: Any


class Odds(NamedTuple):
    """single, double: [shots, n_faults] log-odds in one of them, the other without rows.

    shared: one row for all shots, which one elimination then serves. weights: [n_faults], or empty to weigh candidates by
    the log-odds.
    """

    single: Any
    double: Any
    shared: Any
    weights: Any


class Search(NamedTuple):
    """The order, and how an order above 0 is meant: EXHAUSTIVE or COMBINATION_SWEEP. reach: order of the combination sweep
    whose candidates give the margin."""

    order: Any
    method: Any
    reach: Any


class Margins(NamedTuple):
    """margins: [shots], or no rows where they are not wanted. weights: [n_faults] what candidates weigh in the margin, whatever
    chooses among them; or empty for the log-odds. given_classes, given_weights: [shots] class and weight of the solutions whose
    margins are asked for, or no rows for those found here."""

    margins: Any
    weights: Any
    given_classes: Any
    given_weights: Any


class _Basis(NamedTuple):
    """sums, pivots: [word, slot], with the slots along the last axis, so that a new pivot is cleared from all of them in
    long loops without branches. pivot, lead: [slot] fault and row. slot_of_row: [check], -1 where no slot leads.
    residual, column: bits of a sum, then of its pivots. mask: [slot] scratch.
    """

    sums: Any
    pivots: Any
    pivot: Any
    lead: Any
    slot_of_row: Any
    residual: Any
    column: Any
    mask: Any


@njit
def _empty_basis(n_checks):  # type: ignore[no-untyped-def]
    words = (n_checks + 63) // 64
    return _Basis(
        np.zeros((words, n_checks), np.uint64),
        np.zeros((words, n_checks), np.uint64),
        np.zeros(n_checks, np.int64),
        np.zeros(n_checks, np.int64),
        np.full(n_checks, -1, np.int64),
        np.zeros((2, words), np.uint64),
        np.zeros((2, words), np.uint64),
        np.zeros(n_checks, np.uint64),
    )


@njit
def _extend(col_ptr, col_rows, faults, first, last, n_slots, enough, full, basis):  # type: ignore[no-untyped-def]
    """Add the columns faults[first:last] of H to a basis of `n_slots`; returns the new number of slots.

    Stops at `enough` slots and, unless `full`, as soon as the residual is zero.
    """
    sums, pivots, pivot, lead, slot_of_row, residual, column, mask = basis
    words = sums.shape[0]
    for position in range(first, last):
        left = _ZERO
        for w in range(words):
            left |= residual[0, w]
        if n_slots == enough or (left == _ZERO and not full):
            break
        fault = faults[position]
        for w in range(words):
            column[0, w] = _ZERO
        for i in range(col_ptr[fault], col_ptr[fault + 1]):
            r = col_rows[i]
            column[0, r >> 6] ^= _ONE << np.uint64(r & 63)
            k = slot_of_row[r]
            if k >= 0:
                for w in range(words):
                    column[0, w] ^= sums[w, k]
        word = 0
        while word < words and column[0, word] == _ZERO:
            word += 1
        if word == words:
            continue
        bit = np.uint64(trailing_zeros(column[0, word]))
        for w in range(words):
            column[1, w] = _ZERO
        column[1, n_slots >> 6] = _ONE << np.uint64(n_slots & 63)
        for i in range(col_ptr[fault], col_ptr[fault + 1]):
            k = slot_of_row[col_rows[i]]
            if k >= 0:
                for w in range(words):
                    column[1, w] ^= pivots[w, k]

        for k in range(n_slots):
            mask[k] = _ZERO - ((sums[word, k] >> bit) & _ONE)
        for w in range(words):
            add = column[0, w]
            sums[w, n_slots] = add
            if add != _ZERO:
                for k in range(n_slots):
                    sums[w, k] ^= mask[k] & add
        for w in range(words):
            add = column[1, w]
            pivots[w, n_slots] = add
            if add != _ZERO:
                for k in range(n_slots):
                    pivots[w, k] ^= mask[k] & add
        if (residual[0, word] >> bit) & _ONE:
            for w in range(words):
                residual[0, w] ^= column[0, w]
                residual[1, w] ^= column[1, w]
        lead[n_slots] = 64 * word + np.int64(bit)
        slot_of_row[lead[n_slots]] = n_slots
        pivot[n_slots] = fault
        n_slots += 1
    return n_slots


@njit(cache=True)
def rank(col_ptr, col_rows, n_checks):  # type: ignore[no-untyped-def]
    """Rank of H over GF(2)."""
    n_faults = col_ptr.shape[0] - 1
    basis = _empty_basis(n_checks)
    return _extend(col_ptr, col_rows, np.arange(n_faults), 0, n_faults, 0, n_checks, True, basis)


@njit
def _load(single, double, row, value):  # type: ignore[no-untyped-def]
    """The log-odds of a shot, within +-BOUND; returns whether some are negative or not numbers."""
    unusual = False
    for f in range(value.shape[0]):
        v = np.float64(single[row, f]) if single.shape[0] > 0 else double[row, f]
        unusual |= not v >= 0.0
        v = -BOUND if v < -BOUND else v
        v = BOUND if v > BOUND else v
        value[f] = v + 0.0  # -0.0 is to sort as 0.0
    return unusual


@njit
def _lowest(value, faults):  # type: ignore[no-untyped-def]
    """Put the faults up to some low value first, in the order of their index; returns how many.

    Order 0 rarely looks further than a few per cent, so sorting all would be most of its time. The value is the
    fourth lowest of some 64: how many that takes decides the speed only.
    """
    n = value.shape[0]
    a = b = c = d = np.inf
    for f in range(0, n, max(1, n // 64)):
        v = value[f]
        if v < d:
            d = max(c, v)
            c = min(c, max(b, v))
            b = min(b, max(a, v))
            a = min(a, v)
    count = 0
    for f in range(n):
        faults[count] = f
        count += value[f] <= d
    return count


@njit
def _sort(value, faults, n, keys, count):  # type: ignore[no-untyped-def]
    """Sort faults[:n], given by ascending index, by (value, index). keys: [2, n_faults], count: [257] scratch.

    A radix sort on the bits of the value in single precision, the fault riding in the low half of the key, and
    one insertion pass for values that differ only in double precision.
    """
    single = np.empty(1, np.float32)
    bits = single.view(np.uint32)
    varying = _ZERO
    for i in range(n):
        single[0] = value[faults[i]]
        key = bits[0]
        # Negative numbers run backwards: turn them round, and put them below the others.
        key = ~key if key & _SIGN else key | _SIGN
        keys[0, i] = (np.uint64(key) << np.uint64(32)) | np.uint64(faults[i])
        varying |= keys[0, i] ^ keys[0, 0]
    side = 0
    for digit in range(4, 8):
        shift = np.uint64(8 * digit)
        if (varying >> shift) & _BYTE == _ZERO:
            continue
        for b in range(257):
            count[b] = 0
        for i in range(n):
            count[((keys[side, i] >> shift) & _BYTE) + _ONE] += 1
        for b in range(256):
            count[b + 1] += count[b]
        for i in range(n):
            key = keys[side, i]
            b = (key >> shift) & _BYTE
            to = count[b]
            count[b] = to + 1
            keys[1 - side, to] = key
        side = 1 - side
    for i in range(n):
        f = np.int64(keys[side, i] & _LOW)
        k = i
        while k > 0 and value[faults[k - 1]] > value[f]:
            faults[k] = faults[k - 1]
            k -= 1
        faults[k] = f


@njit
def _is_zero(residual):  # type: ignore[no-untyped-def]
    for w in range(residual.shape[1]):
        if residual[0, w] != _ZERO:
            return False
    return True


@njit(inline="always")
def _price(table, combos, row):  # type: ignore[no-untyped-def]
    """Change of weight when the pivots in combos[row] flip."""
    total = 0.0
    for b in range(table.shape[0]):
        total += table[b, (combos[row, b >> 3] >> np.uint64(8 * (b & 7))) & _BYTE]
    return total


@njit(inline="always")
def _combine(col_ptr, col_rows, pivots, slot_of_row, fault, combos, row):  # type: ignore[no-untyped-def]
    """combos[row] = the pivots that sum to a column of H; the basis is full."""
    for w in range(combos.shape[1]):
        combos[row, w] = _ZERO
    for i in range(col_ptr[fault], col_ptr[fault + 1]):
        k = slot_of_row[col_rows[i]]
        if k >= 0:
            for w in range(combos.shape[1]):
                combos[row, w] ^= pivots[w, k]


@njit
def _tabulate(table, cost, pivot, n_slots, residual):  # type: ignore[no-untyped-def]
    """table[b, byte] = change of weight when the pivots 8 b + (bits of byte) flip.

    Returns what flipping pivots can save at most.
    """
    saving = 0.0
    for b in range(table.shape[0]):
        table[b, 0] = 0.0
        for i in range(8):
            k = 8 * b + i
            delta = 0.0
            if k < n_slots:
                delta = cost[pivot[k]]
                if (residual[1, k >> 6] >> np.uint64(k & 63)) & _ONE:
                    delta = -delta
                saving += max(0.0, -delta)
            for low in range(1 << i):
                table[b, (1 << i) + low] = table[b, low] + delta
    return saving


@njit
def _sweep(  # type: ignore[no-untyped-def]
    col_ptr, col_rows, basis, is_pivot, faults, cost, search, table, saving, combos, flips
):  # fmt: skip
    """Find the best pattern of non-pivot flips; puts its faults first in `flips` and returns how many.

    The pivots in use (residual[1]) become those of that pattern. combos: [order + 2, words] the pivots that
    make up for each of the first `order` non-pivot faults, then the trial and the best pattern so far.
    flips: [order + 2], from place 2 on the first `order` non-pivot faults.
    """
    pivots, slot_of_row, residual = basis.pivots, basis.slot_of_row, basis.residual
    order, method = search.order, search.method
    words = residual.shape[1]
    trial = order
    chosen = order + 1
    for w in range(words):
        combos[chosen, w] = _ZERO
    best = 0.0
    n_flips = 0
    depth = 0
    for i in range(cost.shape[0]):
        f = faults[i]
        if is_pivot[f]:
            continue
        if depth < order:
            _combine(col_ptr, col_rows, pivots, slot_of_row, f, combos, depth)
            flips[2 + depth] = f
            depth += 1
        elif method == EXHAUSTIVE:
            break
        if method == COMBINATION_SWEEP and cost[f] - saving < best - _BETTER:
            _combine(col_ptr, col_rows, pivots, slot_of_row, f, combos, trial)
            delta = cost[f] + _price(table, combos, trial)
            if delta < best - _BETTER:
                best = delta
                n_flips = 1
                flips[0] = f
                for w in range(words):
                    combos[chosen, w] = combos[trial, w]

    if method == COMBINATION_SWEEP:
        for i in range(depth):
            for k in range(i + 1, depth):
                price = cost[flips[2 + i]] + cost[flips[2 + k]]
                if price - saving < best - _BETTER:
                    for w in range(words):
                        combos[trial, w] = combos[i, w] ^ combos[k, w]
                    delta = price + _price(table, combos, trial)
                    if delta < best - _BETTER:
                        best = delta
                        n_flips = 2
                        flips[0] = flips[2 + i]
                        flips[1] = flips[2 + k]
                        for w in range(words):
                            combos[chosen, w] = combos[trial, w]
    else:
        # All patterns in Gray order: one fault flips from each to the next.
        pattern = 0
        best_pattern = 0
        for w in range(words):
            combos[trial, w] = _ZERO
        price = 0.0
        for step in range(1, 1 << depth):
            i = 0
            while not (step >> i) & 1:
                i += 1
            pattern ^= 1 << i
            extra = cost[flips[2 + i]]
            price += extra if (pattern >> i) & 1 else -extra
            for w in range(words):
                combos[trial, w] ^= combos[i, w]
            if price - saving < best - _BETTER:
                delta = price + _price(table, combos, trial)
                if delta < best - _BETTER:
                    best = delta
                    best_pattern = pattern
                    for w in range(words):
                        combos[chosen, w] = combos[trial, w]
        for i in range(depth):
            if (best_pattern >> i) & 1:
                flips[n_flips] = flips[2 + i]
                n_flips += 1

    for w in range(words):
        residual[1, w] ^= combos[chosen, w]
    return n_flips


@njit
def _tabulate_classes(classes, fault_classes, pivot, n_slots):  # type: ignore[no-untyped-def]
    """classes[b, byte] = the class of the pivots 8 b + (bits of byte)."""
    for b in range(classes.shape[0]):
        classes[b, 0] = _ZERO
        for i in range(8):
            k = 8 * b + i
            own = fault_classes[pivot[k]] if k < n_slots else _ZERO
            for low in range(1 << i):
                classes[b, (1 << i) + low] = classes[b, low] ^ own


@njit(inline="always")
def _class_of(classes, combos, row):  # type: ignore[no-untyped-def]
    """Class of the pivots in combos[row]."""
    total = _ZERO
    for b in range(classes.shape[0]):
        total ^= classes[b, (combos[row, b >> 3] >> np.uint64(8 * (b & 7))) & _BYTE]
    return total


@njit
def _margin(  # type: ignore[no-untyped-def]
    matrix, basis, is_pivot, faults, cost, reach, table, classes, saving, combos, near, answer, answer_class
):  # fmt: skip
    """Weight of the lightest candidate of another class than the answer's, less that of the lightest of its own.

    The answer's weight and class count from the order-0 solution, which is the first candidate, as those of the table do.
    combos: [reach + 1, words], near: [reach] scratch. Infinite where every candidate has the answer's class.
    """
    col_ptr, col_rows, fault_classes = matrix.col_ptr, matrix.col_rows, matrix.fault_classes
    pivots, slot_of_row = basis.pivots, basis.slot_of_row
    words = combos.shape[1]
    own, rival = answer, np.inf
    if answer_class == _ZERO:
        own = min(own, 0.0)
    else:
        rival = 0.0
    depth = 0
    for i in range(cost.shape[0]):
        f = faults[i]
        if is_pivot[f] or (depth == reach and cost[f] - saving >= max(own, rival)):
            continue
        _combine(col_ptr, col_rows, pivots, slot_of_row, f, combos, depth)
        delta = cost[f] + _price(table, combos, depth)
        if fault_classes[f] ^ _class_of(classes, combos, depth) == answer_class:
            own = min(own, delta)
        else:
            rival = min(rival, delta)
        if depth < reach:
            near[depth] = f
            depth += 1
    for i in range(depth):
        for k in range(i + 1, depth):
            price = cost[near[i]] + cost[near[k]]
            if price - saving >= max(own, rival):
                continue
            for w in range(words):
                combos[reach, w] = combos[i, w] ^ combos[k, w]
            delta = price + _price(table, combos, reach)
            pair = fault_classes[near[i]] ^ fault_classes[near[k]]
            if pair ^ _class_of(classes, combos, reach) == answer_class:
                own = min(own, delta)
            else:
                rival = min(rival, delta)
    # Ties of the answer with another class are broken within _BETTER.
    return rival - own if abs(rival - own) > _BETTER else 0.0


@njit
def _flip(fault_observables, fault, shot, observables, corrections):  # type: ignore[no-untyped-def]
    for b in range(observables.shape[1]):
        observables[shot, b] ^= fault_observables[fault, b]
    if corrections.shape[0] > 0:
        corrections[shot, fault >> 3] ^= np.uint8(1 << (fault & 7))


@njit(cache=True, nogil=True)
def decode(matrix, odds, search, detectors, start, stop, observables, corrections, wanted):  # type: ignore[no-untyped-def]
    """Decode shots `start <= shot < stop` into zeroed rows of `observables`, corrections.faults, corrections.weights and
    wanted.margins (`Margins`).

    Corrections and margins may have no rows where they are not wanted. Returns (status, shot, fault).
    """
    col_ptr, col_rows, fault_observables, fault_classes, n_checks, full_rank = matrix
    single, double, shared, own_weights = odds
    chosen_faults, weights = corrections
    margins, margin_weights, given_classes, given_weights = wanted
    order, reach = search.order, search.reach
    with_margins = margins.shape[0] > 0
    n_faults = col_ptr.shape[0] - 1
    words = (n_checks + 63) // 64
    full = order > 0 or shared or with_margins
    basis = _empty_basis(n_checks)
    sums, pivots, pivot, lead = basis.sums, basis.pivots, basis.pivot, basis.lead
    slot_of_row, residual = basis.slot_of_row, basis.residual
    is_pivot = np.zeros(n_faults, np.bool_)
    value = np.empty(n_faults, np.float64)
    cost = np.empty(n_faults, np.float64)  # of flipping a fault, from its hard decision
    faults = np.empty(n_faults, np.int64)
    keys = np.empty((2, n_faults), np.uint64)
    count = np.empty(257, np.int64)
    n_bytes = (full_rank + 7) // 8
    table = np.empty((n_bytes if order > 0 else 0, 256), np.float64)
    rated = np.empty((n_bytes if with_margins else 0, 256), np.float64)
    classes = np.empty((n_bytes if with_margins else 0, 256), np.uint64)
    rating = np.empty(n_faults if with_margins else 0, np.float64)  # what `cost` is, in the margin
    combos = np.empty((max(order, reach) + 2, words), np.uint64)
    flips = np.empty(order + 2, np.int64)
    near = np.empty(reach, np.int64)
    n_slots = 0
    loaded = False
    unusual = False
    built = False

    for shot in range(start, stop):
        if not shared or not loaded:
            loaded = True
            unusual = _load(single, double, 0 if shared else shot, value)
            for f in range(n_faults):
                cost[f] = abs(value[f])
            if own_weights.shape[0] > 0:
                for f in range(n_faults):
                    cost[f] = -own_weights[f] if value[f] < 0.0 else own_weights[f]
            for f in range(rating.shape[0]):
                rating[f] = abs(value[f])
                if margin_weights.shape[0] > 0:
                    rating[f] = -margin_weights[f] if value[f] < 0.0 else margin_weights[f]
        for w in range(words):
            residual[0, w] = _ZERO
            residual[1, w] = _ZERO
        for b in range(detectors.shape[1]):
            residual[0, b >> 3] |= np.uint64(detectors[shot, b]) << np.uint64(8 * (b & 7))
        weight = 0.0
        base = 0.0  # weight of the order-0 solution in the margin
        base_class = _ZERO
        if unusual:
            for f in range(n_faults):
                if not value[f] >= 0.0:
                    if np.isnan(value[f]):
                        return NOT_A_NUMBER, shot, f
                    weight -= cost[f]
                    if with_margins:
                        base -= rating[f]
                        base_class ^= fault_classes[f]
                    _flip(fault_observables, f, shot, observables, chosen_faults)
                    for i in range(col_ptr[f], col_ptr[f + 1]):
                        r = col_rows[i]
                        residual[0, r >> 6] ^= _ONE << np.uint64(r & 63)

        is_explained = _is_zero(residual)
        if with_margins or not is_explained:
            if shared and built:
                for k in range(n_slots):
                    r = lead[k]
                    if (residual[0, r >> 6] >> np.uint64(r & 63)) & _ONE:
                        for w in range(words):
                            residual[0, w] ^= sums[w, k]
                            residual[1, w] ^= pivots[w, k]
            else:
                built = True
                for k in range(n_slots):
                    slot_of_row[lead[k]] = -1
                    is_pivot[pivot[k]] = False
                n_slots = 0
                first = 0
                last = n_faults if full else _lowest(value, faults)
                while True:
                    if last == n_faults:
                        for f in range(n_faults):
                            faults[f] = f
                    _sort(value, faults, last, keys, count)
                    n_slots = _extend(col_ptr, col_rows, faults, first, last, n_slots, full_rank, full, basis)
                    if last == n_faults or _is_zero(residual):
                        break
                    first, last = last, n_faults
                for k in range(n_slots):
                    is_pivot[pivot[k]] = True
                if with_margins:
                    _tabulate_classes(classes, fault_classes, pivot, n_slots)
            if not _is_zero(residual):
                return NO_SOLUTION, shot, -1
            most = 0.0
            if with_margins:
                most = _tabulate(rated, rating, pivot, n_slots, residual)
                for k in range(n_slots):
                    if (residual[1, k >> 6] >> np.uint64(k & 63)) & _ONE:
                        base += rating[pivot[k]]
                        base_class ^= fault_classes[pivot[k]]
            answer, answer_class = 0.0, _ZERO  # from the order-0 solution
            if order > 0 and not is_explained:
                saving = _tabulate(table, cost, pivot, n_slots, residual)
                n_flips = _sweep(
                    col_ptr, col_rows, basis, is_pivot, faults, cost, search, table, saving, combos, flips
                )
                for i in range(n_flips):
                    weight += cost[flips[i]]
                    _flip(fault_observables, flips[i], shot, observables, chosen_faults)
                if with_margins:
                    answer = _price(rated, combos, order + 1)
                    answer_class = _class_of(classes, combos, order + 1)
                    for i in range(n_flips):
                        answer += rating[flips[i]]
                        answer_class ^= fault_classes[flips[i]]
            for k in range(n_slots):
                if (residual[1, k >> 6] >> np.uint64(k & 63)) & _ONE:
                    weight += cost[pivot[k]]
                    _flip(fault_observables, pivot[k], shot, observables, chosen_faults)
            if with_margins:
                if given_classes.shape[0] > 0:
                    answer, answer_class = given_weights[shot] - base, given_classes[shot] ^ base_class
                margins[shot] = _margin(
                    matrix, basis, is_pivot, faults, rating, reach, rated, classes, most, combos, near, answer, answer_class
                )  # fmt: skip
        if weights.shape[0] > 0:
            weights[shot] = weight
    return OK, -1, -1
