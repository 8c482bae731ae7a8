"""Detector error models as matrices and matching graphs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
import stim

from autoqec.envs.problem import BOUNDARY, F64, MatchingGraph
from autoqec.errors import InputError

FAINTEST = 1e-30
"""Beside the weight of a fault that is rarer, matching cannot tell the others apart."""

Symptom = tuple[tuple[int, ...], tuple[int, ...]]
"""Sorted detectors and sorted observables that a fault or a part of it flips."""


def either(p: float, q: float) -> float:
    """Probability that exactly one of two independent events happens."""
    return p * (1 - q) + q * (1 - p)


def _xor(parts: Iterable[Symptom]) -> Symptom:
    detectors: set[int] = set()
    observables: set[int] = set()
    for d, o in parts:
        detectors ^= set(d)
        observables ^= set(o)
    return tuple(sorted(detectors)), tuple(sorted(observables))


def faults_of(dem: stim.DetectorErrorModel) -> Iterator[tuple[float, tuple[Symptom, ...]]]:
    """(probability, suggested decomposition) of every error instruction; loops and shifts are unrolled."""
    for instruction in dem.flattened():
        if instruction.type != "error":
            continue
        probability = instruction.args_copy()[0]
        if probability == 0:
            continue
        if not FAINTEST <= probability < 1:
            raise InputError(
                f"a fault has probability {probability:g}, so that it has no weight",
                where=str(instruction)[:80],
                hint=f"leave out faults that always happen and those below {FAINTEST:g}",
            )
        yield (
            probability,
            tuple(
                _xor(
                    ((t.val,), ()) if t.is_relative_detector_id() else ((), (t.val,))
                    for t in group
                    if not t.is_separator()
                )
                for group in instruction.target_groups()
            ),
        )


@dataclass(frozen=True, eq=False)
class FaultMatrices:
    """H, L and priors after merging faults with equal symptoms, in order of first appearance."""

    symptoms: list[Symptom]
    h: sp.csc_array[Any]
    l: sp.csc_array[Any]
    priors: F64


def _columns(columns: list[tuple[int, ...]], n_rows: int) -> sp.csc_array[Any]:
    indptr = np.concatenate([[0], np.cumsum([len(c) for c in columns], dtype=np.int64)]).astype(np.int32)
    indices = np.fromiter((i for c in columns for i in c), dtype=np.int32, count=int(indptr[-1]))
    data = np.ones(len(indices), dtype=np.uint8)
    return sp.csc_array((data, indices, indptr), shape=(n_rows, len(columns)))


def fault_matrices(dem: stim.DetectorErrorModel) -> FaultMatrices:
    """Merged faults of a model; a fault without any symptom is dropped."""
    merged: dict[Symptom, float] = {}
    for probability, parts in faults_of(dem):
        symptom = _xor(parts)
        if symptom != ((), ()):
            merged[symptom] = either(merged.get(symptom, 0.0), probability)
    symptoms = list(merged)
    return FaultMatrices(
        symptoms=symptoms,
        h=_columns([d for d, _ in symptoms], dem.num_detectors),
        l=_columns([o for _, o in symptoms], dem.num_observables),
        priors=np.array(list(merged.values()), dtype=np.float64),
    )


def matching_graph(dem: stim.DetectorErrorModel, faults: FaultMatrices, *, where: str) -> MatchingGraph:
    """The matching graph of a decomposed model, with the incidence of the merged `faults` on its edges.

    Edge priors combine every part that lands on the edge, as PyMatching does. A merged fault that came with
    several decompositions is given the likeliest one.
    """
    by_mask: dict[tuple[int, ...], dict[tuple[int, ...], float]] = {}
    decompositions: dict[Symptom, tuple[float, tuple[Symptom, ...]]] = {}
    for probability, parts in faults_of(dem):
        whole = _xor(parts)
        if probability > decompositions.get(whole, (0.0, ()))[0]:
            decompositions[whole] = probability, parts
        for detectors, observables in parts:
            if len(detectors) > 2:
                raise InputError(
                    f"a fault flips the {len(detectors)} detectors {_preview(detectors)} and is not decomposed "
                    "into parts with at most two, so matching cannot run on this model",
                    where=where,
                    hint="use classical_backend: osd, or a model whose errors are decomposed with '^'",
                )
            if detectors:
                masks = by_mask.setdefault(detectors, {})
                masks[observables] = either(masks.get(observables, 0.0), probability)
    edge_of = {detectors: e for e, detectors in enumerate(by_mask)}
    return MatchingGraph(
        ends=np.array([(*d, BOUNDARY)[:2] for d in by_mask], dtype=np.int32).reshape(-1, 2),
        priors=np.array([_any_mask(masks) for masks in by_mask.values()], dtype=np.float64),
        observables=_likeliest_masks(by_mask, dem.num_observables),
        fault_edges=_incidence(faults.symptoms, decompositions, edge_of),
        conflicts=sum(len(masks) > 1 for masks in by_mask.values()),
    )


def _preview(detectors: tuple[int, ...]) -> str:
    shown = " ".join(f"D{d}" for d in detectors[:6])
    return shown + (" ..." if len(detectors) > 6 else "")


def _any_mask(masks: dict[tuple[int, ...], float]) -> float:
    total = 0.0
    for probability in masks.values():
        total = either(total, probability)
    return total


def _likeliest_masks(
    by_mask: dict[tuple[int, ...], dict[tuple[int, ...], float]], n_observables: int
) -> np.ndarray[Any, np.dtype[np.bool_]]:
    flips = np.zeros((len(by_mask), n_observables), dtype=np.bool_)
    for e, masks in enumerate(by_mask.values()):
        flips[e, list(max(masks.items(), key=lambda item: item[1])[0])] = True
    return flips


def _incidence(
    symptoms: list[Symptom],
    decompositions: dict[Symptom, tuple[float, tuple[Symptom, ...]]],
    edge_of: dict[tuple[int, ...], int],
) -> sp.csr_array[Any]:
    columns = []
    for symptom in symptoms:
        edges: set[int] = set()
        for detectors, _ in decompositions.get(symptom, (0.0, ()))[1]:
            if detectors:
                edges ^= {edge_of[detectors]}
        columns.append(tuple(sorted(edges)))
    return _columns(columns, len(edge_of)).tocsr()
