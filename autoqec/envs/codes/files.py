"""Check matrices from `.npz`, `.npy`, `.mtx` (MatrixMarket) and `.alist` files.

A file with one matrix is a classical code; an `.npz` with Hx and Hz is a CSS code. Nothing is unpickled, and
sizes are checked against the header and the length of the file before memory is taken.
"""

from __future__ import annotations

import io
import zipfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from autoqec.envs.codes.alist import parse_alist
from autoqec.envs.codes.css import Code, binary_matrix, classical_code, css_code
from autoqec.envs.codes.matrix_market import parse_matrix_market
from autoqec.errors import InputError
from autoqec.io.untrusted_file import decoded, read_regular

U8 = npt.NDArray[np.uint8]
MAX_ELEMENTS = 1_000_000_000
MAX_BYTES = 2 * 2**30
MAX_TEXT_BYTES = 128 * 2**20
_SPARSE_KEYS = {"format", "shape", "data"}


def read_code(path: str | Path) -> Code:
    """The code in a matrix file, named after the file.

    `.npz` holds Hx and Hz (and, optionally, Lx and Lz), or one matrix H, or what `scipy.sparse.save_npz`
    wrote; names are case-insensitive. The other formats hold one matrix.

    Raises:
        InputError: a file that is missing, corrupt, too large, of another format, or no code.
    """
    file = Path(path)
    found = _read(file)
    where, name = str(file), file.stem
    if "hx" in found or "hz" in found:
        missing = [key for key in ("hx", "hz") if key not in found]
        if missing:
            raise InputError(
                f"{missing[0].capitalize()} is missing",
                where=where,
                hint="store both Hx and Hz, or a single H",
            )
        return css_code(name, found["hx"], found["hz"], lx=found.get("lx"), lz=found.get("lz"), where=where)
    return classical_code(name, found["h"], l=found.get("l"), where=where)


def read_matrix(path: str | Path) -> U8:
    """The single matrix in a file of any of the formats."""
    file = Path(path)
    found = _read(file)
    if "h" not in found:
        raise InputError("holds a CSS code, expected a single matrix", where=str(file), hint="store it as H")
    return binary_matrix(found["h"], "H", where=str(file))


def _read(path: Path) -> dict[str, npt.NDArray[Any]]:
    where = str(path)
    reader = _READERS.get(path.suffix.lower())
    if reader is None:
        raise InputError(
            f"{path.suffix!r} is not a known matrix format",
            where=where,
            hint=f"use {', '.join(MATRIX_SUFFIXES)}",
        )
    data = read_regular(path, limit=MAX_BYTES, where=where, links=True)
    try:
        return reader(data, where)
    except InputError:
        raise
    except (
        Exception
    ) as error:  # NumPy, SciPy and zipfile raise anything on files that are cut short or made up
        reason = str(error).strip().splitlines() or [type(error).__name__]
        raise InputError(
            f"cannot be read as {path.suffix.lower()}: {reason[0][:200]}",
            where=where,
            hint="is the file complete? Write it again",
        ) from error


def _read_npz(data: bytes, where: str) -> dict[str, npt.NDArray[Any]]:
    arrays: dict[str, npt.NDArray[Any]] = {}
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        for info in archive.infolist():
            key = info.filename.removesuffix(".npy").lower()
            if (
                key
                not in {"hx", "hz", "h", "lx", "lz", "l", "row", "col", "indices", "indptr", "offsets"}
                | _SPARSE_KEYS
            ):
                continue
            if key in arrays:
                raise InputError(f"two arrays are called {key!r} up to case", where=where)
            with archive.open(info) as stream:
                arrays[key] = _read_array(stream, info.file_size, f"{where}: {info.filename}")
        names = [info.filename.removesuffix(".npy") for info in archive.infolist()]
    if arrays.keys() >= _SPARSE_KEYS:
        return {"h": _dense(_sparse(arrays), where)}
    if not arrays.keys() & {"h", "hx", "hz"}:
        raise InputError(
            f"holds no check matrix, only {', '.join(names[:10]) or 'nothing'}",
            where=where,
            hint="store Hx and Hz, or a single H: numpy.savez(path, Hx=hx, Hz=hz)",
        )
    if "h" in arrays and arrays.keys() & {"hx", "hz"}:
        raise InputError("holds both H and Hx or Hz", where=where, hint="store Hx and Hz, or a single H")
    return arrays


def _read_npy(data: bytes, where: str) -> dict[str, npt.NDArray[Any]]:
    return {"h": _read_array(io.BytesIO(data), len(data), where)}


def _read_array(stream: IO[bytes], size: int, where: str) -> npt.NDArray[Any]:
    """One array in NumPy's format, `size` bytes with its header."""
    version = np.lib.format.read_magic(stream)
    if version == (1, 0):
        shape, fortran, dtype = np.lib.format.read_array_header_1_0(stream)
    elif version == (2, 0):
        shape, fortran, dtype = np.lib.format.read_array_header_2_0(stream)
    else:
        raise InputError(f"NumPy format {version[0]}.{version[1]} is not supported", where=where)
    if dtype.hasobject:
        raise InputError(
            "holds Python objects, which are never unpickled", where=where, hint="store an integer array"
        )
    _check_size(shape, where)
    count = int(np.prod(shape, dtype=np.int64))
    if count * dtype.itemsize > size:
        raise InputError(
            f"is cut short: {count * dtype.itemsize} bytes of data announced, {size} in the file", where=where
        )
    data = stream.read(count * dtype.itemsize)
    return np.frombuffer(data, dtype=dtype, count=count).reshape(shape, order="F" if fortran else "C")


def _sparse(arrays: dict[str, npt.NDArray[Any]]) -> Any:
    """A sparse matrix from the arrays of `scipy.sparse.save_npz`, indices checked."""
    kind = arrays["format"].item()
    kind = kind.decode("ascii") if isinstance(kind, bytes) else str(kind)
    shape = tuple(int(v) for v in arrays["shape"])
    if kind == "coo":
        return sp.coo_array((arrays["data"], (arrays["row"], arrays["col"])), shape=shape)
    if kind in ("csr", "csc"):
        make: Any = sp.csr_array if kind == "csr" else sp.csc_array
        matrix = make((arrays["data"], arrays["indices"], arrays["indptr"]), shape=shape)
        matrix.check_format(full_check=True)
        return matrix
    raise ValueError(f"sparse format {kind!r}; store it as csr, csc or coo")


def _read_text(
    data: bytes, where: str, suffix: str, parser: Callable[..., U8]
) -> dict[str, npt.NDArray[Any]]:
    if len(data) > MAX_TEXT_BYTES:
        raise InputError(f"is larger than {MAX_TEXT_BYTES >> 20} MiB", where=where, hint="store it as .npz")
    try:
        return {"h": parser(decoded(data, where=where), max_elements=MAX_ELEMENTS)}
    except (ValueError, OverflowError) as error:
        raise InputError(f"is not a {suffix} file of a binary matrix: {error}", where=where) from error


def _dense(matrix: Any, where: str) -> npt.NDArray[Any]:
    if isinstance(matrix, np.ndarray):
        return matrix
    _check_size(matrix.shape, where)
    entries = matrix.tocoo()
    entries.sum_duplicates()
    bad = np.flatnonzero((entries.data != 0) & (entries.data != 1))
    if bad.size:
        i, j, value = entries.row[bad[0]], entries.col[bad[0]], entries.data[bad[0]]
        raise InputError(
            f"H[{i}, {j}] = {value}, expected 0 or 1", where=where, hint="give the matrix over GF(2)"
        )
    dense = np.zeros(entries.shape, dtype=np.uint8)
    dense[entries.row, entries.col] = entries.data.astype(np.uint8)
    return dense


def _check_size(shape: tuple[int, ...], where: str) -> None:
    elements = 1
    for length in shape:
        if length < 0:
            raise InputError(f"shape {shape} is negative", where=where)
        elements *= int(length)
    if elements > MAX_ELEMENTS:
        raise InputError(f"shape {shape} has more than {MAX_ELEMENTS:,} elements", where=where)


_READERS: dict[str, Callable[[bytes, str], dict[str, npt.NDArray[Any]]]] = {
    ".npz": _read_npz,
    ".npy": _read_npy,
    ".mtx": partial(_read_text, suffix=".mtx", parser=parse_matrix_market),
    ".alist": partial(_read_text, suffix=".alist", parser=parse_alist),
}
MATRIX_SUFFIXES = tuple(_READERS)


def is_matrix_file(text: str) -> bool:
    """Whether a source names a matrix file, and not a family, whose last parameter may well be one: `css?hx=x.mtx&hz=z.mtx`."""
    return "?" not in text and Path(text).suffix.lower() in MATRIX_SUFFIXES
