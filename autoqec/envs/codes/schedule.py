"""Syndrome-extraction schedules: which data qubit each check touches in which tick.

A round is `period` ticks. The ancilla of a check is reset in the tick before its first gate and measured in
the tick after its last one. A check whose first gate is in tick 0 has its ancilla reset in the last tick of
the round before (ahead of the first round: together with the data qubits).
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from autoqec.errors import InputError

I32 = npt.NDArray[np.int32]
U8 = npt.NDArray[np.uint8]
IDLE = -1


@dataclass(frozen=True, eq=False)
class Schedule:
    """x: [period, mx] data qubit of each X check in each tick, `IDLE` for none; z: [period, mz], likewise."""

    x: I32
    z: I32

    @property
    def period(self) -> int:
        return int(self.x.shape[0])

    def check(self, hx: U8, hz: U8, *, where: str) -> None:
        """Raise unless one round measures exactly the stabilisers hx and hz."""
        if self.x.shape != (self.period, hx.shape[0]) or self.z.shape != (self.period, hz.shape[0]):
            raise InputError(
                f"schedule of shapes {self.x.shape}, {self.z.shape} for "
                f"{hx.shape[0]} X and {hz.shape[0]} Z checks",
                where=where,
            )
        times = []
        for kind, table, h in (("X", self.x, hx), ("Z", self.z, hz)):
            tick, check = np.nonzero(table != IDLE)
            when = np.full(h.shape, -1, dtype=np.int64)
            when[check, table[tick, check]] = tick
            if tick.size != np.count_nonzero(h) or ((when >= 0) != h.astype(bool)).any():
                raise InputError(
                    f"the schedule of the {kind} checks does not touch each of their qubits once", where=where
                )
            for c in range(h.shape[0]):
                first, last = span(table, c)
                if last >= self.period - (2 if first == 0 else 1):
                    raise InputError(
                        f"{kind} check {c} leaves no tick to measure and reset its ancilla", where=where
                    )
            times.append(when)
        for t in range(self.period):
            busy = np.concatenate([self.x[t], self.z[t]])
            busy = busy[busy != IDLE]
            if np.unique(busy).size != busy.size:
                raise InputError(f"two gates of tick {t} share a data qubit", where=where)
        self._check_order(*times, where=where)

    def _check_order(
        self, when_x: npt.NDArray[np.int64], when_z: npt.NDArray[np.int64], *, where: str
    ) -> None:
        """An X and a Z check measure commuting operators only if X goes first on an even number of shared
        qubits.
        """
        odd = np.zeros((when_x.shape[0], when_z.shape[0]), dtype=bool)
        for q in range(when_x.shape[1]):
            rows, columns = np.flatnonzero(when_x[:, q] >= 0), np.flatnonzero(when_z[:, q] >= 0)
            odd[np.ix_(rows, columns)] ^= when_x[rows, q][:, None] < when_z[columns, q][None, :]
        if odd.any():
            i, j = (int(v[0]) for v in np.nonzero(odd))
            raise InputError(f"the schedule entangles X check {i} with Z check {j}", where=where)


def span(table: I32, check: int) -> tuple[int, int]:
    """First and last tick in which the check has a gate; (-1, -1) for a check without any."""
    ticks = np.flatnonzero(table[:, check] != IDLE)
    return (int(ticks[0]), int(ticks[-1])) if ticks.size else (-1, -1)


def colouring_schedule(hx: U8, hz: U8) -> Schedule:
    """All X checks, then all Z checks, each in as few conflict-free layers as the largest degree allows."""
    parts = [colour_edges(h) for h in (hx, hz)]
    gates = [int(part.max(initial=-1)) + 1 for part in parts]
    # The measurement of the last layer's checks takes one tick. Resets wrap into it, except where only one
    # kind of check exists: its ancillas are still being measured then.
    period = sum(gates) + (1 if all(gates) else 2)
    tables = []
    for part, start in zip(parts, (0, gates[0]), strict=True):
        table = np.full((period, part.shape[0]), IDLE, dtype=np.int32)
        checks, qubits = np.nonzero(part >= 0)
        table[start + part[checks, qubits], checks] = qubits
        tables.append(table)
    return Schedule(x=tables[0], z=tables[1])


def colour_edges(h: U8) -> I32:
    """Koenig edge colouring of a Tanner graph: [m, n] colour of each edge, -1 where there is none.

    Uses as many colours as the largest row or column weight; no two edges of a check or of a bit share one.
    """
    m, n = h.shape
    degrees = [int(h.sum(axis=axis, dtype=np.int64).max(initial=0)) for axis in (0, 1)]
    colours = max(degrees)
    partner = np.full((m + n, colours), -1, dtype=np.int64)  # partner[node, colour]; bit q is node m + q
    for check, bit in zip(*(part.tolist() for part in np.nonzero(h)), strict=True):
        u, v = check, m + bit
        a = int(np.flatnonzero(partner[u] < 0)[0])
        b = int(np.flatnonzero(partner[v] < 0)[0])
        if partner[v, a] >= 0:
            # Swap a and b along the path that starts at v with colour a. It cannot end in u: a is free there
            # and a path from v reaches checks by colour a.
            path, colour = [v], a
            while partner[path[-1], colour] >= 0:
                path.append(int(partner[path[-1], colour]))
                colour = a + b - colour
            edges = list(pairwise(path))
            for i, (s, t) in enumerate(edges):
                old = a if i % 2 == 0 else b
                partner[s, old] = partner[t, old] = -1
            for i, (s, t) in enumerate(edges):
                new = b if i % 2 == 0 else a
                partner[s, new], partner[t, new] = t, s
        partner[u, a], partner[v, a] = v, u
    coloured = np.full((m, n), -1, dtype=np.int32)
    checks, used = np.nonzero(partner[:m] >= 0)
    coloured[checks, partner[checks, used] - m] = used
    return coloured
