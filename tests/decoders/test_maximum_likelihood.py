"""Maximum likelihood: against all sets of faults, on the builtin Steane environment, and by a sweep of the detectors."""

import itertools

import numpy as np
import pytest
import stim
import torch

from autoqec.decoders.backends import make_backend
from autoqec.decoders.baselines.registry import DecoderChoice, unavailable
from autoqec.decoders.compiler import compile_predecoder
from autoqec.decoders.detector_sweep import DetectorSweep, is_narrow
from autoqec.decoders.dsl_schema import PredecoderDSL
from autoqec.decoders.maximum_likelihood import MaximumLikelihood, exact_ler, outcome_probabilities
from autoqec.decoders.pipeline import PredecoderPipeline
from autoqec.envs.build import problem_from_dem
from autoqec.envs.load import load_env
from autoqec.envs.packing import pack, unpack
from autoqec.envs.problem import DecodingProblem
from autoqec.errors import InputError

SMALL = problem_from_dem(
    stim.DetectorErrorModel("""
        error(0.1) D0
        error(0.2) D0 D1 L0
        error(0.05) D1 D2
        error(0.3) D2 L0
        error(0.02) D0 D1
    """),
    need_graph=False,
)


def all_syndromes(problem: DecodingProblem) -> np.ndarray:
    return ((np.arange(1 << problem.n_checks)[:, None] >> np.arange(problem.n_checks)) & 1).astype(np.uint8)


def answers(problem: DecodingProblem, decoder) -> np.ndarray:
    flips = unpack(decoder.decode(pack(all_syndromes(problem))), problem.n_observables)
    return flips.astype(np.int64) @ (1 << np.arange(problem.n_observables))


def test_probabilities_are_those_of_all_sets_of_faults():
    expected = np.zeros((2, 8))
    h, l = SMALL.h.toarray(), SMALL.l.toarray()
    for faults in itertools.product((0, 1), repeat=5):
        chance = np.prod(np.where(faults, SMALL.priors, 1 - SMALL.priors))
        syndrome, flip = h @ faults % 2, l @ faults % 2
        expected[flip[0], syndrome @ (1, 2, 4)] += chance
    np.testing.assert_allclose(outcome_probabilities(SMALL), expected, rtol=1e-12)


@pytest.fixture(scope="module")
def steane() -> tuple[DecodingProblem, np.ndarray]:
    problem = load_env("steane_custom_dem").problem(0.01)
    return problem, outcome_probabilities(problem)


def test_no_decoder_is_better_and_belief_propagation_comes_near(steane):
    """BP+OSD-0 is 8% above the best that can be done on the Steane environment; 20 min-sum iterations are within 1%."""
    problem, chances = steane
    best = exact_ler(chances, answers(problem, MaximumLikelihood(problem)))
    plain = exact_ler(chances, answers(problem, DecoderChoice("bposd", 0).build(problem)))
    config = {
        "type": "neural_bp",
        "output_mode": "soft_priors",
        "neural_bp": {"iterations": 20, "weight_sharing": "per_layer", "check_rule": "min_sum"},
    }
    torch.manual_seed(0)
    module = compile_predecoder(PredecoderDSL.model_validate(config), problem)
    found = exact_ler(chances, answers(problem, PredecoderPipeline(module, make_backend(problem, "osd"))))
    assert best == pytest.approx(chances.min(axis=0).sum())
    assert best <= found < 1.01 * best
    assert 1.07 * best < plain < 1.09 * best


def test_a_sweep_of_the_detectors_gives_the_same_as_enumeration(steane):
    for problem, chances in (steane, (SMALL, outcome_probabilities(SMALL))):
        found = DetectorSweep(problem).probabilities(pack(all_syndromes(problem)))
        expected = chances / np.maximum(chances.sum(axis=0), 1e-300)
        np.testing.assert_allclose(found.T, expected, rtol=1e-9, atol=1e-12)


def test_a_fault_without_detectors_counts():
    problem = problem_from_dem(
        stim.DetectorErrorModel("error(0.3) L0\nerror(0.1) D0 L0\nerror(0.2) D0"), need_graph=False
    )
    found = DetectorSweep(problem).probabilities(pack(all_syndromes(problem)))
    chances = outcome_probabilities(problem)
    np.testing.assert_allclose(found.T, chances / chances.sum(axis=0), rtol=1e-9)


def test_the_surface_code_of_distance_3_is_narrow_enough_and_nothing_beats_its_best_decoder():
    """On these shots. Matching ignores that Y faults flip detectors of both bases."""
    env = load_env("surface_d3_depol")
    problem, shots = env.problem(0.01), env.sampler(0.01).sample(6_000, 3)
    bits = DetectorSweep(problem).bits
    assert bits <= 12
    assert is_narrow(problem, bits)
    assert not is_narrow(problem, bits - 1)
    failures = {
        name: (DecoderChoice(name).build(problem).decode(shots.detectors) != shots.observables)
        .any(axis=1)
        .sum()
        for name in ("maximum_likelihood", "pymatching", "pymatching_correlated", "belief_matching")
    }
    assert failures["maximum_likelihood"] == min(failures.values())
    assert failures["maximum_likelihood"] < 0.95 * failures["pymatching"]
    # Its probabilities are those of the failures.
    likely = DetectorSweep(problem).probabilities(shots.detectors)
    expected, spread = likely.min(axis=1).sum(), np.sqrt((likely[:, 0] * likely[:, 1]).sum())
    assert abs(failures["maximum_likelihood"] - expected) < 5 * spread


def test_large_problems_are_refused():
    problem = load_env("bb72_capacity").problem(0.03)
    reason = "needs at most 20 detectors and observables, or 16 open at a time"
    with pytest.raises(InputError, match=reason):
        MaximumLikelihood(problem)
    assert unavailable(DecoderChoice("maximum_likelihood"), problem) == reason
