"""An error model that is given as such, seen as the problem that a predecoder was trained on.

A predecoder knows its faults by their place. A detector error model lists the same faults in another order, and says neither the
coordinates' meaning nor the basis of a detector. So faults are matched by their symptoms, and only probabilities are taken over.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from autoqec.envs.environment import Environment
from autoqec.envs.halves import odd_of_classes
from autoqec.envs.problem import F64, DecodingProblem, JointModel, MatchingGraph
from autoqec.errors import InputError

_SAME = 1e-9
"""Relative difference of probabilities that come from the same circuit, by way of a text."""


def fitted(given: DecodingProblem, env: Environment) -> DecodingProblem:
    """The environment's problem with the probabilities of `given`.

    Raises:
        InputError: `given` has other detectors, observables or faults.
    """
    if given.name == env.spec.name and given.p in env.spec.noise.p:
        own = env.problem(given.p)
        if _is_equal(given, own):
            return own
    own = env.problem(env.spec.noise.p[0])
    order = _order(given, own.sampled, env.spec.name)
    priors = given.priors[order]
    for p in env.spec.noise.p:
        known = env.problem(p)
        if np.allclose(priors, known.sampled.priors, rtol=_SAME, atol=0.0):
            return known
    if (joint := own.joint) is not None:
        shown = odd_of_classes(priors, joint.fault_of, own.n_faults)
        return replace(own, p=float("nan"), priors=shown, joint=replace(joint, priors=priors), dem=given.dem)
    graph = None if own.graph is None else _with_priors(own.graph, priors)
    if graph is not None and given.graph is None:
        raise InputError(
            "the error model has faults that are not decomposed, which matching needs",
            where=env.spec.name,
            hint="make it with circuit.detector_error_model(decompose_errors=True)",
        )
    return replace(own, p=float("nan"), priors=priors, graph=graph, dem=given.dem)


def _is_equal(a: DecodingProblem, b: DecodingProblem) -> bool:
    return (
        a.h.shape == b.h.shape
        and np.array_equal(a.h.indices, b.h.indices)
        and np.array_equal(a.l.indices, b.l.indices)
        and np.array_equal(a.priors, b.priors)
    )


def _order(given: DecodingProblem, own: DecodingProblem | JointModel, name: str) -> npt.NDArray[np.int64]:
    """For every fault of `own`, its place in `given`."""
    for what, theirs, ours in (
        ("detectors", given.n_checks, own.n_checks),
        ("observables", given.n_observables, int(own.l.shape[0])),
    ):
        if theirs != ours:
            raise _other(f"it has {theirs} {what}, and the predecoder's problem {ours}", name)
    places = {symptom: place for place, symptom in enumerate(_symptoms(given))}
    ours_by_place = _symptoms(own)
    missing = sum(symptom not in places for symptom in ours_by_place)
    extra = len(places) - (len(ours_by_place) - missing)
    if missing or extra:
        raise _other(f"{missing} of the predecoder's faults are not in it, and {extra} others are", name)
    return np.array([places[symptom] for symptom in ours_by_place], dtype=np.int64)


def _symptoms(problem: DecodingProblem | JointModel) -> list[bytes]:
    """What each fault flips, in one byte string."""
    both: sp.csc_array[Any] = sp.csc_array(sp.vstack([problem.h, problem.l]))
    both.sort_indices()
    rows = both.indices.astype(np.int32)
    return [rows[a:b].tobytes() for a, b in zip(both.indptr[:-1], both.indptr[1:], strict=True)]


def _with_priors(graph: MatchingGraph, priors: F64) -> MatchingGraph:
    """An edge has fired if an odd number of its faults did: 1 - 2 q = product of (1 - 2 p)."""
    odd = np.exp(graph.fault_edges.astype(np.float64) @ np.log1p(-2.0 * np.minimum(priors, 0.5 - 1e-15)))
    return replace(graph, priors=(1.0 - np.asarray(odd)) / 2.0)


def _other(how: str, name: str) -> InputError:
    return InputError(
        f"the predecoder was trained on another problem than this error model: {how}",
        where=name,
        hint="give the error model of the circuit that autoqec.load_env(...).circuit(p) returns",
    )
