"""MatrixMarket text files. SciPy's reader crashes the interpreter on some corrupt ones, hence our own."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

_FIELDS = ("pattern", "integer", "unsigned-integer", "real", "double")


def parse_matrix_market(text: str, *, max_elements: int) -> npt.NDArray[np.uint8]:
    """[rows, columns] of a binary matrix in coordinate or array format, general or symmetric.

    Raises:
        ValueError: with the line number, where the file is not such a matrix.
    """
    lines = text.splitlines()
    words = lines[0].lower().split() if lines else []
    if len(words) != 5 or words[:2] != ["%%matrixmarket", "matrix"]:
        raise ValueError("line 1 is not '%%MatrixMarket matrix ...'")
    layout, field, symmetry = words[2:]
    if layout not in ("coordinate", "array") or (layout, field) == ("array", "pattern"):
        raise ValueError(f"line 1: format {layout!r} with {field!r}, expected coordinate or array")
    if field not in _FIELDS:
        raise ValueError(f"line 1: entries are {field!r}, expected one of {', '.join(_FIELDS)}")
    if symmetry not in ("general", "symmetric"):
        raise ValueError(f"line 1: symmetry {symmetry!r}, expected general or symmetric")
    body = [(i, line.split()) for i, line in enumerate(lines, 1) if line.strip() and line[0] != "%"]
    if not body:
        raise ValueError("there is no line with the size")
    at, size = body[0][0], [_integer(word, body[0][0]) for word in body[0][1]]
    if len(size) != (3 if layout == "coordinate" else 2):
        raise ValueError(f"line {at}: {len(size)} numbers, expected rows, columns and, if sparse, entries")
    rows, columns = size[:2]
    if rows * columns > max_elements:
        raise ValueError(f"line {at}: {rows} x {columns} is more than {max_elements:,} elements")
    if symmetry == "symmetric" and rows != columns:
        raise ValueError(f"line {at}: a symmetric matrix of {rows} x {columns}")
    cells = rows * columns if symmetry == "general" else rows * (rows + 1) // 2
    count = size[2] if layout == "coordinate" else cells
    if len(body) - 1 != count:
        raise ValueError(f"{len(body) - 1} entries, announced {count}")
    matrix = np.zeros((rows, columns), dtype=np.uint8)
    if layout == "array":
        # Column by column; a symmetric matrix from the diagonal down.
        places = ((i, j) for j in range(columns) for i in range(j if symmetry == "symmetric" else 0, rows))
        for (line, entry), (i, j) in zip(body[1:], places, strict=True):
            matrix[i, j] = _bit(entry, line, i, j)
    else:
        seen: set[tuple[int, int]] = set()
        for line, entry in body[1:]:
            if len(entry) != (2 if field == "pattern" else 3):
                raise ValueError(f"line {line}: {len(entry)} words in an entry")
            i, j = (_integer(word, line) - 1 for word in entry[:2])
            if not (0 <= i < rows and 0 <= j < columns):
                raise ValueError(f"line {line}: entry ({i + 1}, {j + 1}) lies outside {rows} x {columns}")
            if (i, j) in seen:
                raise ValueError(f"line {line}: entry ({i + 1}, {j + 1}) is given twice")
            seen.add((i, j))
            matrix[i, j] = 1 if field == "pattern" else _bit(entry[2:], line, i, j)
    return matrix | matrix.T if symmetry == "symmetric" else matrix


def _bit(words: list[str], line: int, i: int, j: int) -> int:
    if len(words) != 1 or words[0] not in ("0", "1"):
        try:
            (value,) = (float(word) for word in words)
        except ValueError:
            raise ValueError(f"line {line}: {' '.join(words)[:40]!r} is not a number") from None
        if value not in (0.0, 1.0):
            raise ValueError(f"line {line}: H[{i}, {j}] = {words[0]}, expected 0 or 1")
        return int(value)
    return int(words[0])


def _integer(word: str, line: int) -> int:
    if not (word.isascii() and word.isdigit() and len(word) < 16):
        raise ValueError(f"line {line}: {word[:40]!r} is not a count")
    return int(word)
