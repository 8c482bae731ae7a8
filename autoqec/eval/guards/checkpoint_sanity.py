"""Checkpoint sanity: what was loaded. Files that are not plain, finite weights were refused before this."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from autoqec.eval.guards import Guard
from autoqec.eval.schema import GuardResult
from autoqec.eval.verification_state import VerificationState

NAME = "checkpoint_sanity"


def judge(verification: VerificationState, _answers: Sequence[Any]) -> GuardResult:
    state = verification.subject.state
    finite = all(array.dtype.kind == "f" and np.isfinite(array).all() for array in state.values())
    constant = sum(array.size > 1 and bool((array == array.flat[0]).all()) for array in state.values())
    return GuardResult(
        name=NAME,
        ok=finite,
        severity="breaks",
        number=float(verification.subject.n_params),
        text=f"{verification.subject.n_params} numbers in {len(state)} tensors, {verification.subject.n_bytes} bytes, all finite; "
        f"{constant} tensors hold one value only",
        facts={"sha256": verification.subject.sha256, "constant_tensors": constant},
    )


GUARD = Guard(NAME, judge)
