"""Which basis a detector or observable belongs to, and circuits restricted to some of their detectors."""

from __future__ import annotations

from collections import Counter

import numpy as np
import numpy.typing as npt
import stim

from autoqec.envs.noise.circuit_noise import is_operation, qubits_of

Basis = npt.NDArray[np.str_]


def detector_coords(dem: stim.DetectorErrorModel) -> npt.NDArray[np.float64]:
    """[n_detectors, c] coordinates, NaN where a detector has fewer than the longest."""
    known = dem.get_detector_coordinates()
    width = max((len(c) for c in known.values()), default=0)
    coords = np.full((dem.num_detectors, width), np.nan)
    for detector, values in known.items():
        coords[detector, : len(values)] = values
    return coords


def bases(circuit: stim.Circuit) -> tuple[Basis, Basis]:
    """The basis ("X", "Z", or "?" where mixed) of every detector and of every observable.

    A detector's sensitivity region is tracked through the circuit; its basis is the Pauli type of that region on
    the data qubits, those that are read once and never reset after being read. In a CSS memory this is pure.
    """
    ancillas = _ancillas(circuit)
    detectors = np.full(circuit.num_detectors, "?", dtype="<U1")
    observables = np.full(circuit.num_observables, "?", dtype="<U1")
    try:
        regions = circuit.detecting_regions()
    except ValueError:  # anti-commuting or non-deterministic annotations have no well-defined region
        return detectors, observables
    for target, by_tick in regions.items():
        seen: Counter[str] = Counter()
        for region in by_tick.values():
            for basis in "XYZ":
                seen[basis] += sum(q not in ancillas for q in region.pauli_indices(basis))
        pure = [basis for basis, count in seen.items() if count]
        if len(pure) == 1 and pure[0] in "XZ":
            (detectors if target.is_relative_detector_id() else observables)[target.val] = pure[0]
    return detectors, observables


def _ancillas(circuit: stim.Circuit) -> set[int]:
    """Qubits that are measured more than once, or reset by their measurement."""
    readouts: Counter[int] = Counter()
    ancillas: set[int] = set()
    for instruction in circuit.flattened():
        if not is_operation(instruction):
            continue
        gate = stim.gate_data(instruction.name)
        if gate.produces_measurements and gate.is_single_qubit_gate:
            readouts.update(qubits_of(instruction))
            if gate.is_reset:
                ancillas.update(qubits_of(instruction))
    return ancillas | {q for q, count in readouts.items() if count > 1}


def keep_detectors(circuit: stim.Circuit, keep: npt.NDArray[np.bool_]) -> stim.Circuit:
    """The flattened circuit with only the detectors where `keep` is true, renumbered in order."""
    kept = stim.Circuit()
    index = 0
    for instruction in circuit.flattened():
        if instruction.name == "DETECTOR":
            index += 1
            if not keep[index - 1]:
                continue
        kept.append(instruction)
    return kept
