"""Baseline decoders against measured figures and against each other, on the same shots."""

import numpy as np
import pymatching
import pytest
import stim

from autoqec.decoders.backends import make_backend
from autoqec.decoders.backends.matching import MatchingBackend
from autoqec.decoders.baselines.registry import DecoderChoice, choose, names, unavailable
from autoqec.decoders.paired import Evaluator
from autoqec.decoders.reference_p import plain_backend, reference_p
from autoqec.envs.load import load_env
from autoqec.envs.packing import pack, unpack
from autoqec.errors import InputError, UnavailableError

# Failures per shot measured elsewhere, with their 95% intervals: (env, p, decoder, low, high, shots to use here).
MEASURED = [
    ("surface_d3_depol", 5e-3, "pymatching", 1.711e-2, 1.748e-2, 200_000),
    ("surface_d3_depol", 5e-3, "pymatching_correlated", 1.644e-2, 1.694e-2, 200_000),
    ("surface_d5_depol", 5e-3, "pymatching", 1.387e-2, 1.434e-2, 200_000),
    ("surface_d5_depol", 5e-3, "pymatching_correlated", 1.078e-2, 1.119e-2, 100_000),
    ("surface_d7_depol", 5e-3, "pymatching", 9.578e-3, 1.029e-2, 60_000),
    ("surface_d7_depol", 5e-3, "pymatching_correlated", 5.214e-3, 6.144e-3, 30_000),
    ("bb72_depol", 3e-3, "bposd-0", 2.218e-2, 3.035e-2, 2_000),
    ("bb72_depol", 3e-3, "bplsd", 2.238e-2, 3.077e-2, 2_000),
    ("bb72_depol", 3e-3, "bposd-10", 1.509e-2, 2.448e-2, 1_500),
]


def run(env: str, p: float, shots: int, *decoders: str):
    with Evaluator(load_env(env), workers=1) as evaluator:
        return evaluator.run(p, choose(decoders, (0,), where="test"), shots)


@pytest.mark.slow
@pytest.mark.parametrize(("env", "p", "decoder", "low", "high", "shots"), MEASURED)
def test_logical_error_rates_agree_with_earlier_measurements(env, p, decoder, low, high, shots) -> None:
    ours_low, ours_high = run(env, p, shots, decoder).interval(decoder, 0.999)
    assert ours_low < high
    assert ours_high > low


@pytest.mark.slow
def test_belief_matching_beats_both_matchings_at_d5() -> None:
    result = run("surface_d5_depol", 5e-3, 120_000, "pymatching", "pymatching_correlated", "belief_matching")
    low, high = result.ratio_interval("pymatching", "belief_matching")  # 1.42 over 200,000 shots
    assert low > 1.25
    assert high > 1.38
    assert result.ratio_interval("pymatching_correlated", "belief_matching")[0] > 1.0
    assert result.ratio("pymatching", "pymatching_correlated") == pytest.approx(1.285, abs=0.06)


def test_correlated_matching_uses_its_flag_in_both_places() -> None:
    """With the flag in only one place PyMatching gives plain predictions, so agreement with the double flag matters."""
    env = load_env("surface_d5_depol")
    problem, shots = env.problem(0.01), env.sampler(0.01).sample(4000, 3)
    dem = stim.DetectorErrorModel(problem.dem)
    both = pymatching.Matching.from_detector_error_model(dem, enable_correlations=True)
    detectors = unpack(shots.detectors, problem.n_checks)
    expected = both.decode_batch(detectors, enable_correlations=True)
    ours = unpack(DecoderChoice("pymatching_correlated").build(problem).decode(shots.detectors), 1)
    assert (ours == expected).all()
    assert (ours != both.decode_batch(detectors)).any()


def test_unknown_names_list_the_known_ones() -> None:
    with pytest.raises(InputError, match="belief_matching") as caught:
        choose(["pymatchin"], (0,), where="baseline_decoders")
    assert "pymatchin'" in str(caught.value)


def test_open_orders_stand_for_all_reported_ones() -> None:
    assert [c.name for c in choose(["bposd", "bposd-0"], (0, 10), where="x")] == ["bposd-0", "bposd-10"]


def test_missing_decoders_say_what_to_install() -> None:
    problem = load_env("surface_d3_depol").problem(5e-3)
    missing = [c for c in choose(names(), (0,), where="x") if unavailable(c) is not None]
    for choice in missing:
        assert "pip install" in unavailable(choice)
        with pytest.raises(UnavailableError, match="pip install"):
            choice.build(problem)


def test_matching_never_sees_a_hypergraph() -> None:
    problem = load_env("bb72_capacity").problem(0.03)
    assert unavailable(DecoderChoice("pymatching"), problem) == "needs a graph-like problem"
    with pytest.raises(InputError, match="osd"):
        MatchingBackend(problem)


@pytest.mark.parametrize(("env", "expected"), [("surface_d5_depol", 5e-3), ("steane_custom_dem", 0.01)])
def test_reference_p(env: str, expected: float) -> None:
    assert reference_p(load_env(env)) == expected


@pytest.mark.slow
def test_reference_p_of_bb72() -> None:
    assert reference_p(load_env("bb72_depol")) == 3e-3


@pytest.mark.parametrize(
    "env",
    ["surface_d3_depol", "surface_d5_depol", "repetition_d9_tanner", "bb72_capacity", "steane_custom_dem"],
)
class TestBackends:
    """One protocol, both backends."""

    def scene(self, env: str, shots: int = 400):
        environment = load_env(env)
        p = environment.spec.noise.p[0]
        problem = environment.problem(p)
        return (
            make_backend(problem, environment.spec.classical_backend),
            environment.sampler(p).sample(shots, 9),
            problem,
        )

    def test_fixed_decode_is_the_plain_baseline(self, env) -> None:
        backend, shots, problem = self.scene(env)
        plain = plain_backend(load_env(env)).build(problem)
        assert (backend.decode(shots.detectors) == plain.decode(shots.detectors)).all()

    def test_the_models_own_priors_lose_nothing(self, env) -> None:
        """With every shot given the model's priors, matching finds the fixed optimum again (ties aside)."""
        backend, shots, problem = self.scene(env)
        priors = np.broadcast_to(problem.priors, (len(shots.detectors), problem.n_faults))
        given = backend.decode_priors(shots.detectors, priors)
        if backend.name == "mwpm":
            fixed = backend.decode(shots.detectors)
            wrong = [(g != shots.observables).any(axis=1).sum() for g in (given, fixed)]
            assert (given != fixed).any(axis=1).mean() < 0.02
            assert abs(int(wrong[0]) - int(wrong[1])) <= 4
        else:
            assert given.shape == shots.observables.shape

    def test_certain_priors_decide_the_shot(self, env) -> None:
        """Told which faults happened, a backend must return exactly what they flip."""
        backend, _, problem = self.scene(env)
        rng = np.random.default_rng(4)
        faults = rng.random((200, problem.n_faults)) < 3 * problem.priors
        detectors = pack((problem.h @ faults.T).T % 2)
        expected = pack((problem.l @ faults.T).T % 2)
        priors = np.where(faults, 1 - 1e-6, 1e-6)
        assert (backend.decode_priors(detectors, priors) == expected).all()

    def test_residual_carries_the_frame(self, env) -> None:
        backend, shots, _ = self.scene(env)
        frame = np.zeros_like(shots.observables)
        frame[::2, 0] ^= 1
        out = backend.decode_residual(shots.detectors, frame)
        assert (out == backend.decode(shots.detectors) ^ frame).all()
        assert (out != backend.decode(shots.detectors)).any()

    def test_threads_change_nothing(self, env) -> None:
        backend, shots, problem = self.scene(env)
        rng = np.random.default_rng(1)
        priors = np.clip(problem.priors * np.exp(rng.normal(0, 1, (400, problem.n_faults))), 0, 0.9)
        one = backend.decode_priors(shots.detectors, priors, threads=1)
        assert (one == backend.decode_priors(shots.detectors, priors, threads=3)).all()

    @pytest.mark.parametrize("bad", [np.nan, np.inf, -0.1, 1.5])
    def test_bad_priors_are_named(self, env, bad) -> None:
        backend, shots, problem = self.scene(env, 8)
        priors = np.full((8, problem.n_faults), 0.01)
        priors[5, 3] = bad
        with pytest.raises(InputError, match=r"fault 3 in shot 5"):
            backend.decode_priors(shots.detectors, priors)

    def test_wrong_shapes_are_named(self, env) -> None:
        backend, shots, problem = self.scene(env, 8)
        with pytest.raises(InputError, match="detectors"):
            backend.decode(np.zeros((8, shots.detectors.shape[1] + 1), dtype=np.uint8))
        with pytest.raises(InputError, match="priors"):
            backend.decode_priors(shots.detectors, np.full((7, problem.n_faults), 0.1))

    def test_no_shots(self, env) -> None:
        backend, shots, problem = self.scene(env, 8)
        none = shots.detectors[:0]
        assert backend.decode(none).shape == shots.observables[:0].shape
        assert (
            backend.decode_priors(none, np.zeros((0, problem.n_faults))).shape == shots.observables[:0].shape
        )
