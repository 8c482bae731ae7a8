from __future__ import annotations

import numpy as np
import pytest
import stim
from hypothesis import given, settings
from hypothesis import strategies as st

from autoqec.envs.codes.css import CSSCode, classical_code
from autoqec.envs.codes.extraction import as_css
from autoqec.envs.codes.families import build_code
from autoqec.envs.codes.mpp import mpp_memory_circuit
from autoqec.envs.detectors import bases as find_bases
from autoqec.errors import InputError

REFERENCES = [
    "steane",
    "shor9",
    "reed_muller15",
    "toric?distance=3",
    "rotated_surface?distance=3",
    "bb72",
    "hypergraph_product?h1=ring?distance=3&h2=hamming?r=3",
    "repetition?distance=5",
    "ring?distance=4",
    "hamming?r=3",
]
CASES = [
    (reference, basis)
    for reference in REFERENCES
    for basis in ("z", "x")
    if basis == "z" or isinstance(build_code(reference), CSSCode)
]


def detector_basis(circuit):
    return find_bases(circuit)[0]


def errors(pauli: str, pattern: np.ndarray):
    def noise(qubits: list[int]) -> stim.Circuit:
        assert qubits == list(range(pattern.size))
        circuit = stim.Circuit()
        circuit.append(f"{pauli}_ERROR", np.flatnonzero(pattern), 1)
        return circuit

    return noise


def depolarise(qubits: list[int]) -> stim.Circuit:
    circuit = stim.Circuit()
    circuit.append("DEPOLARIZE1", qubits, 0.01)
    return circuit


@pytest.mark.parametrize(("reference", "basis"), CASES)
@pytest.mark.parametrize("rounds", [1, 2, 5])
@pytest.mark.parametrize("noisy_readout", [True, False])
def test_without_noise_nothing_is_detected(
    reference: str, basis: str, rounds: int, noisy_readout: bool
) -> None:
    code = build_code(reference)
    css = as_css(code)
    for bases in ((basis,), ("x", "z")):
        circuit = mpp_memory_circuit(
            code, rounds=rounds, noisy_readout=noisy_readout, basis=basis, bases=bases
        )
        checks = sum(len(css.checks(b)) for b in bases)
        assert circuit.num_detectors == (rounds + noisy_readout) * checks
        assert circuit.num_observables == code.k
        detectors, observables = circuit.compile_detector_sampler(seed=1).sample(
            16, separate_observables=True
        )
        assert not detectors.any()
        assert not observables.any()
        noisy = mpp_memory_circuit(
            code,
            rounds=rounds,
            noisy_readout=noisy_readout,
            basis=basis,
            bases=bases,
            data_noise=depolarise,
            readout_flip=0.01 * noisy_readout,
        )
        assert noisy.detector_error_model().num_errors > 0


@pytest.mark.parametrize(("reference", "basis"), CASES)
def test_code_capacity_is_h_and_l_times_the_error(reference: str, basis: str) -> None:
    code = build_code(reference)
    css = as_css(code)
    rng = np.random.default_rng(5)
    pauli = "X" if basis == "z" else "Z"
    for _ in range(5):
        error = rng.integers(0, 2, code.n, dtype=np.uint8)
        circuit = mpp_memory_circuit(
            code, rounds=1, noisy_readout=False, basis=basis, bases=(basis,), data_noise=errors(pauli, error)
        )
        detectors, observables = circuit.compile_detector_sampler().sample(2, separate_observables=True)
        assert (detectors == (css.checks(basis).astype(int) @ error % 2)).all()
        assert (observables == (css.logicals(basis).astype(int) @ error % 2)).all()


def test_with_both_bases_errors_of_the_other_type_are_seen_and_change_no_observable() -> None:
    code = build_code("steane")
    assert isinstance(code, CSSCode)
    error = np.eye(1, 7, 3, dtype=np.uint8)[0]
    circuit = mpp_memory_circuit(
        code, rounds=1, noisy_readout=False, bases=("x", "z"), data_noise=errors("Z", error)
    )
    detectors, observables = circuit.compile_detector_sampler().sample(1, separate_observables=True)
    bases = detector_basis(circuit)
    assert detectors[0, bases == "X"].tolist() == code.hx[:, 3].astype(bool).tolist()
    assert not detectors[0, bases == "Z"].any()
    assert not observables.any()


def test_a_repeated_data_error_is_seen_in_every_round_and_not_in_the_perfect_one() -> None:
    code = build_code("repetition?distance=4")
    error = np.array([0, 0, 0, 1], dtype=np.uint8)
    circuit = mpp_memory_circuit(code, rounds=3, noisy_readout=True, data_noise=errors("X", error))
    detectors = circuit.compile_detector_sampler().sample(1).reshape(4, 3)
    assert detectors.astype(int).tolist() == [[0, 0, 1]] * 3 + [[0, 0, 0]]


def test_phenomenological_faults_are_data_and_readout_errors() -> None:
    code = build_code("repetition?distance=5")

    def bit_flips(qubits: list[int]) -> stim.Circuit:
        circuit = stim.Circuit()
        circuit.append("X_ERROR", qubits, 0.02)
        return circuit

    circuit = mpp_memory_circuit(code, rounds=4, noisy_readout=True, data_noise=bit_flips, readout_flip=0.03)
    model = circuit.detector_error_model()
    rates = sorted(item.args_copy()[0] for item in model.flattened() if item.type == "error")
    assert rates == pytest.approx([0.02] * (4 * 5) + [0.03] * (4 * 4))
    assert len(circuit.shortest_graphlike_error()) == 5


def test_coordinates_end_in_the_round() -> None:
    code = build_code("toric?distance=3")
    assert isinstance(code, CSSCode)
    circuit = mpp_memory_circuit(code, rounds=3, noisy_readout=True, bases=("x", "z"))
    coords = circuit.get_detector_coordinates()
    times = [coords[i][-1] for i in range(circuit.num_detectors)]
    assert times == [t for t in range(4) for _ in range(code.mx + code.mz)]


@settings(max_examples=20)
@given(st.integers(0, 10**6), st.integers(2, 9), st.integers(1, 5))
def test_random_classical_codes_with_empty_checks(seed: int, n: int, m: int) -> None:
    rng = np.random.default_rng(seed)
    h = rng.integers(0, 2, (m, n), dtype=np.uint8)
    h[:, 0] = 0
    code = classical_code("random", h)
    error = rng.integers(0, 2, n, dtype=np.uint8)
    circuit = mpp_memory_circuit(code, rounds=1, noisy_readout=False, data_noise=errors("X", error))
    detectors, observables = circuit.compile_detector_sampler().sample(1, separate_observables=True)
    assert (detectors[0] == h.astype(int) @ error % 2).all()
    assert (observables[0] == code.l.astype(int) @ error % 2).all()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rounds": 0, "noisy_readout": True}, "rounds = 0"),
        ({"rounds": 1, "noisy_readout": False, "readout_flip": 0.1}, "perfect readout"),
        ({"rounds": 1, "noisy_readout": True, "readout_flip": 0.6}, "up to 1/2"),
        ({"rounds": 1, "noisy_readout": True, "basis": "x"}, "needs its own detectors"),
    ],
)
def test_wrong_options_are_refused(options: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        mpp_memory_circuit(build_code("steane"), **options)
