"""From a noisy circuit or a detector error model to a DecodingProblem."""

from __future__ import annotations

import numpy as np
import stim

from autoqec.envs import dem, detectors
from autoqec.envs.files import first_line
from autoqec.envs.problem import DecodingProblem
from autoqec.envs.stim_text import STIM_ERRORS, text_of
from autoqec.errors import InputError


def problem_from_circuit(circuit: stim.Circuit, *, need_graph: bool) -> DecodingProblem:
    """The decoding problem of a noisy circuit; with `need_graph`, an error if matching cannot run on it.

    Without `need_graph` the graph is there all the same when every fault flips at most two detectors.
    """
    whole = _error_model(circuit)
    faults = dem.fault_matrices(whole)
    model = _decomposed(circuit) if need_graph else whole
    return _assemble(model, faults, need_graph=need_graph, basis=detectors.bases(circuit)[0])


def problem_from_dem(model: stim.DetectorErrorModel, *, need_graph: bool) -> DecodingProblem:
    """The decoding problem of an error model, whose suggested decompositions (`^`) are taken as they are."""
    faults = dem.fault_matrices(model)
    return _assemble(
        model, faults, need_graph=need_graph, basis=np.full(model.num_detectors, "?", dtype="<U1")
    )


def _assemble(
    model: stim.DetectorErrorModel, faults: dem.FaultMatrices, *, need_graph: bool, basis: detectors.Basis
) -> DecodingProblem:
    is_graphlike = all(len(d) <= 2 for _, parts in dem.faults_of(model) for d, _ in parts)
    graph = None
    if need_graph or is_graphlike:
        graph = dem.matching_graph(model, faults, where="classical_backend")
    return DecodingProblem(
        name="",
        p=float("nan"),
        h=faults.h,
        l=faults.l,
        priors=faults.priors,
        detector_coords=detectors.detector_coords(model),
        detector_basis=basis,
        dem=text_of(model),
        graph=graph,
    )


def check_observables(problem: DecodingProblem, *, where: str) -> None:
    """An observable that no fault flips is a mistake in an environment: every decoder would be right about it."""
    flipped = np.zeros(problem.n_observables, dtype=np.bool_)
    flipped[problem.l.indices] = True
    if not flipped.all():
        raise InputError(
            f"observable L{int(np.argmin(flipped))} cannot be flipped by any fault of the noise model",
            where=where,
            hint="check the circuit's OBSERVABLE_INCLUDE and where the noise acts",
        )


def has_exact_model(circuit: stim.Circuit) -> bool:
    """Whether independent faults have the distribution of the circuit's shots. Channels of events that exclude each other have no such
    faults, and are approximated."""
    try:
        circuit.detector_error_model()
    except STIM_ERRORS:
        return False
    return True


def _error_model(circuit: stim.Circuit) -> stim.DetectorErrorModel:
    try:
        return circuit.detector_error_model(flatten_loops=True, approximate_disjoint_errors=True)
    except STIM_ERRORS as error:
        raise InputError(
            f"the circuit has no detector error model: {first_line(error)}",
            where="code.source",
            hint="every DETECTOR and OBSERVABLE_INCLUDE must be deterministic without noise",
        ) from error


def _decomposed(circuit: stim.Circuit) -> stim.DetectorErrorModel:
    try:
        return circuit.detector_error_model(
            decompose_errors=True, flatten_loops=True, approximate_disjoint_errors=True
        )
    except STIM_ERRORS as error:
        raise InputError(
            f"the noise model is not graph-like, so matching cannot decode it: {first_line(error)}",
            where="classical_backend",
            hint="use classical_backend: osd",
        ) from error
