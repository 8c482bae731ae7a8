"""Shor code, [[9, 1, 3]] (Phys. Rev. A 52, R2493 (1995))."""

from __future__ import annotations

import numpy as np

from autoqec.envs.codes.css import CSSCode, css_code
from autoqec.envs.codes.family import Family, Request
from autoqec.envs.codes.family_repetition import repetition_checks


def _build(request: Request) -> CSSCode:
    three = repetition_checks(3)
    hx = np.kron(three, np.ones((1, 3), dtype=np.uint8))
    hz = np.kron(np.eye(3, dtype=np.uint8), three)
    return css_code(request.reference, hx, hz, where=request.where)


SHOR_9 = Family(name="shor9", summary="Shor code, [[9, 1, 3]]", parameters={}, build=_build)
