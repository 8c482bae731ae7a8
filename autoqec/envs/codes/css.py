"""CSS codes and classical codes: checks, logical operators, distance bounds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from autoqec.envs.codes import gf2
from autoqec.envs.codes.distance import bits_in_light_words, light_word
from autoqec.envs.codes.schedule import Schedule
from autoqec.errors import InputError

F64 = npt.NDArray[np.float64]
U8 = npt.NDArray[np.uint8]
Basis = Literal["x", "z"]


@dataclass(frozen=True, eq=False)
class CSSCode:
    """A CSS code. Make it with `css_code`, which checks the parts and finds the logical operators.

    hx: [mx, n] X checks; hz: [mz, n] Z checks, hx hz^T = 0. Rows may be dependent.
    lx, lz: [k, n] logical operators, lx lz^T = 1: lx[i] flips what lz[i] measures, and nothing else.
    qubit_coords, x_coords, z_coords: [., c] positions of data qubits and checks, for drawing only.
    schedule: a published order of the gates, where the family has one.
    """

    name: str
    hx: U8
    hz: U8
    lx: U8
    lz: U8
    qubit_coords: F64 | None = None
    x_coords: F64 | None = None
    z_coords: F64 | None = None
    schedule: Schedule | None = None

    @property
    def n(self) -> int:
        return int(self.hx.shape[1])

    @property
    def k(self) -> int:
        return int(self.lx.shape[0])

    @property
    def mx(self) -> int:
        return int(self.hx.shape[0])

    @property
    def mz(self) -> int:
        return int(self.hz.shape[0])

    def checks(self, basis: Basis) -> U8:
        return self.hx if basis == "x" else self.hz

    def logicals(self, basis: Basis) -> U8:
        return self.lx if basis == "x" else self.lz

    def distance_bound(self, basis: Basis, *, trials: int | None = None, seed: int = 0) -> int:
        """Weight of the lightest logical operator of this type found: an upper bound on the distance.

        It is the distance itself in practice for the builtin codes. Without `trials`: 100, fewer if n is in
        the hundreds and more.
        """
        other: Basis = "z" if basis == "x" else "x"
        return light_word(gf2.nullspace(self.checks(other)), self.logicals(other), trials=trials, seed=seed)


@dataclass(frozen=True, eq=False)
class ClassicalCode:
    """A classical code: one matrix of Z checks against bit flips. Make it with `classical_code`.

    h: [m, n] checks; l: [k, n] observables, injective on the codewords ker(h): a residual flip is harmless
    if and only if it flips none of them. has_given_observables: l was given, and not chosen here.
    """

    name: str
    h: U8
    l: U8
    qubit_coords: F64 | None = None
    z_coords: F64 | None = None
    has_given_observables: bool = False

    @property
    def n(self) -> int:
        return int(self.h.shape[1])

    @property
    def k(self) -> int:
        return int(self.l.shape[0])

    @property
    def m(self) -> int:
        return int(self.h.shape[0])

    @property
    def looks_like_css_half(self) -> bool:
        """Whether every bit is in a codeword that is as light as a check: such words are the stabilisers of the other half."""
        heaviest = int(self.h.sum(axis=1, dtype=np.int64).max())
        return bool(bits_in_light_words(gf2.nullspace(self.h), heaviest).all())

    def distance_bound(self, *, trials: int | None = None, seed: int = 0) -> int:
        """Weight of the lightest nonzero codeword found: an upper bound on the distance."""
        return light_word(gf2.nullspace(self.h), self.l, trials=trials, seed=seed)


Code = CSSCode | ClassicalCode


def css_code(
    name: str,
    hx: npt.ArrayLike,
    hz: npt.ArrayLike,
    *,
    lx: npt.ArrayLike | None = None,
    lz: npt.ArrayLike | None = None,
    qubit_coords: npt.ArrayLike | None = None,
    x_coords: npt.ArrayLike | None = None,
    z_coords: npt.ArrayLike | None = None,
    schedule: Schedule | None = None,
    where: str | None = None,
) -> CSSCode:
    """A checked `CSSCode`; logical operators that are not given are computed.

    Raises:
        InputError: entries other than 0 and 1, shapes that do not fit, checks that anticommute, no logical
        qubit,
            logical operators that are none. `where` names the source in the message.
    """
    place = where or name
    x, z = binary_matrix(hx, "Hx", where=place), binary_matrix(hz, "Hz", where=place)
    if x.shape[1] != z.shape[1]:
        raise InputError(
            f"Hx has {x.shape[1]} columns and Hz has {z.shape[1]}",
            where=place,
            hint="both have one column per data qubit",
        )
    clash = np.argwhere(gf2.product(x, z.T))
    if clash.size:
        i, j = (int(v) for v in clash[0])
        shared = np.flatnonzero(x[i] & z[j]).tolist()
        raise InputError(
            f"X check {i} and Z check {j} anticommute: they share an odd number of qubits, {_some(shared)}",
            where=place,
            hint="CSS checks need Hx Hz^T = 0 mod 2; is one of them transposed, or from another code?",
        )
    k = x.shape[1] - gf2.rank(x) - gf2.rank(z)
    if k == 0:
        raise InputError(
            f"the code has no logical qubit to protect: n = {x.shape[1]}, rank Hx + rank Hz = n",
            where=place,
            hint="remove a check, or use another code",
        )
    logical_x, logical_z = _logicals(
        x,
        z,
        k,
        None if lx is None else binary_matrix(lx, "Lx", where=place),
        None if lz is None else binary_matrix(lz, "Lz", where=place),
        where=place,
    )
    if schedule is not None:
        schedule.check(x, z, where=place)
    return CSSCode(
        name=name,
        hx=x,
        hz=z,
        lx=logical_x,
        lz=logical_z,
        qubit_coords=_coords(qubit_coords, x.shape[1], "qubit", where=place),
        x_coords=_coords(x_coords, x.shape[0], "X check", where=place),
        z_coords=_coords(z_coords, z.shape[0], "Z check", where=place),
        schedule=schedule,
    )


def classical_code(
    name: str,
    h: npt.ArrayLike,
    *,
    l: npt.ArrayLike | None = None,
    qubit_coords: npt.ArrayLike | None = None,
    z_coords: npt.ArrayLike | None = None,
    where: str | None = None,
) -> ClassicalCode:
    """A checked `ClassicalCode`; without `l`, its observables are the bits of an information set."""
    place = where or name
    checks = binary_matrix(h, "H", where=place)
    words = gf2.nullspace(checks)
    if not words.shape[0]:
        raise InputError(
            f"no codeword but zero, nothing to protect: H has full column rank {checks.shape[1]}",
            where=place,
            hint="is H transposed? It has one row per check and one column per bit",
        )
    if l is None:
        observables = np.zeros_like(words)
        observables[np.arange(words.shape[0]), gf2.row_reduce(words)[1]] = 1
    else:
        observables = binary_matrix(l, "L", where=place)
        if observables.shape[1] != checks.shape[1]:
            raise InputError(f"L has {observables.shape[1]} columns and H has {checks.shape[1]}", where=place)
        if gf2.rank(gf2.product(words, observables.T)) < words.shape[0]:
            raise InputError(
                "some codeword flips none of the observables L",
                where=place,
                hint=f"give {words.shape[0]} independent observables, or leave L out; of a CSS code give both Hx and Hz",
            )
    return ClassicalCode(
        name=name,
        h=checks,
        l=observables,
        qubit_coords=_coords(qubit_coords, checks.shape[1], "bit", where=place),
        z_coords=_coords(z_coords, checks.shape[0], "check", where=place),
        has_given_observables=l is not None,
    )


def binary_matrix(values: npt.ArrayLike, label: str, *, where: str) -> U8:
    """`values` as a dense matrix of zeros and ones, or an InputError that names the first entry that is
    neither.
    """
    matrix = np.asarray(values)
    if matrix.ndim != 2:
        raise InputError(f"{label} has {matrix.ndim} dimension(s), expected a matrix", where=where)
    if not matrix.size:
        raise InputError(f"{label} is empty: shape {matrix.shape}", where=where)
    if matrix.dtype.kind not in "biuf":
        raise InputError(f"{label} has entries of type {matrix.dtype}, expected numbers 0 and 1", where=where)
    bad = np.argwhere((matrix != 0) & (matrix != 1))
    if bad.size:
        i, j = (int(v) for v in bad[0])
        raise InputError(
            f"{label}[{i}, {j}] = {matrix[i, j]}, expected 0 or 1" + _count_more(len(bad)),
            where=where,
            hint="give the matrix over GF(2)",
        )
    return np.ascontiguousarray(matrix.astype(np.uint8))


def _logicals(x: U8, z: U8, k: int, lx: U8 | None, lz: U8 | None, *, where: str) -> tuple[U8, U8]:
    """Dual bases of logical operators; the given ones are kept as they are."""
    for label, given, other_label, other, same in (("Lx", lx, "Z", z, x), ("Lz", lz, "X", x, z)):
        if given is None:
            continue
        if given.shape != (k, x.shape[1]):
            raise InputError(f"{label} has shape {given.shape}, expected {(k, x.shape[1])}", where=where)
        clash = np.argwhere(gf2.product(given, other.T))
        if clash.size:
            i, j = (int(v) for v in clash[0])
            raise InputError(f"row {i} of {label} anticommutes with {other_label} check {j}", where=where)
        if len(gf2.independent_rows(same, given)) < k:
            raise InputError(
                f"the rows of {label} do not span the {k} logical qubits: some sum is a stabiliser",
                where=where,
            )
    found_x = _extend(x, gf2.nullspace(z)) if lx is None else lx
    found_z = _extend(z, gf2.nullspace(x)) if lz is None else lz
    pairing = gf2.product(found_x, found_z.T)
    undo = gf2.inverse(pairing)
    if lz is None:
        found_z = gf2.product(undo.T, found_z)
    elif lx is None:
        found_x = gf2.product(undo, found_x)
    elif (pairing != np.eye(k, dtype=np.uint8)).any():
        raise InputError(
            "Lx Lz^T is not the identity", where=where, hint="pair the logical operators, or give one kind"
        )
    return found_x, found_z


def _extend(stabilisers: U8, commuting: U8) -> U8:
    return commuting[gf2.independent_rows(stabilisers, commuting)]


def _coords(values: npt.ArrayLike | None, rows: int, label: str, *, where: str) -> F64 | None:
    if values is None:
        return None
    coords = np.asarray(values, dtype=np.float64)
    if coords.ndim != 2 or coords.shape[0] != rows or not np.isfinite(coords).all():
        raise InputError(f"{label} coordinates: expected {rows} rows of finite numbers", where=where)
    return coords


def _some(items: list[int], limit: int = 8) -> str:
    return str(items[:limit])[:-1] + (", ...]" if len(items) > limit else "]")


def _count_more(count: int) -> str:
    return f" (and {count - 1} more such entries)" if count > 1 else ""
