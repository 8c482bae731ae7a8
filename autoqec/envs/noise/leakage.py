"""Leakage: a sampled non-Pauli process, and the Pauli-twirled circuit that a decoder is given instead.

At each two-qubit gate, in this order: a leaked qubit's partner is fully depolarised and leaks too with
probability `spread`; each qubit leaks with probability `leak * p`; each leaked qubit seeps back with probability
`seep`, into a random state. Measuring a leaked qubit gives a fair coin; a reset brings it back. Uniform
circuit noise of strength p acts besides.

The twirled circuit replaces every event by a Pauli channel with the event's mean-field probability. That
forgets that leakage persists, and it is the mismatch a decoder has to live with.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np
import stim

from autoqec.envs.noise.circuit_noise import append_channel, measured_basis, qubits_of
from autoqec.envs.noise.leakage_process import Process, compile_process
from autoqec.envs.sampling import CircuitSampler, Shots
from autoqec.envs.schema import LeakageSpec

SAMPLER_VERSION = 2
"""Part of the name of what is sampled: raise it when a seed gives other shots."""


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
    """Samples the process itself: Stim has the Pauli noise, a compiled kernel the leakage."""

    def __init__(self, circuit: stim.Circuit, rates: LeakageSpec, p: float) -> None:
        self._circuit, self._rates, self._p = circuit, rates, p

    @cached_property
    def _process(self) -> Process:
        return compile_process(self._circuit)

    def sample(self, shots: int, seed: int) -> Shots:
        from autoqec.envs.noise.leakage_kernel import run_process  # numba takes a while to import

        rng = np.random.default_rng(seed)
        pauli = CircuitSampler(self._circuit).sample(shots, int(rng.integers(2**63)))
        both = np.concatenate([pauli.detectors, pauli.observables], axis=1)
        rates = self._rates
        run_process(
            both, self._circuit.num_qubits, self._process, rates.leak * self._p, rates.seep, rates.spread, rng
        )
        n_bytes = pauli.detectors.shape[1]
        return Shots(np.ascontiguousarray(both[:, :n_bytes]), np.ascontiguousarray(both[:, n_bytes:]))
