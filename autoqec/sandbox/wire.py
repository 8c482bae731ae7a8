"""Frames and arrays between the trusted side and a confined worker. Numpy and the standard library only.

The worker may run the model code of another commit, so it loads this very file by its path. Nothing is pickled: a frame
is one byte of kind, eight of length, and a payload; an array payload is a JSON header and the raw bytes it describes, to
the byte.
"""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

HEADER = struct.Struct("<BQ")
_LENGTH = struct.Struct("<I")

PROBLEM, MODEL, RUN, COST, CHECKPOINT = b"P", b"M", b"R", b"C", b"K"
"""Requests: hold a decoding problem; build a model on it; answer shots; count its cost; read a checkpoint file."""

ANSWER, REFUSAL = b"+", b"-"
"""Replies: the payload that the request asks for, or one line of text."""

DTYPES = frozenset({"|u1", "|b1", "|S1", "<i4", "<i8", "<f2", "<f4", "<f8"})
MAX_JSON = 4 << 20
MAX_TEXT = 2000


class WireError(ValueError):
    """A payload that is not what it must be."""


def header(kind: bytes, length: int) -> bytes:
    return HEADER.pack(kind[0], length)


def pack(meta: Mapping[str, Any], arrays: Mapping[str, Array]) -> bytes:
    """A payload of plain data and arrays."""
    described, parts = [], []
    for name, array in arrays.items():
        contiguous = np.ascontiguousarray(array).reshape(array.shape)  # ascontiguousarray turns 0-d into 1-d
        if contiguous.dtype.str not in DTYPES:
            raise WireError(f"array {name} is {contiguous.dtype}, which cannot travel")
        described.append([name, contiguous.dtype.str, list(contiguous.shape)])
        parts.append(contiguous.tobytes())
    head = json.dumps({"meta": dict(meta), "arrays": described}, allow_nan=False).encode()
    return b"".join([_LENGTH.pack(len(head)), head, *parts])


def unpack(payload: bytes | bytearray | memoryview) -> tuple[dict[str, Any], dict[str, Array]]:
    """What `pack` made. Every byte must be accounted for; the arrays are read-only views of the payload."""
    view = memoryview(payload)
    if len(view) < _LENGTH.size:
        raise WireError("a payload without a header")
    (size,) = _LENGTH.unpack(view[: _LENGTH.size])
    if size > MAX_JSON or _LENGTH.size + size > len(view):
        raise WireError(f"a header of {size} bytes in a payload of {len(view)}")
    try:
        head = json.loads(bytes(view[_LENGTH.size : _LENGTH.size + size]))
        meta, described = head["meta"], head["arrays"]
        rows = [(str(name), str(dtype), [int(n) for n in shape]) for name, dtype, shape in described]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise WireError(f"a damaged header: {type(error).__name__}") from error
    if not isinstance(meta, dict):
        raise WireError("a damaged header: no mapping")
    arrays: dict[str, Array] = {}
    position = _LENGTH.size + size
    for name, dtype, shape in rows:
        if dtype not in DTYPES or name in arrays or any(n < 0 for n in shape):
            raise WireError(f"array {name[:80]!r} is {dtype[:20]!r} of shape {shape[:8]}")
        length = math.prod(shape) * np.dtype(dtype).itemsize
        if position + length > len(view):
            raise WireError(f"array {name[:80]!r} is longer than the payload")
        flat = np.frombuffer(view[position : position + length], dtype=dtype)
        arrays[name] = flat.reshape(shape)
        position += length
    if position != len(view):
        raise WireError(f"{len(view) - position} bytes that no array describes")
    return meta, arrays


def one_line(text: object) -> str:
    """Text that came from a model or about one: a single line of printable ASCII, cut to a sane length."""
    line = " ".join(str(text).split())
    return "".join(c if " " <= c <= "~" else "?" for c in line)[:300]
