"""What a circuit does to leaked qubits, and which detectors and observables are flipped by the Paulis that leakage puts into it.

Leaked flags do not depend on the Pauli frame. So a shot of the leakage process is a shot of the circuit's Pauli noise, XOR the flips
of those Paulis, and a Pauli at one place always makes the same flips.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import stim

from autoqec.envs.noise.circuit_noise import disjoint_parts, measured_basis, qubits_of

I32 = npt.NDArray[np.int32]
GATE, READOUT, RESET = 0, 1, 2
_READOUT_FLIP = {"X": "Z", "Y": "X", "Z": "X"}


class Process(NamedTuple):
    """What a circuit does to leaked qubits, in order.

    kind: of each operation. first, second: its qubits; second is -1 but for gates. place: of each operation, its first row in
    `start`: a gate has X and Z after it on the first qubit, then on the second; a readout has the Pauli before it that flips it.
    gates: the operations that are gates. start, flips: row k has the bits flips[start[k]:start[k + 1]] of a shot, detectors first, then
    observables, which begin at the next whole byte.
    """

    kind: I32
    first: I32
    second: I32
    place: I32
    gates: I32
    start: I32
    flips: I32


def compile_process(circuit: stim.Circuit) -> Process:
    """circuit: flattened; its noise is left out."""
    ticked = stim.Circuit()
    operations: list[tuple[int, int, int, int]] = []
    rows: list[tuple[int, int, str]] = []  # tick, qubit, Pauli
    ticks = 0

    def add(kind: int, first: int, second: int, paulis: Iterable[tuple[int, str]]) -> None:
        operations.append((kind, first, second, len(rows)))
        rows.extend((ticks, qubit, pauli) for qubit, pauli in paulis)

    for instruction in circuit.without_noise():
        if instruction.name == "TICK":
            continue
        gate = stim.gate_data(instruction.name)
        is_readout = gate.produces_measurements and gate.is_single_qubit_gate
        is_gate = gate.is_unitary and gate.is_two_qubit_gate
        for part in disjoint_parts(instruction) if is_readout or is_gate else [instruction]:
            if is_readout:
                ticked.append("TICK")
                flip = _READOUT_FLIP[measured_basis(part.name)]
                for qubit in qubits_of(part):
                    add(READOUT, qubit, -1, [(qubit, flip)])
                ticks += 1
            ticked.append(part)
            if gate.is_reset:
                for qubit in qubits_of(part):
                    add(RESET, qubit, -1, ())
            elif is_gate:
                ticked.append("TICK")
                for group in part.target_groups():
                    if all(target.is_qubit_target for target in group):
                        a, b = (target.value for target in group)
                        add(GATE, a, b, [(a, "X"), (a, "Z"), (b, "X"), (b, "Z")])
                ticks += 1
    table = np.array(operations, dtype=np.int32).reshape(-1, 4)
    gates = np.flatnonzero(table[:, 0] == GATE).astype(np.int32)
    kind, first, second, place = (np.ascontiguousarray(column) for column in table.T)
    return Process(kind, first, second, place, gates, *_flips(ticked, rows))


def _flips(ticked: stim.Circuit, rows: list[tuple[int, int, str]]) -> tuple[I32, I32]:
    """The bits that each Pauli flips: those whose detecting region anticommutes with it there."""
    at = {row: number for number, row in enumerate(rows)}
    found: list[list[int]] = [[] for _ in rows]
    observables_from = 8 * -(-ticked.num_detectors // 8)
    for target, region in ticked.detecting_regions(ignore_anticommutation_errors=True).items():
        bit = target.val if target.is_relative_detector_id() else observables_from + target.val
        for tick, paulis in region.items():
            for is_flipped_by, signs in zip("ZX", paulis.to_numpy(), strict=True):
                for qubit in np.flatnonzero(signs).tolist():
                    if (row := at.get((tick, qubit, is_flipped_by))) is not None:
                        found[row].append(bit)
    start = np.concatenate([[0], np.cumsum([len(bits) for bits in found])]).astype(np.int32)
    return start, np.array([bit for bits in found for bit in bits], dtype=np.int32)
