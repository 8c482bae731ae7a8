"""MacKay's alist format for sparse binary matrices."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt


def parse_alist(text: str, *, max_elements: int) -> npt.NDArray[np.uint8]:
    """[m, n] from: `n m`; the largest column and row weight; column weights; row weights; then, one line
    each, the 1-based rows of every column and columns of every row. Lines may be padded with zeros.

    Raises:
        ValueError: with the line number, where the file contradicts itself.
    """
    lines = [(i, line.split()) for i, line in enumerate(text.splitlines(), start=1) if line.strip()]
    if len(lines) < 4:
        raise ValueError(f"{len(lines)} lines, expected at least 4")
    numbers = [(i, _integers(i, words)) for i, words in lines]
    n, m = _exactly(numbers[0], 2)
    if n < 1 or m < 1:
        raise ValueError(f"line {numbers[0][0]}: {n} columns and {m} rows")
    if n * m > max_elements:
        raise ValueError(f"line {numbers[0][0]}: {m} x {n} is more than {max_elements:,} elements")
    largest = _exactly(numbers[1], 2)
    weights = _exactly(numbers[2], n), _exactly(numbers[3], m)
    if len(numbers) != 4 + n + m:
        raise ValueError(
            f"{len(numbers)} lines that are not blank, expected {4 + n + m} for {n} columns and {m} rows"
        )
    by_column = _incidence(numbers[4 : 4 + n], weights[0], largest[0], m)
    by_row = _incidence(numbers[4 + n :], weights[1], largest[1], n)
    if (by_row != by_column.T).any():
        i, j = (int(v[0]) for v in np.nonzero(by_row != by_column.T))
        raise ValueError(f"the lists of row {i + 1} and column {j + 1} disagree on whether they meet")
    return by_row


def _incidence(
    lists: list[tuple[int, list[int]]], weights: list[int], largest: int, size: int
) -> npt.NDArray[np.uint8]:
    table = np.zeros((len(lists), size), dtype=np.uint8)
    for row, ((line, padded), weight) in enumerate(zip(lists, weights, strict=True)):
        entries = [v for v in padded if v != 0]
        if len(entries) != weight or weight > largest:
            raise ValueError(f"line {line}: {len(entries)} entries, announced {weight}, at most {largest}")
        bad = [v for v in entries if not 1 <= v <= size]
        if bad or len(set(entries)) != weight:
            raise ValueError(
                f"line {line}: " + (f"{bad[0]} is not in 1 .. {size}" if bad else "an entry twice")
            )
        table[row, np.array(entries, dtype=np.int64) - 1] = 1
    return table


def _integers(line: int, words: list[str]) -> list[int]:
    if not all(word.isascii() and word.isdigit() and len(word) < 12 for word in words):
        raise ValueError(f"line {line}: expected non-negative integers, found {' '.join(words)[:60]!r}")
    return [int(word) for word in words]


def _exactly(line: tuple[int, list[int]], count: int) -> list[int]:
    number, values = line
    if len(values) != count:
        raise ValueError(f"line {number}: {len(values)} numbers, expected {count}")
    return values
