"""What there is to say about a code at a glance."""

from __future__ import annotations

from dataclasses import asdict, dataclass

import numpy as np
import numpy.typing as npt

from autoqec.envs.codes.css import ClassicalCode, Code

U8 = npt.NDArray[np.uint8]


@dataclass(frozen=True)
class MatrixReport:
    """Weights of one check matrix as (smallest, largest), over checks and bits that are not isolated.

    isolated_checks: rows without a bit; isolated_bits: columns without a check of this matrix.
    """

    checks: int
    check_weights: tuple[int, int]
    bit_degrees: tuple[int, int]
    isolated_checks: tuple[int, ...]
    isolated_bits: tuple[int, ...]


@dataclass(frozen=True)
class CodeReport:
    """n bits, k logical ones; distances are upper bounds per type of operator, "x" and "z" or "bit".

    matrices: by name, "Hx" and "Hz" or "H". schedule: "published", or "colouring" where none is known.
    unprotected: bits that are in no check at all; any of them makes the distance 1.
    """

    name: str
    n: int
    k: int
    distance_bounds: dict[str, int]
    matrices: dict[str, MatrixReport]
    schedule: str
    unprotected: tuple[int, ...]

    def to_dict(self) -> dict[str, object]:
        """Plain data for JSON."""
        return asdict(self)


def code_report(code: Code, *, trials: int | None = None, seed: int = 0) -> CodeReport:
    """Facts about a code; `trials` and `seed` go to the search for light logical operators."""
    if isinstance(code, ClassicalCode):
        matrices = {"H": code.h}
        bounds = {"bit": code.distance_bound(trials=trials, seed=seed)}
        schedule = "colouring"
    else:
        matrices = {"Hx": code.hx, "Hz": code.hz}
        bounds = {
            "x": code.distance_bound("x", trials=trials, seed=seed),
            "z": code.distance_bound("z", trials=trials, seed=seed),
        }
        schedule = "colouring" if code.schedule is None else "published"
    touched = np.logical_or.reduce([h.any(axis=0) for h in matrices.values()])
    return CodeReport(
        name=code.name,
        n=code.n,
        k=code.k,
        distance_bounds=bounds,
        matrices={name: matrix_report(h) for name, h in matrices.items()},
        schedule=schedule,
        unprotected=_where(~touched),
    )


def matrix_report(h: U8) -> MatrixReport:
    weights, degrees = (h.sum(axis=axis, dtype=np.int64) for axis in (1, 0))
    return MatrixReport(
        checks=int(h.shape[0]),
        check_weights=_range(weights),
        bit_degrees=_range(degrees),
        isolated_checks=_where(weights == 0),
        isolated_bits=_where(degrees == 0),
    )


def _range(counts: npt.NDArray[np.int64]) -> tuple[int, int]:
    used = counts[counts > 0]
    return (int(used.min()), int(used.max())) if used.size else (0, 0)


def _where(mask: npt.NDArray[np.bool_]) -> tuple[int, ...]:
    return tuple(int(i) for i in np.flatnonzero(mask))
