"""Toric code on a d x d square lattice, [[2 d^2, 2, d]] (Kitaev, Ann. Phys. 303, 2 (2003))."""

from __future__ import annotations

import numpy as np

from autoqec.envs.codes.code_string import Parameter
from autoqec.envs.codes.css import CSSCode, css_code
from autoqec.envs.codes.family import Family, Request
from autoqec.envs.codes.lattice import lattice_checks

# North, west, east, south: the two gates after the middle of a check lie around a corner, so that one
# ancilla fault makes no straight step of two qubits along a logical operator.
_ORDER = ((0, 1), (-1, 0), (1, 0), (0, -1))


def toric(name: str, distance: int, *, where: str) -> CSSCode:
    """Qubits on edges, X checks on vertices, Z checks on faces; vertices have even coordinates."""
    size = 2 * distance
    grid = [(i, j) for i in range(size) for j in range(size)]
    qubits = [(i, j) for i, j in grid if (i + j) % 2]
    x_checks = [(i, j) for i, j in grid if i % 2 == 0 and j % 2 == 0]
    z_checks = [(i, j) for i, j in grid if i % 2 and j % 2]
    hx, hz, schedule = lattice_checks(qubits, x_checks, z_checks, x_order=_ORDER, z_order=_ORDER, wrap=size)
    return css_code(
        name,
        hx,
        hz,
        qubit_coords=np.array(qubits),
        x_coords=np.array(x_checks),
        z_coords=np.array(z_checks),
        schedule=schedule,
        where=where,
    )


def _build(request: Request) -> CSSCode:
    return toric(request.reference, request.integer("distance"), where=request.where)


TORIC = Family(
    name="toric",
    summary="toric code, [[2 d^2, 2, d]]",
    parameters={"distance": Parameter(low=2, high=40)},
    build=_build,
)
