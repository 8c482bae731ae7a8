"""Checks and schedules of codes whose qubits and checks sit on a square grid."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from autoqec.envs.codes.schedule import IDLE, Schedule

Point = tuple[int, int]


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
