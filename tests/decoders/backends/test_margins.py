"""How sure a backend is: margins against all fault sets, and against the exact odds of a small code."""

from itertools import combinations, product

import numpy as np
import pytest
import scipy.sparse as sp
import stim

from autoqec.decoders.backends import make_backend
from autoqec.decoders.backends.ordered_statistics import MARGIN_ORDER, OrderedStatistics
from autoqec.decoders.backends.per_shot_matching import PerShotMatcher
from autoqec.decoders.compiler import compile_predecoder
from autoqec.decoders.dsl_schema import PredecoderDSL
from autoqec.decoders.maximum_likelihood import outcome_probabilities
from autoqec.decoders.pipeline import PredecoderPipeline
from autoqec.envs.build import problem_from_dem
from autoqec.envs.load import load_env
from autoqec.envs.packing import pack, unpack
from autoqec.envs.problem import log_odds
from autoqec.errors import UnavailableError


def osd_of(h, l):
    return OrderedStatistics(sp.csc_array(h), sp.csc_array(l))


def small_case(seed, n_observables):
    rng = np.random.default_rng(seed)
    n, m = int(rng.integers(5, 10)), int(rng.integers(2, 5))
    h = (rng.random((m, n)) < 0.5).astype(np.uint8)
    l = (rng.random((n_observables, n)) < 0.5).astype(np.uint8)
    odds = rng.normal(1.0, 2.0, (12, n))
    syndromes = ((rng.random((12, n)) < 0.3).astype(np.uint8) @ h.T % 2).astype(np.uint8)
    return h, l, odds, syndromes


def solutions(h, syndrome):
    every = np.array(list(product((0, 1), repeat=h.shape[1])), dtype=np.uint8)
    return every[(every @ h.T % 2 == syndrome).all(axis=1)]


@pytest.mark.parametrize("n_observables", [1, 3, 70])
@pytest.mark.parametrize("seed", range(4))
def test_the_margin_of_a_full_sweep_is_that_of_all_fault_sets(seed, n_observables):
    """Where at most two faults lie outside the basis, a sweep sees every solution."""
    h, l, odds, syndromes = small_case(seed, n_observables)
    free = h.shape[1] - osd_of(h, l).rank
    keep = h.shape[1] - max(free - 2, 0)
    while keep > 1 and keep - osd_of(h[:, :keep], l[:, :keep]).rank > 2:
        keep -= 1
    h, l, odds = h[:, :keep], l[:, :keep], odds[:, :keep]
    possible = [s for s in range(len(syndromes)) if len(solutions(h, syndromes[s]))]
    syndromes, odds = syndromes[possible], odds[possible]
    weights = np.linspace(0.5, 3.0, keep)
    osd = osd_of(h, l)
    for order, margin_weights in ((0, None), (2, None), (0, weights), (2, weights)):
        found = osd.decode_with_margins(pack(syndromes), odds, order=order, margin_weights=margin_weights)
        assert np.array_equal(found.predictions, osd.decode(pack(syndromes), odds, order=order))
        predicted = unpack(found.predictions, n_observables)
        for shot, syndrome in enumerate(syndromes):
            sets = solutions(h, syndrome)
            weight = sets @ (odds[shot] if margin_weights is None else weights)
            own = (sets @ l.T % 2 == predicted[shot]).all(axis=1)
            rival = weight[~own].min() if (~own).any() else np.inf
            assert found.log_odds[shot] == pytest.approx(rival - weight[own].min(), abs=1e-8)


def test_solutions_found_elsewhere_have_their_own_margins():
    h, l, odds, syndromes = small_case(3, 2)
    osd = osd_of(h, l)
    given = np.array([solutions(h, s)[-1] for s in syndromes])
    found = osd.decode_with_margins(pack(syndromes), odds, order=20, given=given)
    free = h.shape[1] - osd.rank
    for shot, syndrome in enumerate(syndromes):
        sets = solutions(h, syndrome)
        own = (sets @ l.T % 2 == given[shot] @ l.T % 2).all(axis=1)
        weight = sets @ odds[shot]
        exact = weight[~own].min() - weight[own].min()
        # A sweep leaves out what flips three and more faults outside the basis.
        assert found.log_odds[shot] == pytest.approx(exact, abs=1e-8) or free > 2
        assert found.log_odds[shot] <= weight[~own].max() - weight[own].min() + 1e-8


def test_margins_do_not_depend_on_threads_and_precision():
    h, l, odds, syndromes = small_case(1, 2)
    many = np.tile(syndromes, (40, 1)), np.tile(odds, (40, 1)).astype(np.float32)
    osd = osd_of(h, l)
    one = osd.decode_with_margins(pack(many[0]), many[1], threads=1)
    two = osd.decode_with_margins(pack(many[0]), many[1], threads=2)
    double = osd.decode_with_margins(pack(many[0]), many[1].astype(np.float64), threads=1)
    assert np.array_equal(one.log_odds, two.log_odds)
    assert np.array_equal(one.log_odds, double.log_odds)


def exact_log_odds(problem, predictions):
    """Of the prediction for every syndrome, from the sums over all fault sets."""
    chances = outcome_probabilities(problem)
    places = unpack(predictions, problem.n_observables).astype(int) @ (1 << np.arange(problem.n_observables))
    right = chances[places, np.arange(chances.shape[1])]
    every = chances.sum(axis=0)
    return every, np.log(right / (every - right))


def every_syndrome(n):
    return pack((np.arange(1 << n)[:, None] >> np.arange(n)) & 1)


def test_the_margin_of_the_steane_code_beside_its_exact_log_odds():
    """The margin counts one fault set of each class: it is too sure, by 2.3 in the mean, because a class has many."""
    problem = load_env("steane_custom_dem").problem(0.01)
    osd = OrderedStatistics(problem.h, problem.l)
    weights = log_odds(problem.priors)
    found = osd.decode_with_margins(every_syndrome(problem.n_checks), weights, order=MARGIN_ORDER)
    chance, exact = exact_log_odds(problem, found.predictions)
    assert 2.2 < (chance * (found.log_odds - exact)).sum() < 2.5
    together = np.cov(found.log_odds, exact, aweights=chance)
    assert together[0, 1] / np.sqrt(together[0, 0] * together[1, 1]) > 0.9  # 0.947
    expected = (chance / (1 + np.exp(found.log_odds))).sum()
    failing = (chance / (1 + np.exp(exact))).sum()
    assert 0.5 < expected / failing < 0.6  # 0.0088 and 0.0165


REPETITION = stim.Circuit.generated(
    "repetition_code:memory", distance=3, rounds=2, after_clifford_depolarization=0.03
)


def test_the_margin_of_a_matching_beside_its_exact_log_odds():
    problem = problem_from_dem(REPETITION.detector_error_model(decompose_errors=True), need_graph=True)
    backend = make_backend(problem, "mwpm")
    found = backend.decode_with_confidence(every_syndrome(problem.n_checks))
    assert np.array_equal(found.predictions, backend.decode(every_syndrome(problem.n_checks)))
    chance, exact = exact_log_odds(problem, found.predictions)
    assert (found.log_odds >= 0).all()
    assert (chance * np.abs(found.log_odds - exact)).sum() < 0.7  # 0.61


def test_several_observables_of_a_matching_against_all_sets_of_edges():
    """A chain with two observables, each on one of its two boundary edges and one in its middle."""
    ends = np.array([[0, -1], [0, 1], [1, 2], [2, -1], [0, -1]], dtype=np.int32)
    observables = np.array([[1, 0], [0, 0], [0, 0], [0, 1], [0, 0]], dtype=bool)
    matcher = PerShotMatcher(3, ends, observables)
    rng = np.random.default_rng(7)
    weights = rng.normal(0.5, 1.0, (8, 5))
    h = np.array([[1, 1, 0, 0, 1], [0, 1, 1, 0, 0], [0, 0, 1, 1, 0]])
    defects = np.array(list(product((0, 1), repeat=3)), dtype=np.uint8)
    found = matcher.decode_with_margins(pack(defects), weights, threads=1)
    assert np.array_equal(found.predictions, matcher.decode(pack(defects), weights, threads=1))
    for shot, syndrome in enumerate(defects):
        sets = solutions(h, syndrome)
        weight = sets @ weights[shot]
        own = (sets @ observables % 2 == unpack(found.predictions, 2)[shot]).all(axis=1)
        assert found.log_odds[shot] == pytest.approx(weight[~own].min() - weight[own].min(), abs=1e-6)


def test_an_observable_that_winds_around_a_torus_is_refused():
    ends = np.array([*combinations(range(3), 2)], dtype=np.int32)
    matcher = PerShotMatcher(3, ends, np.array([[True], [False], [False]]))
    with pytest.raises(UnavailableError, match="cannot be moved to the boundary"):
        matcher.decode_with_margins(pack(np.array([[1, 1, 0]])), np.ones(3))


@pytest.mark.parametrize("order", [0, 3])
def test_bp_osd_says_how_sure_it_is_of_its_own_answers(order):
    env = load_env("bb72_capacity")
    p = env.spec.noise.p[-1]
    backend = make_backend(env.problem(p), "osd", order)
    shots = env.sampler(p).sample(300, seed=2)
    found = backend.decode_with_confidence(shots.detectors)
    assert np.array_equal(found.predictions, backend.decode(shots.detectors))
    failed = (found.predictions != shots.observables).any(axis=1)
    sure = np.argsort(found.log_odds)
    assert failed[sure[:60]].mean() > 4 * failed[sure[60:]].mean()


def test_applied_faults_in_front_of_ordered_statistics_have_a_confidence() -> None:
    env = load_env("steane_custom_dem")
    problem = env.problem(env.spec.noise.p[0])
    dsl = {"type": "neural_bp", "output_mode": "hard_flip", "neural_bp": {"iterations": 2}}
    module = compile_predecoder(PredecoderDSL.model_validate(dsl), problem)
    decoder = PredecoderPipeline(module, make_backend(problem, "osd"))
    shots = env.sampler(env.spec.noise.p[0]).sample(200, 1)
    found = decoder.decode_with_confidence(shots.detectors)
    assert np.array_equal(found.predictions, decoder.decode(shots.detectors))
    assert np.isfinite(found.log_odds).all()
