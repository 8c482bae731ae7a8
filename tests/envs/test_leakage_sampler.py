"""The compiled leakage sampler against the same process, simulated shot by shot with a Pauli frame and a flag per qubit.

False alarms: every comparison is of two binomial counts, normal to good approximation at the counts that are compared, and asks for
less than 5 standard deviations. That is 5.7e-7 for each; the largest case has 24 detectors, 276 pairs and an observable, so about
2e-4. The seeds are fixed: on one version of Stim and numpy it passes or it does not.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import pytest
import stim

from autoqec.envs.environment import Environment
from autoqec.envs.load import load_env
from autoqec.envs.noise.circuit_noise import measured_basis, qubits_of
from autoqec.envs.noise.leakage import LeakageSampler
from autoqec.envs.packing import unpack
from autoqec.envs.schema import EnvSpec, LeakageSpec

SHOTS, SIGMAS = 40_000, 5.0
RATES = LeakageSpec(leak=2.0, seep=0.1, spread=0.2)


def reference(circuit: stim.Circuit, rates: LeakageSpec, p: float, shots: int, seed: int) -> np.ndarray:
    """Bits [shot, detectors and observables] of the process, operation by operation."""
    rng = np.random.default_rng(seed)
    frame = stim.FlipSimulator(batch_size=shots, num_qubits=circuit.num_qubits, seed=seed)
    leaked = np.zeros((circuit.num_qubits, shots), dtype=bool)

    def happens(probability: float, rows: int) -> np.ndarray:
        return rng.random((rows, shots)) < probability

    def put(pauli: str, qubits: list[int], where: np.ndarray) -> None:
        mask = np.zeros_like(leaked)
        mask[qubits] = where
        frame.broadcast_pauli_errors(pauli=pauli, mask=mask)

    for step in circuit.flattened():
        gate, qubits = stim.gate_data(step.name) if step.name != "TICK" else None, qubits_of(step)
        if gate is not None and gate.produces_measurements:
            flip = "Z" if measured_basis(step.name) == "X" else "X"
            put(flip, qubits, leaked[qubits] & happens(0.5, len(qubits)))
        frame.do(step)
        if gate is not None and gate.is_reset:
            leaked[qubits] = False
        elif gate is not None and gate.is_unitary and gate.is_two_qubit_gate:
            partners = np.array(qubits).reshape(-1, 2)[:, ::-1].ravel()
            own, partner, rows = leaked[qubits], leaked[partners], len(qubits)
            now = own | happens(rates.leak * p, rows) | (partner & happens(rates.spread, rows))
            seeping = now & happens(rates.seep, rows)
            leaked[qubits] = now & ~seeping
            for pauli in "XZ":
                put(pauli, qubits, (partner | seeping) & happens(0.5, rows))
    return np.concatenate([frame.get_detector_flips().T, frame.get_observable_flips().T], axis=1)[:shots]


def _env(task: str) -> Environment:
    spec = load_env("surface_d5_leakage").spec.model_dump()
    spec["code"]["source"] = f"surface_code:{task}?distance=3&rounds=3"
    return Environment(EnvSpec.model_validate(spec))


@lru_cache
def _reference(task: str) -> np.ndarray:
    return reference(_env(task).circuit(5e-3), RATES, 5e-3, SHOTS, seed=3)


def _compiled(task: str, rates: LeakageSpec) -> np.ndarray:
    circuit = _env(task).circuit(5e-3)
    shots = LeakageSampler(circuit, rates, 5e-3).sample(SHOTS, seed=1)
    bits = [unpack(shots.detectors, circuit.num_detectors), unpack(shots.observables, 1)]
    return np.concatenate(bits, axis=1)


def _largest_difference(a: np.ndarray, b: np.ndarray) -> float:
    """In standard deviations: over the rates of all bits and of all pairs of bits that fire together."""
    counts = [bits.astype(np.float64).T @ bits.astype(np.float64) for bits in (a, b)]
    mean = sum(counts) / (len(a) + len(b))
    sigma = np.sqrt(mean * (1 - mean) * (1 / len(a) + 1 / len(b)))
    return float(np.abs((counts[0] / len(a) - counts[1] / len(b)) / np.maximum(sigma, 1e-12)).max())


@pytest.mark.slow
@pytest.mark.parametrize("task", ["rotated_memory_z", "rotated_memory_x"])
def test_it_has_the_distribution_of_the_process(task: str) -> None:
    difference = _largest_difference(_compiled(task, RATES), _reference(task))
    print(f"{task}: {difference:.2f} standard deviations at most")
    assert difference < SIGMAS


@pytest.mark.parametrize("changed", [{"leak": 1.6}, {"seep": 0.15}, {"spread": 0.3}])
def test_the_comparison_sees_a_process_with_other_rates(changed: dict[str, float]) -> None:
    other = RATES.model_copy(update=changed)
    assert _largest_difference(_compiled("rotated_memory_z", other), _reference("rotated_memory_z")) > SIGMAS


def test_a_leaked_qubit_reads_as_a_coin_until_it_is_reset() -> None:
    """Leak certainly, never seep back. Qubits 0 and 1 leak in the gate; 2 and 3 never meet one."""
    circuit = stim.Circuit("""
        R 0 1 2 3
        CX 0 1
        M 0 2
        MR 1
        M 1
        DETECTOR rec[-4]
        DETECTOR rec[-3]
        DETECTOR rec[-2]
        DETECTOR rec[-1]
        OBSERVABLE_INCLUDE(0) rec[-4] rec[-2]
    """)
    shots = LeakageSampler(circuit, LeakageSpec(leak=2.0, seep=0.0, spread=0.0), 0.5).sample(20_000, seed=5)
    bits = unpack(shots.detectors, 4)
    assert np.abs(bits[:, [0, 2]].mean(axis=0) - 0.5).max() < 5 * 0.5 / np.sqrt(20_000)
    assert not bits[:, [1, 3]].any()
    assert (unpack(shots.observables, 1)[:, 0] == bits[:, 0] ^ bits[:, 2]).all()
    assert abs((bits[:, 0] ^ bits[:, 2]).mean() - 0.5) < 5 * 0.5 / np.sqrt(20_000)


def test_gates_of_one_instruction_act_in_sequence() -> None:
    """A qubit that leaks in the first gate scrambles its partner in the second, though both are written in one line."""
    rates = LeakageSpec(leak=2.0, seep=0.0, spread=0.0)
    for gates in ("CX 0 1 1 2", "CX 0 1\nCX 1 2"):
        circuit = stim.Circuit(f"R 0 1 2\n{gates}\nR 0 1\nM 2\nDETECTOR rec[-1]")
        shots = LeakageSampler(circuit, rates, 0.5).sample(20_000, seed=5)
        assert abs(unpack(shots.detectors, 1).mean() - 0.5) < 5 * 0.5 / np.sqrt(20_000)


def test_shots_are_a_function_of_the_seed() -> None:
    sampler = load_env("surface_d5_leakage").sampler(5e-3)
    first, again, other = (sampler.sample(5_000, seed) for seed in (1, 1, 2))
    assert (first.detectors == again.detectors).all()
    assert (first.observables == again.observables).all()
    assert (first.detectors != other.detectors).any()
    assert sampler.sample(0, 1).detectors.shape == (0, 15)
