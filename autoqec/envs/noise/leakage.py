"""Leakage: a sampled non-Pauli process, and the Pauli-twirled circuit that a decoder is given instead.

At each two-qubit gate, in this order: a leaked qubit's partner is fully depolarised and leaks too with
probability `spread`; each qubit leaks with probability `leak * p`; each leaked qubit seeps back with probability
`seep`, into a random state. Measuring a leaked qubit gives a fair coin; a reset brings it back. Uniform
circuit noise of strength p acts besides.

The twirled circuit replaces every event by a Pauli channel with the event's mean-field probability. That
forgets that leakage persists, and it is the mismatch a decoder has to live with.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import stim

from autoqec.envs.noise.circuit_noise import append_channel, measured_basis, qubits_of
from autoqec.envs.problem import U8
from autoqec.envs.sampling import Shots
from autoqec.envs.schema import LeakageSpec

Mask = npt.NDArray[np.bool_]
_BATCH = 4096
_READOUT_FLIP = {"X": "Z", "Y": "X", "Z": "X"}


def twirled(circuit: stim.Circuit, rates: LeakageSpec, p: float) -> stim.Circuit:
    """The noisy circuit plus Pauli channels that stand in for leakage (mean-field leaked populations)."""
    population = [0.0] * circuit.num_qubits
    out = stim.Circuit()
    for instruction in circuit:
        gate = stim.gate_data(instruction.name) if instruction.name != "TICK" else None
        if gate is not None and gate.produces_measurements and gate.is_single_qubit_gate:
            flip = "Z_ERROR" if measured_basis(instruction.name) == "X" else "X_ERROR"
            for q in qubits_of(instruction):
                append_channel(out, ((flip, (population[q] / 2,)),), [q])
        out.append(instruction)
        if gate is None:
            continue
        if gate.is_reset:
            for q in qubits_of(instruction):
                population[q] = 0.0
        elif gate.is_unitary and gate.is_two_qubit_gate:
            for group in instruction.target_groups():
                if all(t.is_qubit_target for t in group):
                    a, b = (t.value for t in group)
                    scrambled = _twirl_gate(population, a, b, rates, p)
                    for q, probability in zip((a, b), scrambled, strict=True):
                        append_channel(out, (("DEPOLARIZE1", (0.75 * probability,)),), [q])
    return out


def _twirl_gate(population: list[float], a: int, b: int, rates: LeakageSpec, p: float) -> tuple[float, float]:
    """Updates the leaked populations through one gate; the probabilities that a and b are scrambled by it."""
    before = population[a], population[b]
    scrambled = []
    for q, own, partner in ((a, before[0], before[1]), (b, before[1], before[0])):
        leaked = 1 - (1 - own) * (1 - partner * rates.spread) * (1 - rates.leak * p)
        seeping = leaked * rates.seep
        scrambled.append(1 - (1 - partner) * (1 - seeping))
        population[q] = leaked - seeping
    return scrambled[0], scrambled[1]


class LeakageSampler:
    """Samples the process itself: a Pauli frame per shot plus a leaked flag per qubit and shot."""

    def __init__(self, circuit: stim.Circuit, rates: LeakageSpec, p: float) -> None:
        self._steps = list(circuit.flattened())
        self._n_qubits = circuit.num_qubits
        self._n_observables = circuit.num_observables
        self._rates = rates
        self._p = p

    def sample(self, shots: int, seed: int) -> Shots:
        rng = np.random.default_rng(seed)
        parts = [self._batch(min(_BATCH, shots - start), rng) for start in range(0, max(shots, 1), _BATCH)]
        return Shots(np.concatenate([d for d, _ in parts]), np.concatenate([o for _, o in parts]))

    def _batch(self, shots: int, rng: np.random.Generator) -> tuple[U8, U8]:
        # Stim rounds batches up to its word size and cannot make an empty one.
        width = max(shots, 1)
        frame = stim.FlipSimulator(
            batch_size=width,
            num_qubits=self._n_qubits,
            disable_stabilizer_randomization=False,
            seed=int(rng.integers(2**63)),
        )
        leaked = np.zeros((self._n_qubits, width), dtype=np.bool_)
        for step in self._steps:
            gate = stim.gate_data(step.name) if step.name != "TICK" else None
            if gate is not None and gate.produces_measurements and gate.is_single_qubit_gate:
                self._coin_readout(frame, leaked, qubits_of(step), measured_basis(step.name), rng)
            frame.do(step)
            if gate is None:
                continue
            if gate.is_reset:
                leaked[qubits_of(step)] = False
            elif gate.is_unitary and gate.is_two_qubit_gate:
                pairs = [
                    [t.value for t in g] for g in step.target_groups() if all(t.is_qubit_target for t in g)
                ]
                self._gate(frame, leaked, np.array(pairs, dtype=np.intp).reshape(-1, 2), rng)
        detectors = frame.get_detector_flips(bit_packed=False).T[:shots]
        observables = frame.get_observable_flips(bit_packed=False).T[:shots]
        return np.packbits(detectors, axis=1, bitorder="little"), np.packbits(
            observables, axis=1, bitorder="little"
        )

    def _coin_readout(
        self, frame: stim.FlipSimulator, leaked: Mask, qubits: list[int], basis: str, rng: np.random.Generator
    ) -> None:
        if not leaked[qubits].any():
            return
        mask = np.zeros_like(leaked)
        mask[qubits] = leaked[qubits] & (rng.random((len(qubits), leaked.shape[1]), dtype=np.float32) < 0.5)
        frame.broadcast_pauli_errors(pauli=_READOUT_FLIP[basis], mask=mask)

    def _gate(
        self, frame: stim.FlipSimulator, leaked: Mask, pairs: npt.NDArray[np.intp], rng: np.random.Generator
    ) -> None:
        qubits, partners = pairs.ravel(), pairs[:, ::-1].ravel()
        shape = (len(qubits), leaked.shape[1])
        own, partner = leaked[qubits], leaked[partners]

        def happens(probability: float) -> Mask:
            return rng.random(shape, dtype=np.float32) < probability

        now = own | happens(self._rates.leak * self._p)
        scrambled = partner
        if partner.any():
            now |= partner & happens(self._rates.spread)
        if now.any():
            seeping = now & happens(self._rates.seep)
            scrambled = partner | seeping
            now &= ~seeping
        leaked[qubits] = now
        if scrambled.any():
            for pauli in "XZ":
                mask = np.zeros_like(leaked)
                mask[qubits] = scrambled & happens(0.5)
                frame.broadcast_pauli_errors(pauli=pauli, mask=mask)
