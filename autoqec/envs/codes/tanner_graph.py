"""Bipartite graphs of checks and bits, and the codes they stand for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from autoqec.envs.codes.css import Code, classical_code, css_code
from autoqec.errors import InputError

Coords = tuple[float, ...]
MAX_ELEMENTS = 200_000_000


@dataclass(frozen=True)
class TannerReport:
    """Degrees as (smallest, largest); duplicate_edges as (check, bit), each counted once in the code."""

    bits: int
    checks: int
    edges: int
    bit_degrees: tuple[int, int]
    check_degrees: tuple[int, int]
    isolated_bits: tuple[str, ...]
    isolated_checks: tuple[str, ...]
    duplicate_edges: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class TannerGraph:
    """A bipartite graph of checks and bits. `edges` are (check, bit) indices in the order of the file."""

    name: str
    where: str
    bits: tuple[str, ...]
    checks: tuple[str, ...]
    types: tuple[str | None, ...]
    edges: tuple[tuple[int, int], ...]
    bit_coords: tuple[Coords | None, ...] = ()
    check_coords: tuple[Coords | None, ...] = ()
    logicals: Mapping[str, Sequence[Sequence[int]]] = field(default_factory=dict)

    def report(self) -> TannerReport:
        times = Counter(self.edges)
        check_degrees, bit_degrees = (Counter(edge[side] for edge in times) for side in (0, 1))
        return TannerReport(
            bits=len(self.bits),
            checks=len(self.checks),
            edges=len(times),
            bit_degrees=_range([bit_degrees[i] for i in range(len(self.bits))]),
            check_degrees=_range([check_degrees[i] for i in range(len(self.checks))]),
            isolated_bits=tuple(name for i, name in enumerate(self.bits) if not bit_degrees[i]),
            isolated_checks=tuple(name for i, name in enumerate(self.checks) if not check_degrees[i]),
            duplicate_edges=tuple(
                (self.checks[c], self.bits[b]) for (c, b), count in times.items() if count > 1
            ),
        )

    def to_code(self) -> Code:
        """The CSS code of typed checks, or the classical code of checks that have none."""
        if len(self.bits) * len(self.checks) > MAX_ELEMENTS:
            raise InputError(
                f"{len(self.checks)} checks on {len(self.bits)} bits are too many", where=self.where
            )
        h = np.zeros((len(self.checks), len(self.bits)), dtype=np.uint8)
        if self.edges:
            h[tuple(np.array(self.edges).T)] = 1
        kinds = set(self.types)
        bit_coords = self._coordinates(self.bit_coords, self.bits)
        check_coords = self._coordinates(self.check_coords, self.checks)
        if kinds <= {None} or kinds == {"Z"}:
            if "x" in self.logicals:
                raise InputError("a classical code has no X logicals", where=self.where, hint='keep "z" only')
            return classical_code(
                self.name,
                h,
                l=self._logicals("z"),
                qubit_coords=bit_coords,
                z_coords=check_coords,
                where=self.where,
            )
        if kinds != {"X", "Z"}:
            odd = "every check is of type X" if kinds == {"X"} else "only some checks have a type"
            example = "" if None not in kinds else f", {self.checks[self.types.index(None)]!r} has none"
            raise InputError(
                odd + example, where=self.where, hint="give all checks a type, X and Z, or none of them any"
            )
        rows = {kind: [i for i, t in enumerate(self.types) if t == kind] for kind in ("X", "Z")}
        return css_code(
            self.name,
            h[rows["X"]],
            h[rows["Z"]],
            lx=self._logicals("x"),
            lz=self._logicals("z"),
            qubit_coords=bit_coords,
            x_coords=None if check_coords is None else check_coords[rows["X"]],
            z_coords=None if check_coords is None else check_coords[rows["Z"]],
            where=self.where,
        )

    def _logicals(self, key: str) -> npt.NDArray[np.uint8] | None:
        if key not in self.logicals:
            return None
        rows = np.zeros((len(self.logicals[key]), len(self.bits)), dtype=np.uint8)
        for row, bits in zip(rows, self.logicals[key], strict=True):
            row[list(bits)] = 1
        return rows

    def _coordinates(
        self, coords: Sequence[Coords | None], names: Sequence[str]
    ) -> npt.NDArray[np.float64] | None:
        given = [c for c in coords if c is not None]
        if not given:
            return None
        for name, c in zip(names, coords, strict=True):
            if c is None or len(c) != len(given[0]):
                raise InputError(
                    f"{name!r} has {'no' if c is None else len(c)} coordinates, others have {len(given[0])}",
                    where=self.where,
                    hint="give all nodes the same number of coordinates, or none",
                )
        return np.array(given)


def _range(values: Sequence[int]) -> tuple[int, int]:
    return (min(values, default=0), max(values, default=0))
