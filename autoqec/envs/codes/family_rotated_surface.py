"""Rotated surface code, [[d^2, 1, d]], with the schedule of Tomita and Svore, Phys. Rev. A 90, 062320
(2014).
"""

from __future__ import annotations

import numpy as np

from autoqec.envs.codes.code_string import Parameter
from autoqec.envs.codes.css import CSSCode, css_code
from autoqec.envs.codes.family import Family, Request
from autoqec.envs.codes.lattice import lattice_checks

# The last two gates of a check lie across the logical operator of its own type.
_X_ORDER = ((1, 1), (-1, 1), (1, -1), (-1, -1))
_Z_ORDER = ((1, 1), (1, -1), (-1, 1), (-1, -1))


def rotated_surface(name: str, distance: int, *, where: str) -> CSSCode:
    """Data on odd coordinates, checks on even ones, in the layout of Stim's `surface_code:rotated_memory_z`.

    Logical Z runs along the first coordinate, logical X along the second.
    """
    qubits = [(2 * i + 1, 2 * j + 1) for i in range(distance) for j in range(distance)]
    x_checks, z_checks = [], []
    for i in range(distance + 1):
        for j in range(distance + 1):
            is_x = i % 2 != j % 2
            on_z_edge, on_x_edge = i in (0, distance), j in (0, distance)
            if is_x and not on_z_edge:
                x_checks.append((2 * i, 2 * j))
            elif not is_x and not on_x_edge:
                z_checks.append((2 * i, 2 * j))
    hx, hz, schedule = lattice_checks(qubits, x_checks, z_checks, x_order=_X_ORDER, z_order=_Z_ORDER)
    places = np.array(qubits)
    return css_code(
        name,
        hx,
        hz,
        lx=[(places[:, 0] == 1).astype(np.uint8)],
        lz=[(places[:, 1] == 1).astype(np.uint8)],
        qubit_coords=places,
        x_coords=np.array(x_checks),
        z_coords=np.array(z_checks),
        schedule=schedule,
        where=where,
    )


def _build(request: Request) -> CSSCode:
    return rotated_surface(request.reference, request.integer("distance"), where=request.where)


ROTATED_SURFACE = Family(
    name="rotated_surface",
    summary="rotated surface code, [[d^2, 1, d]]",
    parameters={"distance": Parameter(low=2, high=60)},
    build=_build,
)
