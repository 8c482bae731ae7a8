"""Puts noise into a noiseless circuit, layer by layer.

A layer is what stands between two TICKs. Each operation gets its channel where it acts; at the end of the
layer every qubit that is live (touched before and again later) but sat this layer out gets the idle channel.
"""

from __future__ import annotations

from dataclasses import dataclass

import stim

Channel = tuple[tuple[str, tuple[float, ...]], ...]
"""Noise instructions (name, arguments), applied in order to the same targets."""

_MEASURE_FLIP = {"X": "Z_ERROR", "Y": "X_ERROR", "Z": "X_ERROR"}
_ANNOTATIONS = {"DETECTOR", "OBSERVABLE_INCLUDE", "QUBIT_COORDS", "SHIFT_COORDS", "MPAD"}


@dataclass(frozen=True)
class CircuitNoise:
    """Strengths of one circuit-level noise model at one p.

    before_measure and after_reset are probabilities of the flip that the measurement or reset can see.
    idle_readout replaces idle in layers where some qubit is measured or reset.
    """

    after_1q: Channel
    after_2q: Channel
    before_measure: float
    after_reset: float
    idle: Channel
    idle_readout: Channel


def carries_noise(circuit: stim.Circuit) -> bool:
    """Whether any instruction of the circuit is noisy: a channel, or a measurement with a flip probability."""
    for instruction in circuit:
        if isinstance(instruction, stim.CircuitRepeatBlock):
            if carries_noise(instruction.body_copy()):
                return True
            continue
        gate = stim.gate_data(instruction.name)
        if gate.is_noisy_gate and (not gate.produces_measurements or any(instruction.gate_args_copy())):
            return True
    return False


def measured_basis(name: str) -> str:
    """The basis in which a measurement or reset instruction acts: M, MR, MZ, R, RZ -> Z and so on."""
    return name[-1] if name[-1] in "XY" else "Z"


def qubits_of(instruction: stim.CircuitInstruction) -> list[int]:
    """The qubits an instruction touches; measurement-record and sweep targets are not qubits."""
    return [
        t.value
        for t in instruction.targets_copy()
        if t.is_qubit_target or t.is_x_target or t.is_y_target or t.is_z_target
    ]


def is_operation(instruction: stim.CircuitInstruction) -> bool:
    return instruction.name != "TICK" and instruction.name not in _ANNOTATIONS


def append_channel(circuit: stim.Circuit, channel: Channel, qubits: list[int]) -> None:
    for name, arguments in channel:
        if qubits and any(arguments):
            circuit.append(name, qubits, list(arguments))


def _last_touch(circuit: stim.Circuit) -> dict[int, int]:
    return {
        q: position
        for position, instruction in enumerate(circuit)
        if is_operation(instruction)
        for q in qubits_of(instruction)
    }


def add_noise(circuit: stim.Circuit, noise: CircuitNoise) -> stim.Circuit:
    """The flattened circuit with `noise` in it. Detectors, observables and coordinates are kept."""
    flat = circuit.flattened()
    last_touch = _last_touch(flat)
    noisy = stim.Circuit()
    touched: set[int] = set()
    busy: set[int] = set()
    readout = False

    def end_layer(position: int) -> None:
        nonlocal readout
        sitting_out = sorted(q for q in touched - busy if last_touch[q] > position)
        append_channel(noisy, noise.idle_readout if readout else noise.idle, sitting_out)
        touched.update(busy)
        busy.clear()
        readout = False

    for position, instruction in enumerate(flat):
        if instruction.name == "TICK":
            end_layer(position)
        if not is_operation(instruction):
            noisy.append(instruction)
            continue
        gate = stim.gate_data(instruction.name)
        busy.update(qubits_of(instruction))
        readout = readout or gate.produces_measurements or gate.is_reset
        for part in disjoint_parts(instruction) if gate.is_unitary else [instruction]:
            _append_noisy(noisy, part, gate, qubits_of(part), noise)
    return noisy


def disjoint_parts(instruction: stim.CircuitInstruction) -> list[stim.CircuitInstruction]:
    """The instruction cut where a qubit repeats (`CX 0 1 1 2` is two gates in sequence), so noise comes between."""
    parts: list[list[stim.GateTarget]] = [[]]
    seen: set[int] = set()
    for group in instruction.target_groups():
        qubits = {t.value for t in group if t.is_qubit_target}
        if seen & qubits:
            parts.append([])
            seen = set()
        seen |= qubits
        parts[-1].extend(group)
    if len(parts) == 1:
        return [instruction]
    return [stim.CircuitInstruction(instruction.name, part, instruction.gate_args_copy()) for part in parts]


def _append_noisy(
    noisy: stim.Circuit,
    instruction: stim.CircuitInstruction,
    gate: stim.GateData,
    qubits: list[int],
    noise: CircuitNoise,
) -> None:
    is_joint_measurement = gate.produces_measurements and not gate.is_single_qubit_gate
    if is_joint_measurement:
        noisy.append(instruction.name, instruction.targets_copy(), noise.before_measure or None)
        return
    flip = _MEASURE_FLIP[measured_basis(instruction.name)]
    if gate.produces_measurements:
        append_channel(noisy, ((flip, (noise.before_measure,)),), qubits)
    noisy.append(instruction)
    if gate.is_reset:
        append_channel(noisy, ((flip, (noise.after_reset,)),), qubits)
    elif gate.is_unitary and gate.is_two_qubit_gate:
        _append_after_2q(noisy, instruction, noise)
    elif gate.is_unitary and gate.is_single_qubit_gate:
        append_channel(noisy, noise.after_1q, qubits)


def _append_after_2q(noisy: stim.Circuit, instruction: stim.CircuitInstruction, noise: CircuitNoise) -> None:
    """Classically controlled pairs (a record or sweep bit with a qubit) are Pauli updates: no gate noise."""
    pairs = [
        [t.value for t in group]
        for group in instruction.target_groups()
        if all(t.is_qubit_target for t in group)
    ]
    append_channel(noisy, noise.after_2q, [q for pair in pairs for q in pair])
