"""Compiled sweep over the detectors that keeps the likeliest patterns only (`decoders.pruned_sweep`).

A pattern is a 64-bit word: observables first, then the open detectors, each in a slot that another one takes over when it is done. A hash table
finds the pattern that a fault leads to. Work that is counted: one pattern under one fault.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit

_ONE = np.uint64(1)
_BYTE = np.uint64(255)
_BITS = np.uint64(8)
_SPREAD = np.uint64(0x9E3779B97F4A7C15)
_HIGH = np.uint64(32)
_COARSE = np.uint64(49)
"""Of a double, the bits above are the exponent and eighths: patterns are compared that finely when the unlikely ones are dropped."""
_CLASSES = 1024


class Steps(NamedTuple):
    """One detector after the other.

    pattern, chance: of the faults, those of step i from fault_ptr[i] on. opened, opened_bit: detectors that are open from step i on, from
    opened_ptr[i] on. bit: of the detector that is done after the step. rest: [step, byte, 256] how much less likely what is still to come makes
    a pattern, for each byte of the open detectors that it leaves unexplained.
    """

    pattern: Any
    chance: Any
    fault_ptr: Any
    opened: Any
    opened_bit: Any
    opened_ptr: Any
    bit: Any
    rest: Any


class Patterns(NamedTuple):
    """The patterns that are kept, their probabilities, their scores while some are dropped, and the hash table of their places."""

    words: Any
    chances: Any
    scores: Any
    table: Any
    counts: Any


@njit(cache=True, nogil=True, inline="always")
def _place(table, words, word):  # type: ignore[no-untyped-def]
    """Where the table has a pattern, or would."""
    mask = np.uint64(len(table) - 1)
    at = ((word * _SPREAD) >> _HIGH) & mask
    while table[at] >= 0 and words[table[at]] != word:
        at = (at + _ONE) & mask
    return at


@njit(cache=True, nogil=True)
def _index(kept: Patterns, n: int) -> None:
    table, words = kept.table, kept.words
    table[:] = -1
    for i in range(n):
        table[_place(table, words, words[i])] = i


@njit(cache=True, nogil=True)
def _prune(kept: Patterns, n: int, most: int, fired: Any, rest: Any) -> int:
    """Keeps at most `most` patterns, the likeliest by what they are and by what they leave unexplained."""
    words, chances, scores, counts = kept.words, kept.chances, kept.scores, kept.counts
    largest = 0.0
    for i in range(n):
        left = words[i] ^ fired
        score = chances[i]
        byte = 0
        while left:
            score *= rest[byte, left & _BYTE]
            left >>= _BITS
            byte += 1
        scores[i] = score
        largest = max(largest, score)
    scores[n] = largest
    coarse = scores.view(np.uint64)
    top = coarse[n] >> _COARSE
    counts[:] = 0
    for i in range(n):
        counts[min(top - (coarse[i] >> _COARSE), np.uint64(_CLASSES - 1))] += 1
    total, end = 0, 0
    while end < _CLASSES and (total == 0 or total + counts[end] <= most):
        total += counts[end]
        end += 1
    m = 0
    for i in range(n):
        if top - (coarse[i] >> _COARSE) < np.uint64(end) and m < most:
            words[m], chances[m] = words[i], chances[i]
            m += 1
    return m


@njit(cache=True, nogil=True)
def _fault(kept: Patterns, n: int, pattern: Any, p: float) -> int:
    """P <- (1 - p) P + p P[. xor fault]."""
    words, chances, table = kept.words, kept.chances, kept.table
    m = n
    for i in range(n):
        other = words[i] ^ pattern
        at = _place(table, words, other)
        j = table[at]
        if j < 0:
            table[at] = m
            words[m] = other
            chances[m] = p * chances[i]
            chances[i] *= 1.0 - p
            m += 1
        elif i < j < n:
            here, there = chances[i], chances[j]
            chances[i] = (1.0 - p) * here + p * there
            chances[j] = (1.0 - p) * there + p * here
    return m


@njit(cache=True, nogil=True)
def _done(kept: Patterns, n: int, bit: Any, fired: Any) -> int:
    """Patterns that agree with the syndrome at a detector that is done, without it; their probabilities add up to one."""
    words, chances = kept.words, kept.chances
    m, total = 0, 0.0
    for i in range(n):
        if words[i] & bit == fired & bit:
            words[m], chances[m] = words[i] & ~bit, chances[i]
            total += chances[m]
            m += 1
    for i in range(m):
        chances[i] /= total
    return m


@njit(cache=True, nogil=True)
def sweep(steps: Steps, syndromes: Any, most: int, out: Any) -> int:
    """syndromes: [shots, detectors]. out: [shots, 2 ** observables] probabilities, zeros where no pattern is left. Returns the work."""
    room = 4 * most + 2
    size = 16
    while size < 2 * room:
        size *= 2
    kept = Patterns(
        np.zeros(room, dtype=np.uint64),
        np.zeros(room),
        np.zeros(room),
        np.full(size, -1, dtype=np.int32),
        np.zeros(_CLASSES, dtype=np.int64),
    )
    pattern, chance, fault_ptr = steps.pattern, steps.chance, steps.fault_ptr
    opened, opened_bit, opened_ptr = steps.opened, steps.opened_bit, steps.opened_ptr
    work = 0
    for shot in range(len(syndromes)):
        n, fired = 1, np.uint64(0)
        kept.words[0], kept.chances[0] = np.uint64(0), 1.0
        _index(kept, n)
        for step in range(len(steps.bit)):
            for k in range(opened_ptr[step], opened_ptr[step + 1]):
                if syndromes[shot, opened[k]]:
                    fired |= opened_bit[k]
            for fault in range(fault_ptr[step], fault_ptr[step + 1]):
                work += n
                n = _fault(kept, n, pattern[fault], chance[fault])
                if n > 2 * most:
                    n = _prune(kept, n, most, fired, steps.rest[step])
                    _index(kept, n)
            n = _done(kept, n, steps.bit[step], fired)
            fired &= ~steps.bit[step]
            if n == 0:
                break
            _index(kept, n)
        out[shot] = 0.0
        for i in range(n):
            out[shot, kept.words[i]] += kept.chances[i]
    return work
