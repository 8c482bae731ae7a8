"""Classical repetition code with d checks on a closed ring, one of them redundant."""

from __future__ import annotations

import numpy as np

from autoqec.envs.codes.code_string import Parameter
from autoqec.envs.codes.css import ClassicalCode, classical_code
from autoqec.envs.codes.family import Family, Request


def _build(request: Request) -> ClassicalCode:
    eye = np.eye(request.integer("distance"), dtype=np.uint8)
    return classical_code(request.reference, eye | np.roll(eye, 1, axis=1), where=request.where)


RING = Family(
    name="ring",
    summary="classical repetition code, [d, 1, d], checks on a ring",
    parameters={"distance": Parameter(low=2, high=2000)},
    build=_build,
    classical=True,
)
