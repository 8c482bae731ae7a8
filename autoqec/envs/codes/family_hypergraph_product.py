"""Hypergraph product of two classical codes (Tillich and Zemor, IEEE Trans. Inf. Theory 60, 1193 (2014))."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from autoqec.envs.codes.code_string import Parameter
from autoqec.envs.codes.css import CSSCode, css_code
from autoqec.envs.codes.family import Family, Request
from autoqec.errors import InputError

U8 = npt.NDArray[np.uint8]
MAX_QUBITS = 10_000


def hypergraph_product(name: str, h1: U8, h2: U8, *, where: str) -> CSSCode:
    """Hx = [h1 (x) 1 | 1 (x) h2^T], Hz = [1 (x) h2 | h1^T (x) 1], on n1 n2 + m1 m2 qubits."""
    (m1, n1), (m2, n2) = h1.shape, h2.shape
    if n1 * n2 + m1 * m2 > MAX_QUBITS:
        raise InputError(
            f"{m1} x {n1} times {m2} x {n2} makes {n1 * n2 + m1 * m2} qubits, at most {MAX_QUBITS}",
            where=where,
        )

    def eye(size: int) -> U8:
        return np.eye(size, dtype=np.uint8)

    hx = np.concatenate([np.kron(h1, eye(n2)), np.kron(eye(m1), h2.T)], axis=1)
    hz = np.concatenate([np.kron(eye(n1), h2), np.kron(h1.T, eye(m2))], axis=1)
    return css_code(name, hx, hz, where=where)


def _build(request: Request) -> CSSCode:
    h1, h2 = (request.matrix(request.text(key)) for key in ("h1", "h2"))
    return hypergraph_product(request.reference, h1, h2, where=request.where)


HYPERGRAPH_PRODUCT = Family(
    name="hypergraph_product",
    summary="product of two classical codes, h1 and h2: references (repetition?distance=3) or matrix files",
    parameters={"h1": Parameter(), "h2": Parameter()},
    build=_build,
)
