"""Ordered statistics against brute force, a slow row-wise reference and ldpc."""

from concurrent.futures import ThreadPoolExecutor
from itertools import combinations, product

import numpy as np
import pytest
import scipy.sparse as sp

from autoqec.decoders.backends.belief_propagation import BeliefPropagation
from autoqec.decoders.backends.ordered_statistics import OrderedStatistics
from autoqec.envs.load import load_env
from autoqec.envs.packing import pack, unpack
from autoqec.errors import InputError

STEANE = np.array([[1, 0, 1, 0, 1, 0, 1], [0, 1, 1, 0, 0, 1, 1], [0, 0, 0, 1, 1, 1, 1]], dtype=np.uint8)
SURFACE_D3 = np.array(
    [
        [1, 1, 0, 1, 1, 0, 0, 0, 0],
        [0, 0, 0, 0, 1, 1, 0, 1, 1],
        [0, 0, 1, 0, 0, 1, 0, 0, 0],
        [0, 0, 0, 1, 0, 0, 1, 0, 0],
    ],
    dtype=np.uint8,
)


def row_wise(h, syndrome, odds):
    """Independent OSD: eliminate the rows of the sorted matrix.

    Returns the pivots, the non-pivots in order, and a function from non-pivot values to the full solution.
    """
    order = np.argsort(odds, kind="stable")
    work = np.hstack([h[:, order], np.eye(len(h), dtype=np.uint8)])
    n = h.shape[1]
    pivots = []
    for j in range(n):
        row = len(pivots)
        candidates = np.flatnonzero(work[row:, j]) + row
        if row == len(h) or not len(candidates):
            continue
        work[[row, candidates[0]]] = work[[candidates[0], row]]
        for i in np.flatnonzero(work[:, j]):
            if i != row:
                work[i] ^= work[row]
        pivots.append(j)
    transform = work[:, n:]
    rest = np.array([j for j in range(n) if j not in set(pivots)], dtype=int)

    def solve(values):
        x = np.zeros(n, dtype=np.uint8)
        x[rest] = values
        x[pivots] = (transform @ (syndrome ^ (h[:, order] @ x % 2)) % 2)[: len(pivots)]
        out = np.zeros(n, dtype=np.uint8)
        out[order] = x
        return out

    return order[pivots], order[rest], solve


def possible_syndromes(rng, h, shots):
    return ((rng.random((shots, h.shape[1])) < 0.3).astype(np.uint8) @ h.T % 2).astype(np.uint8)


def random_case(seed, shots=30):
    """A small H, often of deficient rank, sometimes with empty or repeated columns, and signed log-odds."""
    rng = np.random.default_rng(seed)
    n, m = int(rng.integers(3, 13)), int(rng.integers(1, 9))
    h = (rng.random((m, n)) < rng.choice([0.2, 0.5])).astype(np.uint8)
    if m > 2 and seed % 2:
        h[-1] = h[0] ^ h[1]
    if seed % 3 == 0:
        h[:, 0] = h[:, 1]
    odds = rng.normal(1.0, 2.0, (shots, n))
    return h, possible_syndromes(rng, h, shots), odds


def decoder_of(h, n_observables=1):
    l = np.zeros((n_observables, h.shape[1]), dtype=np.uint8)
    l[:, ::2] = 1
    return OrderedStatistics(sp.csc_array(h), sp.csc_array(l))


def soft_weight(faults, odds):
    return np.where(faults.astype(bool), odds, 0.0).sum(axis=1)


@pytest.mark.parametrize("seed", range(12))
def test_order_0_equals_row_wise_elimination(seed):
    h, syndromes, odds = random_case(seed)
    found = decoder_of(h).decode_to_faults(pack(syndromes), odds)
    faults = unpack(found.faults, h.shape[1])
    for i, syndrome in enumerate(syndromes):
        _, rest, solve = row_wise(h, syndrome, odds[i])
        assert faults[i].tolist() == solve(odds[i][rest] < 0).tolist()
    np.testing.assert_allclose(found.weights, soft_weight(faults, odds), atol=1e-9)


@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_ties_go_to_the_lower_index(kind):
    rng = np.random.default_rng(0)
    h = (rng.random((20, 150)) < 0.2).astype(np.uint8)
    syndromes = possible_syndromes(rng, h, 40)
    odds = rng.integers(-1, 3, (40, 150)).astype(kind)
    odds[odds == 0] *= rng.choice([-1.0, 1.0], (odds == 0).sum())  # 0.0 and -0.0 are the same
    faults = unpack(decoder_of(h).decode_to_faults(pack(syndromes), odds).faults, 150)
    for i, syndrome in enumerate(syndromes):
        _, rest, solve = row_wise(h, syndrome, odds[i])
        assert faults[i].tolist() == solve(odds[i][rest] < 0).tolist()


def test_log_odds_that_differ_only_in_double_precision_are_told_apart():
    rng = np.random.default_rng(0)
    h = (rng.random((20, 150)) < 0.2).astype(np.uint8)
    syndromes = possible_syndromes(rng, h, 40)
    odds = 1.0 + 1e-12 * rng.permuted(np.tile(np.arange(150), (40, 1)), axis=1)
    faults = unpack(decoder_of(h).decode_to_faults(pack(syndromes), odds).faults, 150)
    for i, syndrome in enumerate(syndromes):
        assert faults[i].tolist() == row_wise(h, syndrome, odds[i])[2](0).tolist()


@pytest.mark.parametrize("seed", range(12))
def test_exhaustive_search_over_all_non_pivots_finds_the_lightest_solution(seed):
    h, syndromes, odds = random_case(seed)
    every = np.array(list(product((0, 1), repeat=h.shape[1])), dtype=np.uint8)
    found = decoder_of(h).decode_to_faults(pack(syndromes), odds, order=h.shape[1], method="e")
    faults = unpack(found.faults, h.shape[1])
    assert (faults @ h.T % 2 == syndromes).all()
    for i, syndrome in enumerate(syndromes):
        fits = every[(every @ h.T % 2 == syndrome).all(axis=1)]
        assert found.weights[i] == pytest.approx((fits @ odds[i]).min(), abs=1e-7)
    np.testing.assert_allclose(found.weights, soft_weight(faults, odds), atol=1e-9)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize(("method", "order"), [("e", 1), ("e", 3), ("cs", 1), ("cs", 4), ("cs", 50)])
def test_the_candidates_are_those_of_the_method(seed, method, order):
    h, syndromes, odds = random_case(seed)
    found = decoder_of(h).decode_to_faults(pack(syndromes), odds, order=order, method=method)
    for i, syndrome in enumerate(syndromes):
        _, rest, solve = row_wise(h, syndrome, odds[i])
        first = list(range(len(rest)))[:order]
        if method == "e":
            patterns = [set(c) for k in range(order + 1) for c in combinations(first, k)]
        else:
            patterns = [set(), *({j} for j in range(len(rest))), *map(set, combinations(first, 2))]
        best = min(
            solve([(odds[i][f] < 0) ^ (j in pattern) for j, f in enumerate(rest)]) @ odds[i]
            for pattern in patterns
        )
        assert found.weights[i] == pytest.approx(best, abs=1e-7)


@pytest.mark.parametrize("seed", range(4))
def test_candidates_may_be_weighed_with_something_else_than_they_are_ordered_by(seed):
    h, syndromes, odds = random_case(seed)
    n = h.shape[1]
    weights = np.random.default_rng(seed).normal(2.0, 2.0, n)
    every = np.array(list(product((0, 1), repeat=n)), dtype=np.uint8)
    decoder = decoder_of(h)
    first = decoder.decode_to_faults(pack(syndromes), odds, weights=weights)
    plain = decoder.decode_to_faults(pack(syndromes), odds)
    assert (first.faults == plain.faults).all()  # order 0 has one candidate
    np.testing.assert_allclose(first.weights, unpack(plain.faults, n) @ weights, atol=1e-9)
    best = decoder.decode_to_faults(pack(syndromes), odds, order=n, method="e", weights=weights)
    assert (unpack(best.faults, n) @ h.T % 2 == syndromes).all()
    for i, syndrome in enumerate(syndromes):
        fits = every[(every @ h.T % 2 == syndrome).all(axis=1)]
        if (h @ (odds[i] < 0) % 2 == syndrome).all():  # the hard decision is final
            fits = fits[(fits == (odds[i] < 0)).all(axis=1)]
        assert best.weights[i] == pytest.approx((fits @ weights).min(), abs=1e-7)


@pytest.mark.parametrize("h", [STEANE, SURFACE_D3], ids=["steane", "surface d=3"])
def test_small_codes_against_all_fault_sets(h):
    n = h.shape[1]
    every = np.array(list(product((0, 1), repeat=n)), dtype=np.uint8)
    syndromes = np.unique(every @ h.T % 2, axis=0).astype(np.uint8)
    rng = np.random.default_rng(3)
    decoder = OrderedStatistics(sp.csc_array(h), sp.csc_array(np.ones((1, n), dtype=np.uint8)))
    for _ in range(20):
        odds = rng.exponential(3.0, n) * rng.choice([-1, 1, 1, 1], n)
        found = decoder.decode_to_faults(pack(syndromes), odds, order=n - decoder.rank, method="e")
        observables = decoder.decode(pack(syndromes), odds, order=n - decoder.rank, method="e")
        for i, syndrome in enumerate(syndromes):
            fits = every[(every @ h.T % 2 == syndrome).all(axis=1)]
            best = fits[(fits @ odds).argmin()]
            assert unpack(found.faults, n)[i].tolist() == best.tolist()
            assert observables[i, 0] == best.sum() % 2


def one_half():
    """BB72 with the detectors that ordered statistics decode, and no others."""
    spec = load_env("bb72_depol").spec.model_dump(mode="json")
    spec["eval_protocol"]["osd_bases"] = "observable"
    return load_env(spec)


@pytest.fixture(scope="module")
def bb72():
    environment = one_half()
    problem = environment.problem(0.003)
    shots = environment.sampler(0.003).sample(800, seed=7)
    bp = BeliefPropagation(problem.h, problem.priors, iterations=30, early_stop=True)
    return problem, shots, bp.posteriors(shots.detectors)


def test_circuit_noise_corrections_fit_and_higher_orders_are_never_heavier(bb72):
    problem, shots, beliefs = bb72
    decoder = OrderedStatistics(problem.h, problem.l)
    assert decoder.rank < problem.n_checks
    weights = {}
    for name, order, method in (("0", 0, "cs"), ("e", 8, "e"), ("cs1", 1, "cs"), ("cs10", 10, "cs")):
        found = decoder.decode_to_faults(shots.detectors, beliefs.log_odds, order=order, method=method)
        faults = unpack(found.faults, problem.n_faults)
        assert (pack(faults @ problem.h.T.toarray() % 2) == shots.detectors).all()
        np.testing.assert_allclose(found.weights, soft_weight(faults, beliefs.log_odds), atol=1e-2)
        predicted = decoder.decode(shots.detectors, beliefs.log_odds, order=order, method=method)
        assert (predicted == pack(faults @ problem.l.T.toarray() % 2)).all()
        weights[name] = found.weights
    slack = 1e-6
    assert (weights["e"] <= weights["0"] + slack).all()
    assert (weights["cs1"] <= weights["0"] + slack).all()
    assert (weights["cs10"] <= weights["cs1"] + slack).all()
    assert (weights["cs10"] < weights["0"] - 0.1).sum() > 20
    fits = beliefs.satisfied
    hard = pack(beliefs.log_odds[fits] < 0)
    assert (decoder.decode_to_faults(shots.detectors[fits], beliefs.log_odds[fits]).faults == hard).all()


def test_order_0_equals_row_wise_elimination_under_circuit_noise(bb72):
    problem, shots, beliefs = bb72
    decoder = OrderedStatistics(problem.h, problem.l)
    h = problem.h.toarray()
    hard = np.flatnonzero(~beliefs.satisfied)[:4]
    found = decoder.decode_to_faults(shots.detectors[hard], beliefs.log_odds[hard])
    for i, shot in enumerate(hard):
        odds = beliefs.log_odds[shot]
        _, rest, solve = row_wise(h, unpack(shots.detectors[shot : shot + 1], problem.n_checks)[0], odds)
        assert unpack(found.faults, problem.n_faults)[i].tolist() == solve(odds[rest] < 0).tolist()


def ldpc_decoder(problem, **options):
    from ldpc import BpOsdDecoder

    return BpOsdDecoder(
        sp.csr_matrix(problem.h),
        error_channel=problem.priors.tolist(),
        max_iter=30,
        bp_method="product_sum",
        **options,
    )


def test_on_the_log_odds_of_ldpc_order_0_gives_its_correction(bb72):
    """ldpc starts all non-pivot faults at 0, we start them at their hard decision. Raising all log-odds above
    zero keeps the order and makes the two the same; without that they differ now and then on a fault, and (on
    these shots) not on an observable."""
    problem, shots, beliefs = bb72
    ldpc = ldpc_decoder(problem, osd_method="osd_0", osd_order=0)
    chosen = np.concatenate([np.flatnonzero(~beliefs.satisfied)[:80], np.flatnonzero(beliefs.satisfied)[:40]])
    corrections, odds, converged = [], [], []
    for syndrome in unpack(shots.detectors[chosen], problem.n_checks):
        corrections.append(ldpc.decode(syndrome).copy())
        odds.append(np.array(ldpc.log_prob_ratios))
        converged.append(ldpc.converge)
    corrections, odds, converged = np.array(corrections), np.array(odds), np.array(converged)
    detectors = shots.detectors[chosen]
    decoder = OrderedStatistics(problem.h, problem.l)

    finite = (
        np.isfinite(odds).all(axis=1) & ~converged
    )  # equal infinities are ties, which ldpc breaks its own way
    assert finite.sum() > 20
    raised = odds[finite] - odds[finite].min(axis=1, keepdims=True) + 1.0
    faults = unpack(decoder.decode_to_faults(detectors[finite], raised).faults, problem.n_faults)
    assert (faults == corrections[finite]).all()

    known = ~np.isnan(odds).any(axis=1)
    found = decoder.decode_to_faults(detectors[known], odds[known])
    faults = unpack(found.faults, problem.n_faults)
    assert (faults == corrections[known]).all(axis=1).mean() > 0.8
    l = problem.l.T.toarray()
    assert (faults @ l % 2 == corrections[known] @ l % 2).all(axis=1).mean() > 0.95


@pytest.mark.parametrize(("theirs", "method", "order"), [("osd_cs", "cs", 10), ("osd_e", "e", 6)])
def test_with_channel_weights_higher_orders_find_the_weight_that_ldpc_finds(bb72, theirs, method, order):
    problem, shots, beliefs = bb72
    ldpc = ldpc_decoder(problem, osd_method=theirs, osd_order=order)
    detectors = shots.detectors[~beliefs.satisfied][:30]
    corrections, odds = [], []
    for syndrome in unpack(detectors, problem.n_checks):
        corrections.append(ldpc.decode(syndrome).copy())
        odds.append(np.array(ldpc.log_prob_ratios))
    odds = np.array(odds)
    finite = np.isfinite(odds).all(axis=1)
    assert finite.sum() > 10
    raised = odds[finite] - odds[finite].min(axis=1, keepdims=True) + 1.0
    weights = -np.log(problem.priors)
    decoder = OrderedStatistics(problem.h, problem.l)
    found = decoder.decode_to_faults(detectors[finite], raised, order=order, method=method, weights=weights)
    np.testing.assert_allclose(found.weights, np.array(corrections)[finite] @ weights)


@pytest.mark.slow
def test_logical_error_rate_is_that_of_ldpc():
    environment = one_half()
    problem = environment.problem(0.003)
    shots = environment.sampler(0.003).sample(2500, seed=21)
    bp = BeliefPropagation(problem.h, problem.priors, iterations=30, early_stop=True)
    decoder = OrderedStatistics(problem.h, problem.l)
    odds = bp.posteriors(shots.detectors).log_odds
    ldpc = ldpc_decoder(problem, osd_method="osd_0", osd_order=0)
    syndromes = unpack(shots.detectors, problem.n_checks)
    theirs = np.array([ldpc.decode(s).copy() for s in syndromes]) @ problem.l.T.toarray() % 2
    wrong = (decoder.decode(shots.detectors, odds) != shots.observables).any(axis=1)
    wrong_ldpc = (pack(theirs) != shots.observables).any(axis=1)
    only_us, only_ldpc = (wrong & ~wrong_ldpc).sum(), (wrong_ldpc & ~wrong).sum()
    assert wrong.sum() > 50
    assert abs(only_us - only_ldpc) <= 4 * np.sqrt(only_us + only_ldpc + 1)
    swept = (decoder.decode(shots.detectors, odds, order=10) != shots.observables).any(axis=1)
    assert swept.sum() < 0.8 * wrong.sum()


@pytest.mark.parametrize("order", [0, 5])
def test_a_shot_does_not_depend_on_threads_or_neighbours(bb72, order):
    problem, shots, beliefs = bb72
    decoder = OrderedStatistics(problem.h, problem.l)
    expected = decoder.decode_to_faults(shots.detectors, beliefs.log_odds, order=order, threads=1)
    for threads in (2, 5, None):
        found = decoder.decode_to_faults(shots.detectors, beliefs.log_odds, order=order, threads=threads)
        assert (found.faults == expected.faults).all()
        assert (found.weights == expected.weights).all()
    with ThreadPoolExecutor(4) as pool:
        again = pool.map(
            lambda _: decoder.decode_to_faults(shots.detectors, beliefs.log_odds, order=order, threads=2),
            range(6),
        )
        assert all((found.faults == expected.faults).all() for found in again)
    for i in (3, 500):
        one = decoder.decode_to_faults(shots.detectors[i : i + 1], beliefs.log_odds[i : i + 1], order=order)
        assert (one.faults[0] == expected.faults[i]).all()


@pytest.mark.parametrize(("order", "method"), [(0, "cs"), (4, "cs"), (4, "e")])
def test_common_log_odds_are_as_good_as_repeated_ones(order, method):
    rng = np.random.default_rng(9)
    h = (rng.random((30, 90)) < 0.15).astype(np.uint8)
    syndromes = pack(possible_syndromes(rng, h, 200))
    odds = rng.normal(2.0, 2.0, 90)
    decoder = decoder_of(h)
    common = decoder.decode_to_faults(syndromes, odds, order=order, method=method)
    repeated = decoder.decode_to_faults(syndromes, np.tile(odds, (200, 1)), order=order, method=method)
    assert (common.faults == repeated.faults).all()
    np.testing.assert_allclose(common.weights, repeated.weights)


def test_the_best_of_a_logical_class_comes_from_stacking_observables_under_checks():
    rng = np.random.default_rng(2)
    h, l = SURFACE_D3, np.array([[1, 0, 0, 1, 0, 0, 1, 0, 0]], dtype=np.uint8)
    stacked = np.vstack([h, l])
    decoder = OrderedStatistics(sp.csc_array(stacked), sp.csc_array(l))
    syndromes = possible_syndromes(rng, h, 20)
    odds = rng.exponential(2.0, (20, 9))
    every = np.array(list(product((0, 1), repeat=9)), dtype=np.uint8)
    for flipped in (0, 1):
        asked = np.hstack([syndromes, np.full((20, 1), flipped, dtype=np.uint8)])
        found = decoder.decode_to_faults(pack(asked), odds, order=9, method="e")
        for i in range(20):
            fits = every[(every @ stacked.T % 2 == asked[i]).all(axis=1)]
            assert found.weights[i] == pytest.approx((fits @ odds[i]).min())


@pytest.mark.parametrize("n_checks", [1, 8, 63, 64, 65, 130])
@pytest.mark.parametrize("n_observables", [0, 1, 9])
def test_any_number_of_checks_observables_and_shots(n_checks, n_observables):
    rng = np.random.default_rng(n_checks)
    h = (rng.random((n_checks, 2 * n_checks + 3)) < 0.2).astype(np.uint8)
    decoder = decoder_of(h, n_observables)
    for shots in (0, 1, 9):
        syndromes = possible_syndromes(rng, h, shots)
        odds = rng.normal(2.0, 2.0, (shots, h.shape[1])).astype(np.float32)
        for order in (0, 3):
            found = decoder.decode_to_faults(pack(syndromes), odds, order=order)
            faults = unpack(found.faults, h.shape[1])
            assert (faults @ h.T % 2 == syndromes).all()
            predicted = decoder.decode(pack(syndromes), odds, order=order)
            assert predicted.shape == (shots, (n_observables + 7) // 8)
            assert (unpack(predicted, n_observables) == faults[:, ::2].sum(axis=1, keepdims=True) % 2).all()


def test_zero_syndrome_with_unlikely_faults_needs_no_correction():
    decoder = decoder_of(STEANE)
    found = decoder.decode_to_faults(np.zeros((3, 1), dtype=np.uint8), np.full(7, 2.0), order=3)
    assert not found.faults.any()
    assert not found.weights.any()


def test_infinite_log_odds_rule_faults_in_or_out():
    decoder = decoder_of(STEANE)
    odds = np.full((1, 7), 1.0)
    odds[0, 6] = np.inf  # column 6 is (1, 1, 1): the lightest explanation of the syndrome, were it possible
    found = decoder.decode_to_faults(np.array([[7]], dtype=np.uint8), odds, order=4, method="e")
    assert not found.faults[0, 0] & 64
    odds[0, 6] = -np.inf
    found = decoder.decode_to_faults(np.array([[7]], dtype=np.uint8), odds)
    assert found.faults[0, 0] == 64
    assert np.isfinite(found.weights).all()


@pytest.mark.parametrize("threads", [1, 3])
def test_a_syndrome_that_no_fault_set_has_is_named(threads):
    h = np.array([[1, 1, 0], [0, 1, 1], [1, 0, 1]], dtype=np.uint8)  # rank 2: syndromes have even weight
    decoder = decoder_of(h)
    assert decoder.rank == 2
    detectors = np.zeros((1000, 1), dtype=np.uint8)
    detectors[[421, 777]] = 1
    for order in (0, 1):
        with pytest.raises(InputError, match=r"syndrome of shot 421\b.*rank 2 of 3"):
            decoder.decode(detectors, np.ones((1000, 3)), order=order, threads=threads)
    with pytest.raises(InputError, match=r"syndrome of shot 421\b"):
        decoder.decode(detectors, np.ones(3), threads=threads)


def test_input_that_cannot_be_used_is_named():
    decoder = decoder_of(STEANE)
    detectors = np.zeros((300, 1), dtype=np.uint8)
    odds = np.ones((300, 7), dtype=np.float32)
    odds[[123, 250], 5] = np.nan
    with pytest.raises(InputError, match="fault 5 in shot 123 are not a number"):
        decoder.decode(detectors, odds, threads=2)
    with pytest.raises(InputError, match=r"shape \(299, 7\) for 300 shots"):
        decoder.decode(detectors, odds[:299])
    with pytest.raises(InputError, match="expected uint8"):
        decoder.decode(np.zeros((300, 2), dtype=np.uint8), odds)
    with pytest.raises(InputError, match="order is -1"):
        decoder.decode(detectors, odds, order=-1)
    with pytest.raises(InputError, match=r"weights of shape \(6,\)"):
        decoder.decode(detectors, np.ones(7), weights=np.ones(6))
    with pytest.raises(InputError, match="no method 'x'"):
        decoder.decode(detectors, odds, method="x")  # type: ignore[arg-type]
    with pytest.raises(InputError, match=r"2\*\*30 candidates"):
        decoder_of(np.ones((1, 31), dtype=np.uint8)).decode(
            np.zeros((1, 1), dtype=np.uint8), np.ones(31), order=30, method="e"
        )
    with pytest.raises(InputError, match="columns"):
        OrderedStatistics(sp.csc_array(STEANE), sp.csc_array(np.ones((1, 6), dtype=np.uint8)))


def test_a_model_without_faults_explains_only_the_empty_syndrome():
    decoder = OrderedStatistics(sp.csc_array((3, 0), dtype=np.uint8), sp.csc_array((1, 0), dtype=np.uint8))
    assert decoder.decode(np.zeros((2, 1), dtype=np.uint8), np.zeros((2, 0))).tolist() == [[0], [0]]
    with pytest.raises(InputError, match="shot 1"):
        decoder.decode(np.array([[0], [1]], dtype=np.uint8), np.zeros((2, 0)))
