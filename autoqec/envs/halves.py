"""The two halves of a CSS code's error model, which Y-type faults tie together.

A joint fault shows in one half as a class: all faults with the same symptom there look alike to whoever sees that half alone.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from autoqec.envs.problem import F64, I32, CheckMatrix, DecodingProblem, JointModel


@dataclass(frozen=True, eq=False)
class Half(CheckMatrix):
    """Classes of joint faults by their symptom in some of the rows.

    h: [n_checks, n_classes] CSC; rows of the other half are empty. priors: [n_classes] probability that an odd number of the
    class happened. class_of: [n_joint], -1 where a fault has no symptom here.
    """

    h: sp.csc_array[Any]
    priors: F64
    class_of: I32
    rates: F64 | None = None


def with_context(joint: DecodingProblem, seen: npt.NDArray[np.bool_]) -> DecodingProblem:
    """The problem of a backend that decodes the detectors `seen`, with all others as context."""
    shown = _kept_rows(joint.h, seen)
    class_of, first = _classes(sp.csc_array(sp.vstack([shown, joint.l])))
    model = JointModel(seen, joint.h, joint.l, joint.priors, class_of)
    return replace(
        joint,
        h=shown[:, first],
        l=joint.l[:, first],
        priors=odd_of_classes(joint.priors, class_of, len(first)),
        graph=None,
        joint=model,
    )


def context_half(joint: JointModel) -> Half:
    """What the detectors show that the backend does not see."""
    shown = _kept_rows(joint.h, ~joint.seen)
    class_of, first = _classes(shown)
    rates = None if joint.rates is None else rates_of_classes(joint.rates, class_of, len(first))
    return Half(shown[:, first], odd_of_classes(joint.priors, class_of, len(first)), class_of, rates)


def with_rates(problem: DecodingProblem, rates: F64) -> DecodingProblem:
    """The problem with the rates of the faults that are sampled."""
    if (joint := problem.joint) is None:
        return replace(problem, rates=rates)
    shown = rates_of_classes(rates, joint.fault_of, problem.n_faults)
    return replace(problem, rates=shown, joint=replace(joint, rates=rates))


def rates_of_classes(rates: F64, class_of: I32, n_classes: int) -> F64:
    """[n_classes] the sum over the faults of each class."""
    inside = class_of >= 0
    return np.bincount(class_of[inside], rates[inside], minlength=n_classes).astype(np.float64)


def odd_of_classes(priors: F64, class_of: I32, n_classes: int) -> F64:
    """[n_classes] probability of an odd number of faults: 1 - 2 q is the product of 1 - 2 p."""
    inside = class_of >= 0
    logs = np.log1p(-2.0 * np.minimum(priors[inside], 0.5 - 1e-15))
    return np.asarray(-np.expm1(np.bincount(class_of[inside], logs, minlength=n_classes)) / 2.0)


def _kept_rows(matrix: sp.csc_array[Any], keep: npt.NDArray[np.bool_]) -> sp.csc_array[Any]:
    """The matrix with the other rows emptied."""
    inside = keep[matrix.indices]
    column = np.repeat(np.arange(matrix.shape[1]), np.diff(matrix.indptr))[inside]
    indptr = np.concatenate([[0], np.cumsum(np.bincount(column, minlength=matrix.shape[1]))])
    parts = (np.ones(int(inside.sum()), dtype=np.uint8), matrix.indices[inside], indptr.astype(np.int32))
    return sp.csc_array(parts, shape=matrix.shape)


def _classes(columns: sp.csc_array[Any]) -> tuple[I32, npt.NDArray[np.int64]]:
    """The class of each column, -1 for an empty one, and the first column of each class; in order of appearance."""
    columns.sort_indices()
    rows = columns.indices.astype(np.int32)
    known: dict[bytes, int] = {}
    first, class_of = [], np.full(columns.shape[1], -1, dtype=np.int32)
    for column, (low, high) in enumerate(zip(columns.indptr[:-1], columns.indptr[1:], strict=True)):
        if low == high:
            continue
        symptom = rows[low:high].tobytes()
        if symptom not in known:
            known[symptom] = len(known)
            first.append(column)
        class_of[column] = known[symptom]
    return class_of, np.array(first, dtype=np.int64)
