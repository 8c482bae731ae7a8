"""Classical Hamming codes, [2^r - 1, 2^r - 1 - r, 3]."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from autoqec.envs.codes.code_string import Parameter
from autoqec.envs.codes.css import ClassicalCode, classical_code
from autoqec.envs.codes.family import Family, Request


def hamming_checks(r: int) -> npt.NDArray[np.uint8]:
    """[r, 2^r - 1]: column j is j + 1 in binary, lowest bit in row 0."""
    numbers = np.arange(1, 2**r)
    return np.stack([numbers >> bit & 1 for bit in range(r)]).astype(np.uint8)


def _build(request: Request) -> ClassicalCode:
    return classical_code(request.reference, hamming_checks(request.integer("r")), where=request.where)


HAMMING = Family(
    name="hamming",
    summary="classical Hamming code, [2^r - 1, 2^r - 1 - r, 3]",
    parameters={"r": Parameter(low=2, high=10)},
    build=_build,
    classical=True,
)
