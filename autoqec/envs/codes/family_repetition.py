"""Classical repetition code, [d, 1, d], with d - 1 checks on an open line."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from autoqec.envs.codes.code_string import Parameter
from autoqec.envs.codes.css import ClassicalCode, classical_code
from autoqec.envs.codes.family import Family, Request


def repetition_checks(distance: int) -> npt.NDArray[np.uint8]:
    eye = np.eye(distance, dtype=np.uint8)
    return eye[:-1] | eye[1:]


def _build(request: Request) -> ClassicalCode:
    distance = request.integer("distance")
    line = 2.0 * np.arange(distance)[:, None]
    return classical_code(
        request.reference,
        repetition_checks(distance),
        qubit_coords=line,
        z_coords=line[:-1] + 1,
        where=request.where,
    )


REPETITION = Family(
    name="repetition",
    summary="classical repetition code, [d, 1, d], checks on an open line",
    parameters={"distance": Parameter(low=2, high=2000)},
    build=_build,
    classical=True,
)
