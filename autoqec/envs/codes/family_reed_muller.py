"""Quantum Reed-Muller code, [[15, 1, 3]], with a transversal T (Knill, Laflamme, Zurek, quant-ph/9610011)."""

from __future__ import annotations

from itertools import combinations

import numpy as np

from autoqec.envs.codes.css import CSSCode, css_code
from autoqec.envs.codes.family import Family, Request
from autoqec.envs.codes.family_hamming import hamming_checks


def _build(request: Request) -> CSSCode:
    hx = hamming_checks(4)
    products = [a & b for a, b in combinations(hx, 2)]
    return css_code(request.reference, hx, np.concatenate([hx, np.stack(products)]), where=request.where)


REED_MULLER_15 = Family(
    name="reed_muller15", summary="quantum Reed-Muller code, [[15, 1, 3]]", parameters={}, build=_build
)
