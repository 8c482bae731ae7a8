"""Matrices of a few dozen columns as rows of whole vectors, `LANES` columns side by side: padding and products."""

from __future__ import annotations

import numpy as np
from numba import njit

from autoqec.decoders.backends._kernels.simd import LANES, load, splat, store

_ZERO = np.float32(0.0)


@njit
def add(array, row, value):  # type: ignore[no-untyped-def]
    store(array, row, load(array, row) + value)


@njit
def clear(array):  # type: ignore[no-untyped-def]
    for row in range(array.shape[0]):
        store(array, row, splat(_ZERO))


@njit
def scale_rows(array, vectors, share):  # type: ignore[no-untyped-def]
    """Each row of `vectors` vectors times its number."""
    for row in range(share.shape[0]):
        for c in range(row * vectors, row * vectors + vectors):
            store(array, c, load(array, c) * share[row])


@njit
def pad(rows, padded):  # type: ignore[no-untyped-def]
    """rows [row, width] -> padded [row * vectors, lane]; lanes beyond `width` are left alone."""
    width = rows.shape[1]
    stride = -(-width // LANES) * LANES
    flat = padded.reshape(-1)
    for row in range(rows.shape[0]):
        for h in range(width):
            flat[row * stride + h] = rows[row, h]


@njit
def narrow(padded, rows):  # type: ignore[no-untyped-def]
    """The reverse of `pad`."""
    width = rows.shape[1]
    stride = -(-width // LANES) * LANES
    flat = padded.reshape(-1)
    for row in range(rows.shape[0]):
        for h in range(width):
            rows[row, h] = flat[row * stride + h]


@njit
def add_product(a, to_row, to_term, rows, terms, b, columns, out):  # type: ignore[no-untyped-def]
    """out[r, c] += sum_k a[to_row r + to_term k] b[k, c] for `columns` vectors c; `a` is flat, so that either of its axes
    may be summed over.

    Tiles of four rows and two vectors, whose eight sums stay in registers.
    """
    for r in range(0, rows - 3, 4):
        first = r * to_row
        for c in range(0, columns - 1, 2):
            o = r * columns + c
            s00, s01 = load(out, o), load(out, o + 1)
            s10, s11 = load(out, o + columns), load(out, o + columns + 1)
            s20, s21 = load(out, o + 2 * columns), load(out, o + 2 * columns + 1)
            s30, s31 = load(out, o + 3 * columns), load(out, o + 3 * columns + 1)
            for k in range(terms):
                b0, b1 = load(b, k * columns + c), load(b, k * columns + c + 1)
                at = first + k * to_term
                a0, a1, a2, a3 = a[at], a[at + to_row], a[at + 2 * to_row], a[at + 3 * to_row]
                s00, s01 = s00 + b0 * a0, s01 + b1 * a0
                s10, s11 = s10 + b0 * a1, s11 + b1 * a1
                s20, s21 = s20 + b0 * a2, s21 + b1 * a2
                s30, s31 = s30 + b0 * a3, s31 + b1 * a3
            store(out, o, s00)
            store(out, o + 1, s01)
            store(out, o + columns, s10)
            store(out, o + columns + 1, s11)
            store(out, o + 2 * columns, s20)
            store(out, o + 2 * columns + 1, s21)
            store(out, o + 3 * columns, s30)
            store(out, o + 3 * columns + 1, s31)
        if columns % 2:
            o = r * columns + columns - 1
            s0, s1 = load(out, o), load(out, o + columns)
            s2, s3 = load(out, o + 2 * columns), load(out, o + 3 * columns)
            for k in range(terms):
                b0 = load(b, k * columns + columns - 1)
                at = first + k * to_term
                s0, s1 = s0 + b0 * a[at], s1 + b0 * a[at + to_row]
                s2, s3 = s2 + b0 * a[at + 2 * to_row], s3 + b0 * a[at + 3 * to_row]
            store(out, o, s0)
            store(out, o + columns, s1)
            store(out, o + 2 * columns, s2)
            store(out, o + 3 * columns, s3)
    for r in range(rows - rows % 4, rows):
        for c in range(columns):
            even, odd = load(out, r * columns + c), splat(_ZERO)
            for k in range(0, terms - 1, 2):
                at = r * to_row + k * to_term
                even = even + load(b, k * columns + c) * a[at]
                odd = odd + load(b, (k + 1) * columns + c) * a[at + to_term]
            if terms % 2:
                even = even + load(b, (terms - 1) * columns + c) * a[r * to_row + (terms - 1) * to_term]
            store(out, r * columns + c, even + odd)
