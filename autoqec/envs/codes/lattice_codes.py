"""Codes whose qubits and checks lie on a square grid: rotated surface and toric codes, with their schedules."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from autoqec.envs.codes.code_string import Parameter
from autoqec.envs.codes.css import CSSCode, css_code
from autoqec.envs.codes.family import Family, Request
from autoqec.envs.codes.schedule import IDLE, Schedule

Point = tuple[int, int]

# Tomita and Svore, Phys. Rev. A 90, 062320 (2014): the last two gates of a check lie across the logical
# operator of its own type.
_SURFACE_X_ORDER = ((1, 1), (-1, 1), (1, -1), (-1, -1))
_SURFACE_Z_ORDER = ((1, 1), (1, -1), (-1, 1), (-1, -1))
# North, west, east, south: the two gates after the middle of a check lie around a corner, so that one
# ancilla fault makes no straight step of two qubits along a logical operator.
_TORIC_ORDER = ((0, 1), (-1, 0), (1, 0), (0, -1))


def lattice_checks(
    qubits: Sequence[Point],
    x_checks: Sequence[Point],
    z_checks: Sequence[Point],
    *,
    x_order: Sequence[Point],
    z_order: Sequence[Point],
    wrap: int | None = None,
) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.uint8], Schedule]:
    """hx, hz and the schedule in which tick t joins each check to the qubit at offset order[t], where there
    is one.

    `wrap`: coordinates are taken modulo this, for a torus. Two more ticks measure and reset the ancillas.
    """
    where = {point: i for i, point in enumerate(qubits)}
    matrices, tables = [], []
    for checks, order in ((x_checks, x_order), (z_checks, z_order)):
        h = np.zeros((len(checks), len(qubits)), dtype=np.uint8)
        table = np.full((len(order) + 2, len(checks)), IDLE, dtype=np.int32)
        for c, (i, j) in enumerate(checks):
            for t, (di, dj) in enumerate(order):
                point = (i + di, j + dj) if wrap is None else ((i + di) % wrap, (j + dj) % wrap)
                if point in where:
                    table[t, c] = where[point]
                    h[c, where[point]] = 1
        matrices.append(h)
        tables.append(table)
    return matrices[0], matrices[1], Schedule(x=tables[0], z=tables[1])


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
    hx, hz, schedule = lattice_checks(
        qubits, x_checks, z_checks, x_order=_SURFACE_X_ORDER, z_order=_SURFACE_Z_ORDER
    )
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


def toric(name: str, distance: int, *, where: str) -> CSSCode:
    """Qubits on edges, X checks on vertices, Z checks on faces; vertices have even coordinates.

    Kitaev, Ann. Phys. 303, 2 (2003).
    """
    size = 2 * distance
    grid = [(i, j) for i in range(size) for j in range(size)]
    qubits = [(i, j) for i, j in grid if (i + j) % 2]
    x_checks = [(i, j) for i, j in grid if i % 2 == 0 and j % 2 == 0]
    z_checks = [(i, j) for i, j in grid if i % 2 and j % 2]
    hx, hz, schedule = lattice_checks(
        qubits, x_checks, z_checks, x_order=_TORIC_ORDER, z_order=_TORIC_ORDER, wrap=size
    )
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


def _rotated_surface(request: Request) -> CSSCode:
    return rotated_surface(request.reference, request.integer("distance"), where=request.where)


def _toric(request: Request) -> CSSCode:
    return toric(request.reference, request.integer("distance"), where=request.where)


ROTATED_SURFACE = Family(
    name="rotated_surface",
    summary="rotated surface code, [[d^2, 1, d]]",
    parameters={"distance": Parameter(low=2, high=60)},
    build=_rotated_surface,
)
TORIC = Family(
    name="toric",
    summary="toric code, [[2 d^2, 2, d]]",
    parameters={"distance": Parameter(low=2, high=40)},
    build=_toric,
)
