"""Classical codes: repetition codes on a line and on a ring, Hamming codes."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from autoqec.envs.codes.code_string import Parameter
from autoqec.envs.codes.css import ClassicalCode, classical_code
from autoqec.envs.codes.family import Family, Request


def repetition_checks(distance: int) -> npt.NDArray[np.uint8]:
    """[d - 1, d]: neighbours on an open line."""
    eye = np.eye(distance, dtype=np.uint8)
    return eye[:-1] | eye[1:]


def hamming_checks(r: int) -> npt.NDArray[np.uint8]:
    """[r, 2^r - 1]: column j is j + 1 in binary, lowest bit in row 0."""
    numbers = np.arange(1, 2**r)
    return np.stack([numbers >> bit & 1 for bit in range(r)]).astype(np.uint8)


def _repetition(request: Request) -> ClassicalCode:
    distance = request.integer("distance")
    line = 2.0 * np.arange(distance)[:, None]
    return classical_code(
        request.reference,
        repetition_checks(distance),
        qubit_coords=line,
        z_coords=line[:-1] + 1,
        where=request.where,
    )


def _ring(request: Request) -> ClassicalCode:
    """One of the d checks is redundant."""
    eye = np.eye(request.integer("distance"), dtype=np.uint8)
    return classical_code(request.reference, eye | np.roll(eye, 1, axis=1), where=request.where)


def _hamming(request: Request) -> ClassicalCode:
    return classical_code(request.reference, hamming_checks(request.integer("r")), where=request.where)


REPETITION = Family(
    name="repetition",
    summary="classical repetition code, [d, 1, d], checks on an open line",
    parameters={"distance": Parameter(low=2, high=2000)},
    build=_repetition,
    classical=True,
)
RING = Family(
    name="ring",
    summary="classical repetition code, [d, 1, d], checks on a ring",
    parameters={"distance": Parameter(low=2, high=2000)},
    build=_ring,
    classical=True,
)
HAMMING = Family(
    name="hamming",
    summary="classical Hamming code, [2^r - 1, 2^r - 1 - r, 3]",
    parameters={"r": Parameter(low=2, high=10)},
    build=_hamming,
    classical=True,
)
