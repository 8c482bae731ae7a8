"""Belief propagation against brute force, a double-precision reference and ldpc."""

from concurrent.futures import ThreadPoolExecutor
from itertools import product

import numpy as np
import pytest
import scipy.sparse as sp

from autoqec.decoders.backends.belief_propagation import BeliefPropagation
from autoqec.envs.load import load_env
from autoqec.envs.packing import pack, unpack
from autoqec.envs.problem import log_odds
from autoqec.errors import InputError


def path(n: int) -> np.ndarray:
    """Repetition code: check i compares faults i and i + 1. Its Tanner graph is a tree."""
    h = np.zeros((n - 1, n), dtype=np.uint8)
    h[np.arange(n - 1), np.arange(n - 1)] = 1
    h[np.arange(n - 1), np.arange(1, n)] = 1
    return h


TREES = {
    "path": path(7),
    "star": np.array([[1, 1, 1, 1, 1]], dtype=np.uint8),
    "end checked alone": np.vstack([path(5), [[1, 0, 0, 0, 0]]]).astype(np.uint8),
    "branches": np.array(
        [[1, 1, 1, 0, 0, 0, 0, 0], [0, 0, 1, 1, 0, 0, 1, 0], [0, 1, 0, 0, 1, 1, 0, 0]], dtype=np.uint8
    ),
}


def exact_posteriors(h: np.ndarray, priors: np.ndarray, syndrome: np.ndarray) -> np.ndarray:
    faults = np.array(list(product((0, 1), repeat=h.shape[1])))
    likelihood = np.prod(np.where(faults, priors, 1 - priors), axis=1)
    likelihood *= ((faults @ h.T) % 2 == syndrome).all(axis=1)
    happened = likelihood @ faults
    with np.errstate(divide="ignore"):
        return np.log(likelihood.sum() - happened) - np.log(happened)


def reference(h, priors, syndromes, iterations, method="sum_product", scaling=1.0):
    """Dense flooding belief propagation in double precision, signs and sizes apart."""
    out = []
    on = h.astype(bool)
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        for syndrome in syndromes:
            to_check = np.where(on, log_odds(priors)[None, :], np.inf)
            for i in range(iterations):
                sign = np.where(to_check < 0, -1.0, 1.0)
                total_sign = sign.prod(axis=1, keepdims=True) * (1 - 2.0 * syndrome[:, None])
                size = np.abs(to_check)
                others = np.zeros_like(size)
                for c, f in zip(*np.nonzero(on), strict=True):
                    rest = np.delete(size[c], f)
                    if method == "min_sum":
                        factor = 1 - 0.5 ** (i + 1) if scaling == "adaptive" else scaling
                        others[c, f] = factor * min(rest.min(), 50.0)
                    else:
                        t = -np.expm1(np.log(np.tanh(rest / 2)).sum())  # 1 - prod tanh
                        others[c, f] = min(np.log((2 - t) / t), 50.0) if t > 0 else 50.0
                to_fault = np.where(on, total_sign * sign * others, 0.0)
                posterior = log_odds(priors) + to_fault.sum(axis=0)
                to_check = np.where(on, posterior[None, :] - to_fault, np.inf)
            out.append(posterior)
    return np.array(out)


def ldpc_rounding(h: sp.csr_array, log_odds: np.ndarray) -> np.ndarray:
    """How far ldpc's own log-odds may be off, in double precision.

    Its messages are log((1 + t) / (1 - t)) with t a product of tanh, one factor per fault of the check, each rounded by half
    an ulp of 1. So 1 - t = 2 exp(-|L|) is off by that many half ulps, and L by their ratio. Beyond 1 - t = one ulp (L = 37)
    nothing is finite.
    """
    factors = np.diff(sp.csr_array(h).indptr).max()
    return factors * np.finfo(float).eps / 4 * np.exp(np.minimum(np.abs(log_odds), 37.0))


@pytest.mark.parametrize("name", TREES)
@pytest.mark.parametrize("seed", range(3))
def test_marginals_on_a_tree_are_exact(name, seed):
    h = TREES[name]
    rng = np.random.default_rng(seed)
    priors = rng.uniform(0.001, 0.5, h.shape[1])
    faults = rng.random((40, h.shape[1])) < 0.4
    syndromes = faults @ h.T % 2
    bp = BeliefPropagation(sp.csr_array(h), priors, iterations=10)
    found = bp.posteriors(pack(syndromes)).log_odds
    # A check on one fault fixes it: its log-odds are infinite, which propagation clips.
    exact = np.clip([exact_posteriors(h, priors, s) for s in syndromes], -40, 40)
    certain = np.abs(exact) == 40
    np.testing.assert_allclose(found[~certain], exact[~certain], atol=2e-4)
    assert (np.sign(found) == np.sign(exact))[certain].all()
    assert (np.abs(found[certain]) > 30).all()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "scaling"),
    [("sum_product", 1.0), ("min_sum", 1.0), ("min_sum", 0.625), ("min_sum", "adaptive")],
)
@pytest.mark.parametrize("iterations", [1, 2, 7])
def test_single_precision_agrees_with_a_double_precision_reference(method, scaling, iterations):
    problem = load_env("steane_custom_dem").problem(0.01)
    h = problem.h.toarray()
    rng = np.random.default_rng(5)
    syndromes = rng.integers(0, 2, (20, problem.n_checks), dtype=np.uint8)
    # Check degrees above 32 pass through the renormalisation of the parity pairs.
    h = np.hstack([h, rng.random((len(h), 45)) < 0.9]).astype(np.uint8)
    priors = np.concatenate([problem.priors, rng.uniform(0.01, 0.5, 45)])
    bp = BeliefPropagation(sp.csc_array(h), priors, iterations=iterations, method=method, scaling=scaling)
    expected = reference(h, priors, syndromes, iterations, method, scaling)
    np.testing.assert_allclose(bp.posteriors(pack(syndromes)).log_odds, expected, atol=1e-3)


@pytest.mark.parametrize(
    ("method", "theirs", "scaling"),
    [
        ("sum_product", {"bp_method": "product_sum"}, 1.0),
        ("min_sum", {"bp_method": "minimum_sum", "ms_scaling_factor": 0.625}, 0.625),
        ("min_sum", {"bp_method": "minimum_sum", "ms_scaling_factor": 0.0}, "adaptive"),
    ],
)
@pytest.mark.parametrize(("env", "p"), [("surface_d3_depol", 0.01), ("bb72_depol", 0.003)])
def test_agrees_with_ldpc(env, p, method, theirs, scaling):
    from ldpc import BpDecoder

    environment = load_env(env)
    problem = environment.problem(p)
    shots = environment.sampler(p).sample(60, seed=11).detectors
    shots = shots[shots.any(axis=1)]  # ldpc does not run on the empty syndrome
    for iterations in (1, 6):
        ldpc = BpDecoder(
            sp.csr_matrix(problem.h),
            error_channel=problem.priors.tolist(),
            max_iter=iterations,
            schedule="parallel",
            **theirs,
        )
        expected, converged = [], []
        for syndrome in unpack(shots, problem.n_checks):
            ldpc.decode(syndrome)
            expected.append(ldpc.log_prob_ratios)
            converged.append(ldpc.converge)
        bp = BeliefPropagation(
            problem.h,
            problem.priors,
            iterations=iterations,
            method=method,
            scaling=scaling,
            early_stop=True,
        )
        found = bp.posteriors(shots)
        assert found.satisfied.tolist() == converged
        theirs_odds = np.array(expected)
        usable = np.isfinite(theirs_odds)  # ldpc overflows where messages get certain
        assert usable.mean() > 0.9
        ours, theirs_odds = found.log_odds[usable], theirs_odds[usable]
        allowed = 1e-3 + 2e-4 * np.abs(theirs_odds) + ldpc_rounding(problem.h, theirs_odds)
        assert (np.abs(ours - theirs_odds) <= allowed).all()
        certain = np.abs(theirs_odds) > 30
        assert (np.sign(ours) == np.sign(theirs_odds))[certain].all()
        assert (np.abs(ours[certain]) > 25).all()


def test_satisfied_means_that_the_hard_decision_has_the_syndrome():
    environment = load_env("surface_d3_depol")
    problem = environment.problem(0.01)
    shots = environment.sampler(0.01).sample(300, seed=2).detectors
    for early_stop in (False, True):
        bp = BeliefPropagation(problem.h, problem.priors, iterations=8, early_stop=early_stop)
        found = bp.posteriors(shots)
        syndromes = (found.log_odds < 0) @ problem.h.T.toarray() % 2
        assert found.satisfied.tolist() == (pack(syndromes) == shots).all(axis=1).tolist()
        assert 0.1 < found.satisfied.mean() < 1.0


def test_early_stop_keeps_the_posteriors_of_the_first_iteration_that_fits():
    environment = load_env("surface_d3_depol")
    problem = environment.problem(0.01)
    shots = environment.sampler(0.01).sample(200, seed=3).detectors
    stopped = BeliefPropagation(problem.h, problem.priors, iterations=6, early_stop=True).posteriors(shots)
    running = np.ones(len(shots), dtype=bool)
    expected = np.empty_like(stopped.log_odds)
    for k in range(1, 7):
        at = BeliefPropagation(problem.h, problem.priors, iterations=k).posteriors(shots)
        expected[running] = at.log_odds[running]
        running &= ~at.satisfied
    np.testing.assert_array_equal(stopped.log_odds, expected)
    assert stopped.satisfied.tolist() == (~running).tolist()


@pytest.mark.parametrize(
    ("method", "own"), [("sum_product", False), ("sum_product", True), ("min_sum", False)]
)
@pytest.mark.parametrize(("iterations", "average"), [(6, 4), (3, 3), (5, 1)])
def test_average_is_the_mean_of_the_last_posteriors(iterations, average, method, own):
    environment = load_env("surface_d3_depol")
    problem = environment.problem(0.01)
    shots = environment.sampler(0.01).sample(75, seed=8).detectors
    rng = np.random.default_rng(2)
    priors = rng.uniform(0.001, 0.4, (len(shots), problem.n_faults)) if own else None
    found = BeliefPropagation(
        problem.h, problem.priors, iterations=iterations, average=average, method=method
    ).posteriors(shots, priors=priors)
    each = [
        BeliefPropagation(problem.h, problem.priors, iterations=k, method=method).posteriors(
            shots, priors=priors
        )
        for k in range(iterations - average + 1, iterations + 1)
    ]
    expected = np.mean([one.log_odds for one in each], axis=0)
    np.testing.assert_allclose(found.log_odds, expected, atol=1e-4)
    np.testing.assert_array_equal(found.satisfied, each[-1].satisfied)


@pytest.mark.parametrize("early_stop", [False, True])
def test_priors_of_each_shot_stand_in_for_the_common_ones(early_stop):
    environment = load_env("surface_d3_depol")
    problem = environment.problem(0.01)
    shots = environment.sampler(0.01).sample(37, seed=4).detectors
    bp = BeliefPropagation(problem.h, problem.priors, iterations=5, early_stop=early_stop)
    repeated = np.broadcast_to(problem.priors, (len(shots), problem.n_faults))
    common = bp.posteriors(shots)
    np.testing.assert_allclose(bp.posteriors(shots, priors=repeated).log_odds, common.log_odds, atol=1e-3)

    own = np.random.default_rng(1).uniform(0.001, 0.999, (len(shots), problem.n_faults))
    found = bp.posteriors(shots, priors=own)
    for i in (0, 20, 36):
        alone = BeliefPropagation(problem.h, own[i], iterations=5, early_stop=early_stop)
        np.testing.assert_allclose(
            found.log_odds[i], alone.posteriors(shots[i : i + 1]).log_odds[0], atol=1e-3
        )


@pytest.mark.parametrize("method", ["sum_product", "min_sum"])
def test_no_input_gives_nan(method):
    rng = np.random.default_rng(0)
    h = (rng.random((13, 40)) < 0.3).astype(np.uint8)
    h[12] = h[3] ^ h[5]  # so that some syndromes are impossible
    h[4] = 0  # a check without faults
    h[:, 7] = 0  # a fault without checks
    h[6] = 0
    h[6, 2] = 1  # a check on one fault
    priors = 10.0 ** rng.uniform(-12, np.log10(0.5), 40)
    priors[:4] = (1e-12, 0.5, 0.0, 1.0)
    syndromes = rng.integers(0, 2, (64, 13), dtype=np.uint8)
    syndromes[0] = 1
    for iterations in (1, 100):
        bp = BeliefPropagation(sp.csr_array(h), priors, iterations=iterations, method=method)
        assert np.isfinite(bp.posteriors(pack(syndromes)).log_odds).all()
        own = np.where(rng.random((64, 40)) < 0.3, rng.integers(0, 2, (64, 40)), rng.random((64, 40)) ** 20)
        assert np.isfinite(bp.posteriors(pack(syndromes), priors=own).log_odds).all()


def test_the_empty_syndrome_makes_faults_less_likely():
    problem = load_env("surface_d3_depol").problem(0.01)
    bp = BeliefPropagation(problem.h, problem.priors, iterations=8)
    found = bp.posteriors(np.zeros((1, (problem.n_checks + 7) // 8), dtype=np.uint8))
    assert found.satisfied.all()
    assert (found.log_odds > log_odds(problem.priors)).all()


@pytest.mark.parametrize("early_stop", [False, True])
def test_a_shot_does_not_depend_on_threads_or_neighbours(early_stop):
    environment = load_env("surface_d3_depol")
    problem = environment.problem(0.01)
    shots = environment.sampler(0.01).sample(1000, seed=6).detectors
    bp = BeliefPropagation(problem.h, problem.priors, iterations=6, early_stop=early_stop)
    expected = bp.posteriors(shots, threads=1)
    for threads in (2, 3, None):
        found = bp.posteriors(shots, threads=threads)
        np.testing.assert_array_equal(found.log_odds, expected.log_odds)
        np.testing.assert_array_equal(found.satisfied, expected.satisfied)
    with ThreadPoolExecutor(4) as pool:
        for found in pool.map(lambda _: bp.posteriors(shots, threads=2), range(6)):
            np.testing.assert_array_equal(found.log_odds, expected.log_odds)
    order = np.random.default_rng(0).permutation(len(shots))[:333]
    np.testing.assert_array_equal(bp.posteriors(shots[order]).log_odds, expected.log_odds[order])


@pytest.mark.parametrize("n_checks", [1, 7, 8, 9, 17])
def test_any_number_of_checks_and_shots(n_checks):
    rng = np.random.default_rng(n_checks)
    h = (rng.random((n_checks, 12)) < 0.4).astype(np.uint8)
    h[:, :2] = 1  # the reference knows no check on fewer than two faults
    priors = rng.uniform(0.01, 0.3, 12)
    bp = BeliefPropagation(sp.csc_array(h), priors, iterations=3)
    for shots in (0, 1, 16, 17):
        syndromes = rng.integers(0, 2, (shots, n_checks), dtype=np.uint8)
        found = bp.posteriors(pack(syndromes))
        assert found.log_odds.shape == (shots, 12)
        assert found.satisfied.shape == (shots,)
        if shots:
            expected = reference(h, priors, syndromes, 3)
            np.testing.assert_allclose(found.log_odds, expected, atol=1e-3)


def test_input_that_cannot_be_used_is_named():
    h = sp.csr_array(path(5))
    priors = np.full(5, 0.1)
    bp = BeliefPropagation(h, priors, iterations=2)
    shots = np.zeros((40, 1), dtype=np.uint8)
    own = np.full((40, 5), 0.1)
    own[33, 2] = np.nan
    with pytest.raises(InputError, match=r"fault 2 in shot 33 is nan"):
        bp.posteriors(shots, priors=own)
    own[33, 2], own[12, 4] = 0.1, 1.5
    with pytest.raises(InputError, match=r"fault 4 in shot 12 is 1\.5"):
        bp.posteriors(shots, priors=own)
    with pytest.raises(InputError, match=r"shape \(40, 4\)"):
        bp.posteriors(shots, priors=own[:, :4])
    with pytest.raises(InputError, match="expected uint8"):
        bp.posteriors(np.zeros((4, 2), dtype=np.uint8))
    with pytest.raises(InputError, match="threads is 0"):
        bp.posteriors(shots, threads=0)
    with pytest.raises(InputError, match="fault 3 is nan"):
        BeliefPropagation(h, [0.1, 0.1, 0.1, np.nan, 0.1], iterations=2)
    with pytest.raises(InputError, match="0 iterations"):
        BeliefPropagation(h, priors, iterations=0)
    for average in (0, 3):
        with pytest.raises(InputError, match=f"average is {average} of 2 iterations"):
            BeliefPropagation(h, priors, iterations=2, average=average)
    with pytest.raises(InputError, match="stops early"):
        BeliefPropagation(h, priors, iterations=2, average=2, early_stop=True)
    with pytest.raises(InputError, match="no method"):
        BeliefPropagation(h, priors, iterations=2, method="max_product")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="not scaled"):
        BeliefPropagation(h, priors, iterations=2, scaling=0.5)
