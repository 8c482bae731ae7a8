"""CSS codes that are one pair of matrices: published codes without a parameter, and a pair of matrix files."""

from __future__ import annotations

from itertools import combinations

import numpy as np

from autoqec.envs.codes.classical_codes import hamming_checks, repetition_checks
from autoqec.envs.codes.code_string import Parameter
from autoqec.envs.codes.css import CSSCode, css_code
from autoqec.envs.codes.family import Family, Request


def _steane(request: Request) -> CSSCode:
    """Proc. R. Soc. A 452, 2551 (1996)."""
    h = hamming_checks(3)
    return css_code(request.reference, h, h, where=request.where)


def _shor(request: Request) -> CSSCode:
    """Phys. Rev. A 52, R2493 (1995)."""
    three = repetition_checks(3)
    hx = np.kron(three, np.ones((1, 3), dtype=np.uint8))
    hz = np.kron(np.eye(3, dtype=np.uint8), three)
    return css_code(request.reference, hx, hz, where=request.where)


def _reed_muller(request: Request) -> CSSCode:
    """The code with a transversal T of Knill, Laflamme and Zurek, quant-ph/9610011."""
    hx = hamming_checks(4)
    products = [a & b for a, b in combinations(hx, 2)]
    return css_code(request.reference, hx, np.concatenate([hx, np.stack(products)]), where=request.where)


def _from_matrices(request: Request) -> CSSCode:
    hx, hz = (request.matrix(request.text(key)) for key in ("hx", "hz"))
    return css_code(request.reference, hx, hz, where=request.where)


STEANE = Family(name="steane", summary="Steane code, [[7, 1, 3]]", parameters={}, build=_steane)
SHOR_9 = Family(name="shor9", summary="Shor code, [[9, 1, 3]]", parameters={}, build=_shor)
REED_MULLER_15 = Family(
    name="reed_muller15", summary="quantum Reed-Muller code, [[15, 1, 3]]", parameters={}, build=_reed_muller
)
CSS = Family(
    name="css",
    summary="the CSS code of two matrix files, e.g. css?hx=x.mtx&hz=z.mtx",
    parameters={"hx": Parameter(), "hz": Parameter()},
    build=_from_matrices,
)
