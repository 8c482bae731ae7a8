"""Which answers of a confined model a backend may be given."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from autoqec.envs.problem import DecodingProblem
from autoqec.sandbox.worker import HeldModel

MAX_WEIGHT = 1e6
"""Matching weights beyond this are not log-odds: such a shot has no valid answer."""

INVALID = "answers that are NaN, infinite or out of range"


def screen(problem: DecodingProblem, held: HeldModel, raw: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    """[shots] whether each row is a valid answer; in place of the others `raw` gets numbers of the environment's own."""
    if held.kind == "faults":
        spare = raw.shape[1] * 8 - held.columns
        valid: npt.NDArray[Any] = raw[:, -1] >> (8 - spare) == 0 if spare else np.ones(len(raw), np.bool_)
        raw[~valid] = 0
    elif held.kind == "edges":
        with np.errstate(invalid="ignore"):
            valid = np.asarray((np.abs(raw) <= MAX_WEIGHT).all(axis=1))
        raw[~valid] = 1.0
    else:
        with np.errstate(invalid="ignore"):
            valid = np.asarray(((raw >= 0) & (raw <= 1)).all(axis=1))
        raw[~valid] = problem.priors
    return valid
