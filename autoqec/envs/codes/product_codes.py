"""Codes made of products: hypergraph products of classical codes, and bivariate bicycle codes."""

from __future__ import annotations

import re

import numpy as np
import numpy.typing as npt

from autoqec.envs.codes.code_string import Parameter
from autoqec.envs.codes.css import CSSCode, css_code
from autoqec.envs.codes.family import Family, Request
from autoqec.envs.codes.schedule import IDLE, Schedule
from autoqec.errors import InputError

_MAX_PRODUCT_QUBITS = 10_000
_MAX_BICYCLE_QUBITS = 4096
PUBLISHED = {
    "bb72": "bivariate_bicycle?l=6&m=6&a=x3+y+y2&b=y3+x+x2",
    "bb90": "bivariate_bicycle?l=15&m=3&a=x9+y+y2&b=1+x2+x7",
    "bb108": "bivariate_bicycle?l=9&m=6&a=x3+y+y2&b=y3+x+x2",
    "bb144": "bivariate_bicycle?l=12&m=6&a=x3+y+y2&b=y3+x+x2",
    "bb288": "bivariate_bicycle?l=12&m=12&a=x3+y2+y7&b=y3+x+x2",
}
# Neighbour that the checks touch in each tick: 0-2 are the terms of their first block, 3-5 of the second.
_BICYCLE_X_ORDER = (None, 1, 4, 3, 5, 0, 2, None)
_BICYCLE_Z_ORDER = (3, 5, 0, 1, 2, 4, None, None)

I64 = npt.NDArray[np.int64]
U8 = npt.NDArray[np.uint8]
Terms = list[tuple[int, int]]


def hypergraph_product(name: str, h1: U8, h2: U8, *, where: str) -> CSSCode:
    """Hx = [h1 (x) 1 | 1 (x) h2^T], Hz = [1 (x) h2 | h1^T (x) 1], on n1 n2 + m1 m2 qubits.

    Tillich and Zemor, IEEE Trans. Inf. Theory 60, 1193 (2014).
    """
    (m1, n1), (m2, n2) = h1.shape, h2.shape
    if n1 * n2 + m1 * m2 > _MAX_PRODUCT_QUBITS:
        raise InputError(
            f"{m1} x {n1} times {m2} x {n2} makes {n1 * n2 + m1 * m2} qubits, at most {_MAX_PRODUCT_QUBITS}",
            where=where,
        )

    def eye(size: int) -> U8:
        return np.eye(size, dtype=np.uint8)

    hx = np.concatenate([np.kron(h1, eye(n2)), np.kron(eye(m1), h2.T)], axis=1)
    hz = np.concatenate([np.kron(eye(n1), h2), np.kron(h1.T, eye(m2))], axis=1)
    return css_code(name, hx, hz, where=where)


def bivariate_bicycle(name: str, l: int, m: int, a: Terms, b: Terms, *, where: str) -> CSSCode:
    """Hx = [A | B], Hz = [B^T | A^T] with A, B sums of monomials x^i y^j, given as (i, j) in the published
    order: Bravyi et al., Nature 627, 778 (2024), with their depth-8 syndrome cycle.

    Check and qubit (i, j) of a block has index i m + j. The published schedule belongs to three plus three
    terms.
    """
    hx, hz = _bicycle_matrices(l, m, a, b)
    index = np.arange(l * m)
    corner = np.stack([2 * (index // m), 2 * (index % m)], axis=1)
    return css_code(
        name,
        hx,
        hz,
        qubit_coords=np.concatenate([np.add(corner, (1, 0)), np.add(corner, (0, 1))]),
        x_coords=corner,
        z_coords=np.add(corner, (1, 1)),
        schedule=_bicycle_schedule(l, m, a, b) if len(a) == len(b) == 3 else None,
        where=where,
    )


def _bicycle_neighbours(l: int, m: int, a: Terms, b: Terms) -> tuple[list[I64], list[I64]]:
    """The qubit of every X check, and of every Z check, by each term of its first block and then of its second."""
    half = l * m
    index = np.arange(half)

    def shifted(term: tuple[int, int], sign: int) -> I64:
        return (index // m + sign * term[0]) % l * m + (index % m + sign * term[1]) % m

    x = [shifted(t, 1) for t in a] + [half + shifted(t, 1) for t in b]
    return x, [shifted(t, -1) for t in b] + [half + shifted(t, -1) for t in a]


def _bicycle_matrices(l: int, m: int, a: Terms, b: Terms) -> tuple[U8, U8]:
    half = l * m
    hx, hz = np.zeros((half, 2 * half), dtype=np.uint8), np.zeros((half, 2 * half), dtype=np.uint8)
    for h, neighbours in zip((hx, hz), _bicycle_neighbours(l, m, a, b), strict=True):
        for column in neighbours:
            h[np.arange(half), column] = 1
    return hx, hz


def _bicycle_schedule(l: int, m: int, a: Terms, b: Terms) -> Schedule:
    x, z = _bicycle_neighbours(l, m, a, b)
    idle = np.full(l * m, IDLE)
    ticks = [
        np.stack([idle if d is None else neighbours[d] for d in order]).astype(np.int32)
        for order, neighbours in ((_BICYCLE_X_ORDER, x), (_BICYCLE_Z_ORDER, z))
    ]
    return Schedule(x=ticks[0], z=ticks[1])


def known_schedule(hx: U8, hz: U8) -> Schedule | None:
    """The published schedule of a bivariate bicycle code that is given by its matrices, Hx = [A | B] and Hz = [B^T | A^T]
    in the order of `bivariate_bicycle`; None for other matrices.
    """
    half = int(hx.shape[0])
    if hx.shape != hz.shape or hx.shape[1] != 2 * half or not 2 <= 2 * half <= _MAX_BICYCLE_QUBITS:
        return None
    columns = [np.flatnonzero(block).tolist() for block in (hx[0, :half], hx[0, half:])]
    if [len(each) for each in columns] != [3, 3]:
        return None
    for l in (d for d in range(1, half + 1) if half % d == 0):
        m = half // l
        a, b = ([divmod(column, m) for column in each] for each in columns)
        # As published: in A the power of x comes first, in B that of y; then the nearer neighbours.
        a.sort(key=lambda term: (term[1] > 0, min(term[1], m - term[1]), term))
        b.sort(key=lambda term: (term[0] > 0, min(term[0], l - term[0]), term))
        code = _bicycle_matrices(l, m, a, b)
        if np.array_equal(code[0], hx) and np.array_equal(code[1], hz):
            return _bicycle_schedule(l, m, a, b)
    return None


def parse_polynomial(text: str, key: str, l: int, m: int, *, where: str) -> Terms:
    """`x3+y+y2` (also `x^3`, `x2y`, `x2*y`, `1`, `x^-1`) -> exponents mod (l, m), in the order written."""
    terms: Terms = []
    for term in text.replace(" ", "").split("+"):
        found = re.fullmatch(r"1|(?:x(?:\^?(-?\d{1,6}))?)?\*?(?:y(?:\^?(-?\d{1,6}))?)?", term)
        if not found or not term or term.startswith("*") or term.endswith("*"):
            raise InputError(
                f"{key} = {text!r}: {term!r} is not a monomial",
                where=where,
                hint="write a sum of terms such as 1, x, y2, x3y, e.g. x3+y+y2",
            )
        x = int(found[1] or 1) if "x" in term else 0
        y = int(found[2] or 1) if "y" in term else 0
        monomial = (x % l, y % m)
        if monomial in terms:
            raise InputError(
                f"{key} = {text!r}: {term!r} cancels another term, as x^{l} = y^{m} = 1",
                where=where,
                hint="leave both out",
            )
        terms.append(monomial)
    return terms


def _hypergraph_product(request: Request) -> CSSCode:
    h1, h2 = (request.matrix(request.text(key)) for key in ("h1", "h2"))
    return hypergraph_product(request.reference, h1, h2, where=request.where)


def _bivariate_bicycle(request: Request) -> CSSCode:
    l, m = request.integer("l"), request.integer("m")
    if 2 * l * m > _MAX_BICYCLE_QUBITS:
        raise InputError(
            f"l = {l}, m = {m} make {2 * l * m} qubits, at most {_MAX_BICYCLE_QUBITS}", where=request.where
        )
    a, b = (parse_polynomial(request.text(key), key, l, m, where=request.where) for key in ("a", "b"))
    return bivariate_bicycle(request.reference, l, m, a, b, where=request.where)


HYPERGRAPH_PRODUCT = Family(
    name="hypergraph_product",
    summary="product of two classical codes, h1 and h2: references (repetition?distance=3) or matrix files",
    parameters={"h1": Parameter(), "h2": Parameter()},
    build=_hypergraph_product,
)
BIVARIATE_BICYCLE = Family(
    name="bivariate_bicycle",
    summary="bivariate bicycle code on an l x m torus from two polynomials, e.g. a=x3+y+y2, b=y3+x+x2",
    parameters={
        "l": Parameter(low=1, high=_MAX_BICYCLE_QUBITS),
        "m": Parameter(low=1, high=_MAX_BICYCLE_QUBITS),
        "a": Parameter(),
        "b": Parameter(),
    },
    build=_bivariate_bicycle,
)
