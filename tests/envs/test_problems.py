"""Decoding problems of the builtin environments, against published and independent figures."""

import numpy as np
import pymatching
import pytest
import scipy.sparse as sp
import stim

from autoqec.envs.environment import Environment
from autoqec.envs.load import builtin_names, load_env
from autoqec.envs.packing import unpack
from autoqec.envs.schema import EnvSpec

# Detectors, merged faults, observables. Stim lists 6023 errors at d = 7, of which 552 pairs have equal symptoms.
SIZES = {
    "surface_d3_depol": (24, 219, 1),
    "surface_d5_depol": (120, 1677, 1),
    "surface_d7_depol": (336, 5471, 1),
    "bb72_depol": (432, 2232, 12),
    "bb144_depol": (1728, 8784, 12),
    "bb72_capacity": (36, 72, 12),
    "repetition_d9_tanner": (80, 153, 1),
    "steane_custom_dem": (12, 30, 1),
}


def each(names):
    """One test for each environment; those of the gross code, which take seconds each, with the slow ones."""
    params = [pytest.param(n, marks=[pytest.mark.slow] if n == "bb144_depol" else []) for n in names]
    return pytest.mark.parametrize("name", params)


@each(SIZES)
def test_sizes(name: str) -> None:
    env = load_env(name)
    problem = env.problem(env.spec.noise.p[0])
    assert (problem.n_checks, problem.n_faults, problem.n_observables) == SIZES[name]


def test_bb72_in_both_bases() -> None:
    env = load_env("bb72_depol")
    protocol = env.spec.eval_protocol.model_copy(update={"osd_bases": "both"})
    both = Environment(env.spec.model_copy(update={"eval_protocol": protocol}), root=env.root)
    problem = both.problem(0.003)
    assert (problem.n_checks, problem.n_faults, problem.n_observables) == (432, 16164, 12)
    assert dict(zip(*np.unique(problem.detector_basis, return_counts=True), strict=True)) == {
        "X": 180,
        "Z": 252,
    }


def test_builtin_specs_keep_the_contract() -> None:
    d5, bb72 = load_env("surface_d5_depol").spec, load_env("bb72_depol").spec
    assert d5.noise.p == [1e-3, 5e-3, 1e-2]
    assert bb72.noise.p == [1e-3, 3e-3, 5e-3]
    assert (d5.classical_backend, bb72.classical_backend) == ("mwpm", "osd")
    assert set(builtin_names()) >= {*SIZES, "surface_d5_biased", "surface_d5_leakage"}


@each(builtin_names())
def test_every_fault_is_the_sum_of_its_edges(name: str) -> None:
    env = load_env(name)
    problem = env.problem(env.spec.noise.p[-1])
    graph = problem.graph
    if graph is None:
        assert env.spec.classical_backend == "osd"
        return
    rows, ends = np.nonzero(graph.ends >= 0)
    edges = sp.csr_array(
        (np.ones(len(rows), dtype=np.int64), (rows, graph.ends[rows, ends])),
        shape=(graph.n_edges, problem.n_checks),
    )
    incidence = graph.fault_edges.astype(np.int64)
    assert ((incidence.T @ edges).toarray() % 2 == problem.h.toarray().T).all()
    if graph.conflicts == 0:
        flips = (incidence.T @ graph.observables.astype(np.int64)) % 2
        assert (flips == problem.l.toarray().T).all()


@pytest.mark.parametrize("name", ["surface_d3_depol", "surface_d5_depol", "surface_d5_biased"])
def test_edge_priors_are_pymatchings(name: str) -> None:
    env = load_env(name)
    problem = env.problem(env.spec.noise.p[1])
    assert problem.graph is not None
    matching = pymatching.Matching.from_detector_error_model(stim.DetectorErrorModel(problem.dem))
    theirs = {
        tuple(sorted((u, -1 if v is None else v))): data["error_probability"]
        for u, v, data in matching.edges()
    }
    ours = {
        tuple(sorted(ends)): prior
        for ends, prior in zip(problem.graph.ends.tolist(), problem.graph.priors.tolist(), strict=True)
    }
    assert ours.keys() == theirs.keys()
    assert all(ours[edge] == pytest.approx(theirs[edge], rel=1e-6) for edge in ours)


def _rates(env: Environment, p: float, shots: int) -> tuple[np.ndarray, np.ndarray]:
    """Per-detector event rates: sampled from the process, and exact from the model's faults."""
    problem = env.problem(p).sampled
    sampled = env.sampler(p).sample(shots, seed=12345)
    detectors = unpack(sampled.detectors, problem.n_checks)
    parity = np.ones(problem.n_checks)
    h = problem.h.tocsr()
    for row in range(problem.n_checks):
        faults = h.indices[h.indptr[row] : h.indptr[row + 1]]
        parity[row] = np.prod(1 - 2 * problem.priors[faults])
    return detectors.mean(axis=0), (1 - parity) / 2


@each(n for n in builtin_names() if n != "surface_d5_leakage")
def test_circuit_and_error_model_agree_on_detector_rates(name: str) -> None:
    env = load_env(name)
    p, shots = env.spec.noise.p[-1], 60_000
    sampled, exact = _rates(env, p, shots)
    sigma = np.sqrt(exact * (1 - exact) / shots)
    pulls = np.abs(sampled - exact) / sigma
    assert pulls.max() < 5.5
    assert np.mean(pulls**2) < 1.5


def test_leakage_is_not_its_twirled_model() -> None:
    """The decoder's model must misjudge the process; by how much is the point, so both ends are pinned."""
    env = load_env("surface_d5_leakage")
    p, shots = env.spec.noise.p[-1], 60_000
    sampled, exact = _rates(env, p, shots)
    relative = float(np.abs(sampled - exact).mean() / exact.mean())
    print(
        f"mean detector rate {sampled.mean():.4f} sampled, {exact.mean():.4f} modelled, off by {relative:.1%}"
    )
    pulls = np.abs(sampled - exact) / np.sqrt(exact * (1 - exact) / shots)
    assert np.mean(pulls**2) > 10
    assert 0.01 < relative < 0.5


def test_leakage_without_leaks_is_uniform_noise() -> None:
    spec = load_env("surface_d5_leakage").spec
    quiet = spec.noise.model_copy(update={"leakage": spec.noise.leakage.model_copy(update={"leak": 0.0})})
    env = Environment(spec.model_copy(update={"noise": quiet}))
    sampled, exact = _rates(env, 0.005, 40_000)
    pulls = np.abs(sampled - exact) / np.sqrt(exact * (1 - exact) / 40_000)
    assert np.mean(pulls**2) < 1.5
    assert np.allclose(env.problem(0.005).priors, load_env("surface_d5_depol").problem(0.005).priors)


def test_bias_favours_z() -> None:
    """Under Z bias the X detectors of a memory, which see Z errors, fire more often than the Z detectors."""
    problem = load_env("surface_d5_biased").problem(5e-3)
    rates = {}
    h = problem.h.tocsr()
    for basis in "XZ":
        rows = np.flatnonzero(problem.detector_basis == basis)
        rates[basis] = np.mean([problem.priors[h.indices[h.indptr[r] : h.indptr[r + 1]]].sum() for r in rows])
    assert rates["X"] > 1.5 * rates["Z"]


def _spec(**changes: object) -> EnvSpec:
    base = load_env("surface_d3_depol").spec.model_dump()
    for key, value in changes.items():
        base[key] = {**base[key], **value} if isinstance(value, dict) else value
    return EnvSpec.model_validate(base)


def test_x_only_keeps_the_detectors_of_x_errors() -> None:
    env = Environment(_spec(eval_protocol={"x_z_decoding": "x_only"}))
    problem = env.problem(5e-3)
    assert set(problem.detector_basis.tolist()) == {"Z"}
    assert problem.n_checks == 16
    sampled = env.sampler(5e-3).sample(64, seed=0)
    assert sampled.detectors.shape == (64, 2)


@pytest.mark.parametrize(
    ("source", "backend"),
    [
        ("repetition_code:memory?distance=5&rounds=4", "mwpm"),
        ("surface_code:rotated_memory_x?distance=3&rounds=2", "mwpm"),
        ("surface_code:unrotated_memory_x?distance=3&rounds=3", "mwpm"),
        ("surface_code:unrotated_memory_z?distance=3&rounds=3", "mwpm"),
        ("color_code:memory_xyz?distance=3&rounds=3", "osd"),
    ],
)
@pytest.mark.parametrize(
    "noise", [{}, {"type": "biased"}, {"variant": "si1000"}, {"idle": "every_layer"}, {"type": "leakage"}]
)
def test_every_stim_family_and_noise(source: str, backend: str, noise: dict) -> None:
    env = Environment(_spec(code={"source": source}, noise={"p": [5e-3], **noise}, classical_backend=backend))
    problem = env.problem(5e-3)
    assert problem.n_faults > problem.n_checks
    assert (problem.priors > 0).all()
    sampled = env.sampler(5e-3).sample(256, seed=1)
    assert unpack(sampled.detectors, problem.n_checks).any()
    silent = env.source.noiseless().compile_detector_sampler(seed=0).sample(64)
    assert not silent.any()


def test_generated_uniform_noise_is_stims_own() -> None:
    theirs = stim.Circuit.generated(
        "surface_code:rotated_memory_z",
        distance=3,
        rounds=3,
        after_clifford_depolarization=5e-3,
        before_round_data_depolarization=5e-3,
        before_measure_flip_probability=5e-3,
        after_reset_flip_probability=5e-3,
    )
    assert load_env("surface_d3_depol").circuit(5e-3) == theirs
