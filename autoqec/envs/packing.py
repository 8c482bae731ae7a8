"""Bit-packed shots (`uint8`, little bit order), checked where they enter."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from autoqec.envs.problem import U8
from autoqec.errors import InputError


def width(bits: int) -> int:
    """Bytes per packed row."""
    return (bits + 7) // 8


def pack(bits: npt.NDArray[Any]) -> U8:
    """[shots, n] truth values -> [shots, ceil(n / 8)]."""
    return np.packbits(bits.astype(np.bool_), axis=1, bitorder="little")


def unpack(packed: U8, bits: int) -> U8:
    """[shots, ceil(n / 8)] -> [shots, n] zeros and ones."""
    return np.unpackbits(packed, axis=1, count=bits, bitorder="little")


def packed_shots(shots: npt.NDArray[Any], bits: int, *, is_packed: bool) -> U8:
    """Detection events as a caller has them, packed: zeros and ones [shots, bits], or with `is_packed` as Stim's `b8`."""
    array = np.asarray(shots)
    if is_packed:
        return checked(array, bits, what="detector")
    if array.ndim != 2 or array.shape[1] != bits or array.dtype.kind not in "bui":
        raise InputError(
            f"got an array of {array.dtype} with shape {array.shape}, expected zeros and ones [shots, {bits}]",
            where="shots",
            hint="give detection events of this very circuit; for packed ones say bit_packed_shots=True",
        )
    if array.dtype.kind != "b" and ((array < 0) | (array > 1)).any():
        raise InputError(
            "has entries other than 0 and 1",
            where="shots",
            hint="for packed shots say bit_packed_shots=True",
        )
    return pack(array)


def checked(packed: npt.NDArray[Any], bits: int, *, what: str) -> U8:
    """`packed` as contiguous rows for `bits` bits, or an InputError about its shape, type or padding."""
    array = np.asarray(packed)
    if array.dtype != np.uint8 or array.ndim != 2 or array.shape[1] != width(bits):
        raise InputError(
            f"got an array of {array.dtype} with shape {array.shape}, expected uint8 [shots, {width(bits)}] "
            f"for {bits} {what} bits",
            where=what,
            hint="pack with np.packbits(..., axis=1, bitorder='little'), and use shots of this very model",
        )
    spare = width(bits) * 8 - bits
    if spare and array.size and (array[:, -1] >> (8 - spare)).any():
        raise InputError(
            f"bits beyond the {bits} {what} bits are set", where=what, hint="use shots of this very model"
        )
    return np.ascontiguousarray(array)
