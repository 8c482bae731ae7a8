"""Linear algebra over GF(2) on dense `uint8` matrices of zeros and ones.

Rows are packed 64 columns to a word inside, so that an elimination of a 1000 x 1000 matrix takes
milliseconds.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

U8 = npt.NDArray[np.uint8]
U64 = npt.NDArray[np.uint64]


def pack_rows(matrix: U8) -> U64:
    """[m, n] bits -> [m, ceil(n / 64)] words; column c is bit c % 64 of word c // 64."""
    m, n = matrix.shape
    padded = np.zeros((m, -(-n // 64) * 64), dtype=np.uint8)
    padded[:, :n] = matrix
    return np.packbits(padded, axis=1, bitorder="little").view("<u8").astype(np.uint64, copy=False)


def unpack_rows(words: U64, n: int) -> U8:
    """Inverse of `pack_rows` for n columns."""
    as_bytes = np.ascontiguousarray(words.astype("<u8", copy=False)).view(np.uint8)
    if not as_bytes.size:
        return np.zeros((words.shape[0], n), dtype=np.uint8)
    return np.unpackbits(as_bytes, axis=1, count=n, bitorder="little")


def eliminate(words: U64, columns: Iterable[int]) -> list[int]:
    """Reduce packed rows in place, taking pivots in the order of `columns`; returns the pivot columns.

    Afterwards row i is the only one with a one in pivot column i, and rows beyond the rank have none in any
    of `columns`.
    """
    pivots: list[int] = []
    rows = words.shape[0]
    for column in columns:
        row = len(pivots)
        if row == rows:
            break
        bits = (words[:, column >> 6] >> np.uint64(column & 63)) & np.uint64(1) == 1
        below = np.flatnonzero(bits[row:])
        if not below.size:
            continue
        found = row + int(below[0])
        if found != row:
            words[[row, found]] = words[[found, row]]
            bits[found] = bits[row]
        bits[row] = False
        words[bits] ^= words[row]
        pivots.append(column)
    return pivots


def row_reduce(matrix: U8) -> tuple[U8, list[int]]:
    """Reduced row echelon form without its zero rows, [rank, n], and the pivot columns."""
    words = pack_rows(matrix)
    pivots = eliminate(words, range(matrix.shape[1]))
    return unpack_rows(words[: len(pivots)], matrix.shape[1]), pivots


def rank(matrix: U8) -> int:
    return len(eliminate(pack_rows(matrix), range(matrix.shape[1])))


def nullspace(matrix: U8) -> U8:
    """A basis of {v : matrix v = 0}, one vector per row, [n - rank, n]."""
    n = matrix.shape[1]
    reduced, pivots = row_reduce(matrix)
    free = np.setdiff1d(np.arange(n), pivots)
    basis = np.zeros((free.size, n), dtype=np.uint8)
    basis[np.arange(free.size), free] = 1
    basis[:, pivots] = reduced[:, free].T
    return basis


def solve(matrix: U8, target: U8) -> U8 | None:
    """Some x with matrix x = target, or None when there is none. [m, n], [m] -> [n]."""
    m, n = matrix.shape
    words = pack_rows(np.concatenate([matrix, target.reshape(m, 1)], axis=1))
    pivots = eliminate(words, range(n))
    right = unpack_rows(words, n + 1)[:, n]
    if right[len(pivots) :].any():
        return None
    x = np.zeros(n, dtype=np.uint8)
    x[pivots] = right[: len(pivots)]
    return x


def independent_rows(base: U8, candidates: U8) -> list[int]:
    """Indices of the candidates that, taken in order, each enlarge the span of `base` and those before."""
    stacked = np.concatenate([base, candidates], axis=0)
    pivots = eliminate(pack_rows(np.ascontiguousarray(stacked.T)), range(stacked.shape[0]))
    return [p - base.shape[0] for p in pivots if p >= base.shape[0]]


def in_row_space(matrix: U8, vectors: U8) -> npt.NDArray[np.bool_]:
    """For each row of `vectors`, [v, n]: is it a sum of rows of `matrix`, [m, n]?"""
    reduced, pivots = row_reduce(matrix)
    residual = (vectors ^ product(vectors[:, pivots], reduced)) if pivots else vectors
    return np.asarray(~residual.any(axis=1))


def inverse(matrix: U8) -> U8:
    """The inverse of a square matrix; ValueError when it is singular."""
    n = matrix.shape[0]
    words = pack_rows(np.concatenate([matrix, np.eye(n, dtype=np.uint8)], axis=1))
    if len(eliminate(words, range(n))) < n:
        raise ValueError("singular over GF(2)")
    return unpack_rows(words, 2 * n)[:, n:]


def product(a: U8, b: U8) -> U8:
    """a b mod 2. Goes through float32, which is exact below 2^24 summands and runs on BLAS."""
    total = a.astype(np.float32) @ b.astype(np.float32)
    return (total.astype(np.int64) & 1).astype(np.uint8)
