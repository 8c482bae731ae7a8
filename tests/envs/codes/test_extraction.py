from __future__ import annotations

import numpy as np
import pytest
import stim
from hypothesis import given, settings
from hypothesis import strategies as st

from autoqec.envs.codes import gf2
from autoqec.envs.codes.css import Code, CSSCode, classical_code, css_code
from autoqec.envs.codes.extraction import as_css, memory_circuit
from autoqec.envs.codes.families import build_code
from autoqec.envs.detectors import bases as find_bases
from autoqec.errors import InputError

REFERENCES = [
    "steane",
    "shor9",
    "reed_muller15",
    "toric?distance=2",
    "toric?distance=3",
    "rotated_surface?distance=3",
    "rotated_surface?distance=4",
    "bb72",
    "bb90",
    "hypergraph_product?h1=ring?distance=3&h2=hamming?r=3",
    "css?hx=hamming?r=3&hz=hamming?r=3",
    "bivariate_bicycle?l=3&m=3&a=1+x&b=1+y",
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


def with_noise(
    circuit: stim.Circuit, n: int, p: float, *, data: bool = True, flips: bool = True
) -> stim.Circuit:
    """Uniform circuit noise: DEPOLARIZE2 after CX, flips after resets and before measurements, DEPOLARIZE1
    on data qubits (the first n) that sit a layer out. `data`: flips on the data qubits too; `flips`: any
    flips at all.
    """
    noisy, busy = stim.Circuit(), set()
    for item in circuit.flattened():
        qubits = [t.value for t in item.targets_copy() if t.is_qubit_target]
        flipped = [q for q in qubits if flips and (data or q >= n)]
        flip = "Z_ERROR" if item.name.endswith("X") else "X_ERROR"
        if item.name == "TICK":
            idle = [q for q in range(n) if q not in busy]
            noisy.append("DEPOLARIZE1", idle, p)
            busy = set()
        if item.name in ("M", "MX"):
            noisy.append(flip, flipped, p)
        noisy.append(item)
        if item.name in ("R", "RX"):
            noisy.append(flip, flipped, p)
        if item.name == "CX":
            noisy.append("DEPOLARIZE2", qubits, p)
        if item.name in ("R", "RX", "M", "MX", "CX"):
            busy |= set(qubits)
    return noisy


def merged_faults(circuit: stim.Circuit) -> tuple[int, int, int]:
    """Detectors, distinct symptoms of single faults, observables."""
    model = circuit.detector_error_model()
    symptoms = {
        frozenset(str(t) for t in item.targets_copy()) for item in model.flattened() if item.type == "error"
    }
    return model.num_detectors, len(symptoms - {frozenset()}), model.num_observables


def layers(circuit: stim.Circuit) -> list[list[stim.CircuitInstruction]]:
    found: list[list[stim.CircuitInstruction]] = [[]]
    for item in circuit.flattened():
        if item.name == "TICK":
            found.append([])
        elif item.name in ("R", "RX", "M", "MX", "CX"):
            found[-1].append(item)
    return found


def after_round(circuit: stim.Circuit, index: int, extra: stim.Circuit) -> stim.Circuit:
    """`circuit` with `extra` between rounds `index` and `index + 1`, both counted from 1."""
    changed, seen = stim.Circuit(), 0
    detectors_end = False
    for item in circuit.flattened():
        if item.name == "DETECTOR":
            detectors_end = True
        elif detectors_end:
            detectors_end = False
            seen += 1
            if seen == index:
                changed += extra
        changed.append(item)
    return changed


def sample(circuit: stim.Circuit, shots: int = 32) -> tuple[np.ndarray, np.ndarray]:
    return circuit.compile_detector_sampler(seed=7).sample(shots, separate_observables=True)


@pytest.mark.parametrize(("reference", "basis"), CASES)
@pytest.mark.parametrize("rounds", [1, 2, 4])
def test_without_noise_nothing_is_detected(reference: str, basis: str, rounds: int) -> None:
    code = build_code(reference)
    circuit = memory_circuit(code, rounds=rounds, basis=basis)
    css = as_css(code)
    own, other = (css.mz, css.mx) if basis == "z" else (css.mx, css.mz)
    assert circuit.num_detectors == own * (rounds + 1) + other * (rounds - 1)
    assert circuit.num_observables == code.k
    detectors, observables = sample(circuit)
    assert not detectors.any()
    assert not observables.any()
    # Not just equal in the reference frame: this raises if any detector or observable is random.
    with_noise(circuit, code.n, 1e-3).detector_error_model()


@pytest.mark.parametrize(("reference", "basis"), CASES)
def test_a_logical_operator_between_rounds_flips_its_observable_and_no_detector(
    reference: str, basis: str
) -> None:
    code = build_code(reference)
    circuit = memory_circuit(code, rounds=3, basis=basis)
    if isinstance(code, CSSCode):
        operators = code.lx if basis == "z" else code.lz
    else:  # codewords, in the basis that is dual to the observables
        words = gf2.nullspace(code.h)
        operators = gf2.product(gf2.inverse(gf2.product(words, code.l.T)), words)
    for i, operator in enumerate(operators):
        extra = stim.Circuit()
        extra.append("X" if basis == "z" else "Z", np.flatnonzero(operator))
        detectors, observables = flips(circuit, after_round(circuit, 2, extra))
        assert not detectors.any()
        assert observables.tolist() == [j == i for j in range(code.k)]


@pytest.mark.parametrize(("reference", "basis"), CASES)
def test_a_data_error_between_rounds_is_seen_once_by_its_checks(reference: str, basis: str) -> None:
    code = build_code(reference)
    css = as_css(code)
    circuit = memory_circuit(code, rounds=3, basis=basis)
    bases, coords = detector_basis(circuit), circuit.get_detector_coordinates()
    times = np.array([coords[i][-1] for i in range(circuit.num_detectors)])
    for qubit in {0, code.n // 2, code.n - 1}:
        for pauli, h, seen_by in (("X", css.hz, "Z"), ("Z", css.hx, "X")):
            extra = stim.Circuit(f"{pauli} {qubit}")
            detectors, observables = flips(circuit, after_round(circuit, 1, extra))
            assert detectors[(bases == seen_by) & (times == 1)].tolist() == h[:, qubit].astype(bool).tolist()
            assert not detectors[(bases != seen_by) | (times != 1)].any()
            if seen_by.lower() == basis:
                assert observables.tolist() == css.logicals(basis)[:, qubit].astype(bool).tolist()
            else:
                assert not observables.any()


def flips(circuit: stim.Circuit, changed: stim.Circuit) -> tuple[np.ndarray, np.ndarray]:
    """What Pauli gates in `changed` flip, relative to `circuit`; the same on every shot."""
    converter = circuit.compile_m2d_converter()
    detectors, observables = converter.convert(
        measurements=changed.compile_sampler(seed=3).sample(8), separate_observables=True
    )
    assert (detectors == detectors[0]).all()
    assert (observables == observables[0]).all()
    return detectors[0], observables[0]


@pytest.mark.parametrize("reference", REFERENCES)
def test_layers_use_no_qubit_twice_and_do_all_gates(reference: str) -> None:
    code = build_code(reference)
    css = as_css(code)
    found = layers(memory_circuit(code, rounds=3))
    for layer in found:
        qubits = [t.value for item in layer for t in item.targets_copy()]
        assert qubits
        assert len(set(qubits)) == len(qubits)
    gates = sum(len(item.targets_copy()) // 2 for layer in found for item in layer if item.name == "CX")
    assert gates == 3 * (css.hx.sum() + css.hz.sum())


@pytest.mark.parametrize("reference", REFERENCES)
def test_ancillas_are_reset_right_before_and_measured_right_after_their_gates(reference: str) -> None:
    code = build_code(reference)
    uses: dict[int, list[tuple[int, str]]] = {}
    for t, layer in enumerate(layers(memory_circuit(code, rounds=2))):
        for item in layer:
            for target in item.targets_copy():
                uses.setdefault(target.value, []).append((t, item.name))
    css = as_css(code)
    for ancilla in range(code.n, code.n + css.mx + css.mz):
        reset, measure = ("RX", "MX") if ancilla < code.n + css.mx else ("R", "M")
        names = [name for _, name in uses[ancilla]]
        half = len(names) // 2
        assert names == [reset, *["CX"] * (half - 2), measure] * 2
        for part in (uses[ancilla][:half], uses[ancilla][half:]):
            times = [t for t, _ in part]
            assert times[1] - times[0] == times[-1] - times[-2] == 1


def test_bb_cycle_is_the_published_one() -> None:
    code = build_code("bb72")
    found = layers(memory_circuit(code, rounds=2))
    kinds = [sorted((item.name, len(item.targets_copy())) for item in layer) for layer in found]
    n, half = 72, 36
    cycle = [
        [("CX", n), ("RX", half)],
        *[[("CX", 2 * n)]] * 5,
        [("CX", n), ("M", half)],
    ]
    assert kinds == [
        [("R", n + half)],
        *cycle,
        [("MX", half), ("R", half)],
        *cycle,
        [("MX", half)],
        [("M", n)],
    ]


@pytest.mark.parametrize(("data", "flips"), [(True, True), (False, True), (False, False)])
def test_bb72_under_circuit_noise_has_the_published_number_of_faults(data: bool, flips: bool) -> None:
    """Flips at resets and readouts have the symptoms of gate faults: only priors depend on those choices."""
    code = build_code("bb72")
    one_basis = memory_circuit(code, rounds=6, bases=("z",))
    assert merged_faults(with_noise(one_basis, code.n, 1e-3, data=data, flips=flips)) == (252, 2232, 12)
    both = memory_circuit(code, rounds=6)
    assert merged_faults(with_noise(both, code.n, 1e-3, data=data, flips=flips)) == (432, 16164, 12)


@pytest.mark.parametrize(
    ("reference", "distance"),
    [
        ("rotated_surface?distance=3", 3),
        ("rotated_surface?distance=5", 5),
        ("toric?distance=3", 3),
        ("toric?distance=4", 4),
    ],
)
@pytest.mark.parametrize("basis", ["z", "x"])
def test_lattice_schedules_keep_the_distance_of_the_code(reference: str, distance: int, basis: str) -> None:
    code = build_code(reference)
    circuit = with_noise(memory_circuit(code, rounds=distance, basis=basis), code.n, 1e-3)
    assert len(circuit.shortest_graphlike_error(ignore_ungraphlike_errors=True)) == distance


def test_rotated_surface_agrees_with_the_circuit_that_stim_generates() -> None:
    ours = memory_circuit(build_code("rotated_surface?distance=3"), rounds=3)
    theirs = stim.Circuit.generated("surface_code:rotated_memory_z", distance=3, rounds=3)
    assert (ours.num_detectors, ours.num_qubits) == (theirs.num_detectors, 17)
    places = [sorted(tuple(v) for v in c.get_detector_coordinates().values()) for c in (ours, theirs)]
    assert places[0] == places[1]


@pytest.mark.parametrize(("reference", "basis"), [("bb72", "z"), ("steane", "x"), ("shor9", "z")])
def test_detectors_carry_basis_position_and_round(reference: str, basis: str) -> None:
    code = build_code(reference)
    assert isinstance(code, CSSCode)
    circuit = memory_circuit(code, rounds=3, basis=basis)
    own, other = (code.mz, code.mx) if basis == "z" else (code.mx, code.mz)
    middle = ["X"] * code.mx + ["Z"] * code.mz
    expected = [basis.upper()] * own + middle * 2 + [basis.upper()] * own
    assert detector_basis(circuit).tolist() == expected
    coords = circuit.get_detector_coordinates()
    times = [coords[i][-1] for i in range(circuit.num_detectors)]
    assert times == [0] * own + [1] * (own + other) + [2] * (own + other) + [3] * own
    assert len({tuple(c) for c in coords.values()}) == circuit.num_detectors
    assert len({tuple(c) for c in circuit.get_final_qubit_coordinates().values()}) == circuit.num_qubits


def test_detectors_of_one_basis_are_those_of_both_without_the_others() -> None:
    code = build_code("toric?distance=3")
    both, one = memory_circuit(code, rounds=4), memory_circuit(code, rounds=4, bases=("z",))
    assert one.num_detectors == 5 * code.mz
    assert set(detector_basis(one)) == {"Z"}
    kept = stim.Circuit()
    for item in both.flattened():
        if item.name != "DETECTOR" or item.tag == "Z":
            kept.append(item)
    assert kept == one.flattened()


def test_many_rounds_stay_one_repeat_block() -> None:
    circuit = memory_circuit(build_code("bb144"), rounds=10_000)
    assert len(circuit) < 2000
    assert circuit.num_detectors == 72 * 10_001 + 72 * 9_999


def random_css(seed: int, n: int, mx: int, mz: int) -> Code | None:
    rng = np.random.default_rng(seed)
    hx = rng.integers(0, 2, (mx, n), dtype=np.uint8)
    kernel = gf2.nullspace(hx)
    hz = gf2.product(rng.integers(0, 2, (mz, len(kernel)), dtype=np.uint8), kernel)
    return css_code("random", hx, hz) if gf2.rank(hx) + gf2.rank(hz) < n else None


@settings(max_examples=30)
@given(st.integers(0, 10**6), st.integers(3, 12), st.integers(1, 5), st.integers(1, 5), st.sampled_from("xz"))
def test_circuits_of_random_codes_are_deterministic(seed: int, n: int, mx: int, mz: int, basis: str) -> None:
    """Including checks without qubits, repeated checks and qubits without checks."""
    code = random_css(seed, n, mx, mz)
    if code is None:
        return
    circuit = with_noise(memory_circuit(code, rounds=3, basis=basis), n, 1e-3)
    assert circuit.detector_error_model().num_observables == code.k


def test_a_check_without_qubits_has_an_empty_detector() -> None:
    code = classical_code("padded", [[1, 1, 0], [0, 0, 0], [0, 1, 1]])
    circuit = memory_circuit(code, rounds=2)
    assert circuit.num_detectors == 9
    targets = [len(i.targets_copy()) for i in circuit.flattened() if i.name == "DETECTOR"]
    assert targets == [1, 0, 1, 2, 0, 2, 3, 0, 3]


@pytest.mark.parametrize("rounds", [1, 2, 3])
def test_a_code_whose_checks_have_no_qubits_is_measured_at_the_end(rounds: int) -> None:
    code = css_code("empty", np.zeros((1, 3), dtype=np.uint8), np.zeros((1, 3), dtype=np.uint8))
    circuit = with_noise(memory_circuit(code, rounds=rounds, basis="x"), 3, 1e-3)
    model = circuit.detector_error_model()
    assert (model.num_observables, circuit.num_measurements) == (3, 3)
    assert not any(
        each.is_relative_detector_id()
        for item in model.flattened()
        if item.type == "error"
        for each in item.targets_copy()
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rounds": 0}, "rounds = 0"),
        ({"rounds": 1, "basis": "y"}, "expected 'x' or 'z'"),
        ({"rounds": 1, "bases": ()}, "expected 'x' or 'z'"),
        ({"rounds": 1, "basis": "x", "bases": ("z",)}, "needs its own detectors"),
    ],
)
def test_wrong_options_are_refused(options: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        memory_circuit(build_code("steane"), **options)


def test_a_classical_code_has_no_x_memory() -> None:
    with pytest.raises(InputError, match="cannot protect an X memory"):
        memory_circuit(build_code("ring?distance=3"), rounds=1, basis="x")
