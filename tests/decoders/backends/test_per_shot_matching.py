"""PerShotMatcher against PyMatching, NetworkX and plain enumeration."""

from __future__ import annotations

import multiprocessing
import pickle
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor

import networkx as nx
import numpy as np
import pymatching
import pytest
import scipy.sparse as sp
import stim

from autoqec.decoders.backends._kernels import matching_engine
from autoqec.decoders.backends._kernels.matching_state import ARRIVED, LINK, make_arena
from autoqec.decoders.backends.per_shot_matching import PerShotMatcher
from autoqec.envs.dem import fault_matrices, matching_graph
from autoqec.envs.problem import BOUNDARY, MatchingGraph, log_odds
from autoqec.errors import InputError


def memory(d, p, rounds=None, task="surface_code:rotated_memory_z"):
    circuit = stim.Circuit.generated(
        task,
        distance=d,
        rounds=rounds or d,
        after_clifford_depolarization=p,
        before_round_data_depolarization=p,
        before_measure_flip_probability=p,
        after_reset_flip_probability=p,
    )
    dem = circuit.detector_error_model(decompose_errors=True)
    return circuit, matching_graph(dem, fault_matrices(dem), where="test")


def sample(circuit, shots, seed=0):
    return circuit.compile_detector_sampler(seed=seed).sample(shots, bit_packed=True)


def pack(bits):
    return np.packbits(np.asarray(bits, dtype=np.uint8), axis=-1, bitorder="little")


def unpack(packed, n):
    return np.unpackbits(packed, axis=-1, bitorder="little", count=n)


def incidence(n, ends):
    """[n, n_edges] which detectors each edge flips."""
    e = np.arange(len(ends))
    inside = ends[:, 1] >= 0
    rows = np.concatenate([ends[:, 0], ends[inside, 1]])
    columns = np.concatenate([e, e[inside]])
    return sp.csc_array((np.ones(len(rows), dtype=np.int64), (rows, columns)), shape=(n, len(ends)))


def lognormal_weights(graph, shots, seed=0, sigma=0.5):
    noise = np.random.default_rng(seed).lognormal(0, sigma, (shots, graph.n_edges))
    return log_odds(graph.priors) * noise


def bernoulli_weights(graph, shots, seed=0):
    """Like posteriors of a predecoder: mostly positive, some edges likelier flipped than not."""
    rng = np.random.default_rng(seed)
    weights = lognormal_weights(graph, shots, seed)
    return np.where(rng.random(weights.shape) < 0.02, -0.7, 1.0) * weights


def solve_and_check(matcher, defects, weights):
    """Decode to edges; the corrections must explain the defects and carry the weight and observables stated."""
    defects, weights = np.asarray(defects), np.asarray(weights)
    solutions = matcher.decode_to_edges(pack(defects), weights, threads=1)
    edges = unpack(solutions.edges, matcher.n_edges)
    h = incidence(matcher.n_detectors, matcher.ends)
    np.testing.assert_array_equal((h @ edges.T).T % 2, defects)
    np.testing.assert_allclose(
        solutions.weights, np.where(edges, weights, 0).sum(axis=1), rtol=1e-12, atol=1e-12
    )
    flips = pack(edges.astype(np.int64) @ matcher.observables % 2)
    np.testing.assert_array_equal(solutions.observables, flips)
    np.testing.assert_array_equal(matcher.decode(pack(defects), weights, threads=1), flips)
    return solutions.weights


def pymatching_weights(n, ends, defects, weights):
    """Weight of PyMatching's correction, one Matching per shot. It rounds weights to a grid of its own."""
    h = incidence(n, ends)
    found = []
    for syndrome, w in zip(defects, weights, strict=True):
        edges = pymatching.Matching.from_check_matrix(h, weights=w).decode(syndrome)
        found.append(w[edges.astype(bool)].sum())
    return np.array(found)


def reference_weight(n, ends, defects, weights):
    """Exact optimum of one shot on any multigraph: shortest paths between defects, then NetworkX's blossom."""
    boundary = n
    shortest = nx.Graph()
    shortest.add_nodes_from(range(n + 1))
    odd = defects.astype(bool)
    total = 0.0
    for (u, v), w in zip(ends.tolist(), weights.tolist(), strict=True):
        v = boundary if v == BOUNDARY else v
        if w < 0:
            total += w
            odd[u] ^= True
            if v != boundary:
                odd[v] ^= True
        if np.isfinite(w):
            shortest.add_edge(
                u, v, weight=min(abs(w), shortest.get_edge_data(u, v, {"weight": abs(w)})["weight"])
            )
    ends_of_paths = np.flatnonzero(odd).tolist()
    if len(ends_of_paths) % 2:
        ends_of_paths.append(boundary)
    complete = nx.Graph()
    for i in ends_of_paths:
        distance = nx.single_source_dijkstra_path_length(shortest, i)
        complete.add_weighted_edges_from(
            (i, j, distance[j]) for j in ends_of_paths if j < i and j in distance
        )
    pairs = nx.min_weight_matching(complete)
    assert 2 * len(pairs) == len(ends_of_paths)
    return total + sum(complete.edges[pair]["weight"] for pair in pairs)


def all_corrections(n, ends, syndrome):
    """[many, n_edges] every edge set that explains the syndrome. For small graphs."""
    h = incidence(n, ends).toarray() % 2
    sets = (np.arange(1 << len(ends))[:, None] >> np.arange(len(ends))) & 1
    return sets[((sets @ h.T) % 2 == syndrome).all(axis=1)]


def random_graph(rng, n, n_edges, *, boundary=0.3, n_observables=1):
    """Any multigraph; parallel edges and several components do occur."""
    u = rng.integers(0, n, n_edges)
    v = (u + rng.integers(1, n, n_edges)) % n
    v = np.where(rng.random(n_edges) < boundary, BOUNDARY, v)
    ends = np.stack([u, v], axis=1).astype(np.int32)
    return PerShotMatcher(n, ends, rng.random((n_edges, n_observables)) < 0.5)


def random_defects(rng, matcher, shots):
    """Defects that some set of edges explains."""
    faults = rng.random((shots, matcher.n_edges)) < rng.uniform(0.05, 0.5)
    return (incidence(matcher.n_detectors, matcher.ends) @ faults.T.astype(np.int64)).T % 2


def random_weights(rng, shape, kind):
    if kind == "float":
        return rng.exponential(1.0, shape)
    if kind == "signed":
        return rng.normal(0.5, 1.0, shape)
    if kind == "ties":
        return rng.integers(0, 3, shape).astype(float)
    if kind == "zero":
        return np.zeros(shape)
    return np.where(rng.random(shape) < 0.5, 0.0, rng.integers(-2, 5, shape)) * 1.0


KINDS = ["float", "signed", "ties", "zero", "signed ties"]


@pytest.mark.parametrize(
    ("d", "shots"), [(3, 200), (5, 60), (7, 25), pytest.param(9, 10, marks=pytest.mark.slow)]
)
@pytest.mark.parametrize("make", [lognormal_weights, bernoulli_weights])
def test_same_optimum_as_pymatching_on_surface_codes(d, shots, make):
    for p in (0.003, 0.03):
        circuit, graph = memory(d, p)
        matcher = PerShotMatcher.from_graph(graph, circuit.num_detectors)
        defects = unpack(sample(circuit, shots, seed=d), circuit.num_detectors)
        weights = make(graph, shots, seed=d)
        ours = solve_and_check(matcher, defects, weights)
        theirs = pymatching_weights(matcher.n_detectors, graph.ends, defects, weights)
        assert (ours <= theirs + 1e-6).all()
        np.testing.assert_allclose(ours, theirs, atol=1e-3)


@pytest.mark.parametrize("kind", KINDS)
def test_exact_on_random_graphs(kind):
    rng = np.random.default_rng(KINDS.index(kind))
    for _ in range(25):
        n = int(rng.integers(2, 20))
        matcher = random_graph(rng, n, int(rng.integers(1, 4 * n)), boundary=rng.choice([0.0, 0.1, 0.5]))
        defects = random_defects(rng, matcher, 4)
        weights = random_weights(rng, (4, matcher.n_edges), kind)
        ours = solve_and_check(matcher, defects, weights)
        best = [reference_weight(n, matcher.ends, x, w) for x, w in zip(defects, weights, strict=True)]
        np.testing.assert_allclose(ours, best, atol=1e-8)


@pytest.mark.parametrize("kind", ["float", "ties"])
def test_exact_with_many_defects_in_one_cluster(kind):
    """Dense graphs in which every detector fires: nested blossoms, inner blossoms that break up."""
    rng = np.random.default_rng(5)
    for n in (30, 37, 44):
        matcher = random_graph(rng, n, 8 * n, boundary=0.0 if n % 2 == 0 else 0.02)
        weights = random_weights(rng, (3, matcher.n_edges), kind)
        ours = solve_and_check(matcher, np.ones((3, n), dtype=np.uint8), weights)
        best = [reference_weight(n, matcher.ends, np.ones(n, dtype=np.uint8), w) for w in weights]
        np.testing.assert_allclose(ours, best, atol=1e-8)


@pytest.mark.parametrize("d", [5, 7])
def test_all_detectors_of_a_surface_code_fire(d):
    circuit, graph = memory(d, 0.01)
    n = circuit.num_detectors
    matcher = PerShotMatcher.from_graph(graph, n)
    defects = np.ones((8, n), dtype=np.uint8)
    defects[4:] = np.random.default_rng(1).random((4, n)) < 0.5
    weights = lognormal_weights(graph, 8, sigma=1.0)
    ours = solve_and_check(matcher, defects, weights)
    theirs = pymatching_weights(n, graph.ends, defects, weights)
    assert (ours <= theirs + 1e-6).all()
    np.testing.assert_allclose(ours, theirs, atol=3e-3)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_exact_on_many_random_graphs(kind):
    rng = np.random.default_rng(100 + KINDS.index(kind))
    for _ in range(400):
        n = int(rng.integers(2, 40))
        matcher = random_graph(rng, n, int(rng.integers(1, 5 * n)), boundary=rng.choice([0.0, 0.05, 0.3]))
        defects = random_defects(rng, matcher, 3)
        weights = random_weights(rng, (3, matcher.n_edges), kind)
        ours = solve_and_check(matcher, defects, weights)
        best = [reference_weight(n, matcher.ends, x, w) for x, w in zip(defects, weights, strict=True)]
        np.testing.assert_allclose(ours, best, atol=1e-8)


@pytest.mark.slow
@pytest.mark.parametrize(("d", "shots"), [(5, 4000), (7, 1500), (9, 500)])
def test_same_optimum_as_pymatching_on_many_shots(d, shots):
    circuit, graph = memory(d, 0.008)
    matcher = PerShotMatcher.from_graph(graph, circuit.num_detectors)
    defects = unpack(sample(circuit, shots, seed=d), circuit.num_detectors)
    weights = lognormal_weights(graph, shots, seed=d)
    ours = solve_and_check(matcher, defects, weights)
    theirs = pymatching_weights(matcher.n_detectors, graph.ends, defects, weights)
    assert (ours <= theirs + 1e-6).all()
    np.testing.assert_allclose(ours, theirs, atol=1e-3)


@pytest.mark.parametrize(("n", "n_observables"), [(1, 0), (7, 1), (8, 9), (9, 2), (16, 8)])
def test_packed_widths(n, n_observables):
    rng = np.random.default_rng(n)
    ends = np.array([(i, BOUNDARY) for i in range(n)] + [(i, i + 1) for i in range(n - 1)], dtype=np.int32)
    matcher = PerShotMatcher(n, ends, rng.random((len(ends), n_observables)) < 0.5)
    weights = rng.exponential(1.0, (20, len(ends)))
    defects = rng.integers(0, 2, (20, n), dtype=np.uint8)
    solve_and_check(matcher, defects, weights)
    assert matcher.decode(pack(defects), weights).shape == (20, (n_observables + 7) // 8)


def test_parallel_edges_use_the_cheaper_one_of_the_shot():
    ends = np.array([(0, BOUNDARY), (0, BOUNDARY)], dtype=np.int32)
    matcher = PerShotMatcher(1, ends, np.array([[False], [True]]))
    weights = np.array([[1.0, 2.0], [2.0, 1.0], [-1.0, -2.0]])
    np.testing.assert_array_equal(matcher.decode(pack([[1], [1], [1]]), weights), [[0], [1], [1]])
    # Without a defect two negative edges are both taken: their ends cancel.
    assert matcher.decode_to_edges(pack([[0]]), weights[2:]).weights == pytest.approx([-3.0])


def test_zero_shots_and_empty_graphs():
    matcher = PerShotMatcher(9, np.array([[0, 8]], dtype=np.int32), np.zeros((1, 3), dtype=bool))
    none = np.zeros((0, 2), dtype=np.uint8)
    assert matcher.decode(none, np.zeros((0, 1))).shape == (0, 1)
    assert matcher.decode(none, np.ones(1)).shape == (0, 1)
    assert matcher.decode_to_edges(none, np.zeros((0, 1))).edges.shape == (0, 1)
    assert matcher.logical_classes(none, np.zeros((0, 1))).gap.shape == (0,)
    bare = PerShotMatcher(0, np.zeros((0, 2), dtype=np.int32), np.zeros((0, 1), dtype=bool))
    np.testing.assert_array_equal(bare.decode(np.zeros((3, 0), dtype=np.uint8), np.zeros((3, 0))), [[0]] * 3)
    np.testing.assert_array_equal(bare.decode(np.zeros((3, 0), dtype=np.uint8), np.zeros(0)), [[0]] * 3)


def test_a_negative_edge_is_taken_back_if_that_is_cheaper_than_its_defects():
    circuit, graph = memory(3, 0.01)
    matcher = PerShotMatcher.from_graph(graph, circuit.num_detectors)
    quiet = np.zeros((2, 3), dtype=np.uint8)
    weights = np.ones((2, graph.n_edges))
    edge = int(np.flatnonzero(graph.ends[:, 1] == BOUNDARY)[0])
    assert matcher.decode_to_edges(quiet, weights).weights.tolist() == [0.0, 0.0]
    weights[1, edge] = -0.25
    assert matcher.decode_to_edges(quiet, weights).weights.tolist() == [0.0, 0.0]


def test_infinite_weight_means_never():
    rng = np.random.default_rng(3)
    for _ in range(20):
        matcher = random_graph(rng, 10, 30, boundary=0.4)
        keep = rng.random(30) < 0.7
        rest = PerShotMatcher(10, matcher.ends[keep], matcher.observables[keep])
        defects = random_defects(rng, rest, 5)
        weights = rng.exponential(1.0, (5, 30))
        expected = solve_and_check(rest, defects, weights[:, keep])
        weights[:, ~keep] = np.inf
        np.testing.assert_allclose(solve_and_check(matcher, defects, weights), expected)


def test_shared_weights_and_precision_do_not_change_the_answer():
    circuit, graph = memory(5, 0.01)
    matcher = PerShotMatcher.from_graph(graph, circuit.num_detectors)
    shots = sample(circuit, 300)
    weights = log_odds(graph.priors).astype(np.float32)
    expected = matcher.decode(shots, np.tile(weights.astype(np.float64), (300, 1)))
    np.testing.assert_array_equal(matcher.decode(shots, weights), expected)
    shots.flags.writeable = False
    np.testing.assert_array_equal(matcher.decode(shots, np.tile(weights, (300, 1))), expected)
    np.testing.assert_array_equal(
        np.concatenate([matcher.decode(s[None], weights) for s in shots[:50]]), expected[:50]
    )


def test_arena_grows_when_a_shot_needs_more(monkeypatch):
    circuit, graph = memory(5, 0.05)
    n = circuit.num_detectors
    shots = sample(circuit, 50)
    weights = lognormal_weights(graph, 50)
    expected = PerShotMatcher.from_graph(graph, n).decode_to_edges(shots, weights)
    sizes = []

    def tiny_arena(n, n_edges, growth=1):
        sizes.append(growth)
        return make_arena(n, n_edges, growth)._replace(
            link=np.zeros(LINK * 8 * growth, dtype=np.int64),
            record=np.zeros(ARRIVED * (n + growth), dtype=np.int64),
        )

    monkeypatch.setattr(matching_engine, "make_arena", tiny_arena)
    found = PerShotMatcher.from_graph(graph, n).decode_to_edges(shots, weights)
    assert max(sizes) > 1
    np.testing.assert_array_equal(found.edges, expected.edges)


def test_threads_and_processes_agree():
    circuit, graph = memory(5, 0.01)
    matcher = PerShotMatcher.from_graph(graph, circuit.num_detectors)
    shots = sample(circuit, 1000)
    weights = bernoulli_weights(graph, 1000)
    expected = matcher.decode_to_edges(shots, weights, threads=1)
    for threads in (2, 3, None):
        np.testing.assert_array_equal(
            matcher.decode_to_edges(shots, weights, threads=threads).edges, expected.edges
        )
    with ThreadPoolExecutor(4) as pool:
        calls = [pool.submit(matcher.decode_to_edges, shots, weights, threads=1 + i % 2) for i in range(8)]
        for call in calls:
            np.testing.assert_array_equal(call.result().edges, expected.edges)
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as processes:
        remote = processes.submit(matcher.decode, shots, weights).result()
    np.testing.assert_array_equal(remote, expected.observables)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(matcher)).decode(shots, weights), remote)


def brute_force_classes(matcher, defects, weights, observable):
    """[shots, 2] least weight per value of the observable, infinite where there is none."""
    best = np.full((len(defects), 2), np.inf)
    for s, syndrome in enumerate(defects):
        sets = all_corrections(matcher.n_detectors, matcher.ends, syndrome)
        totals = np.where(sets, weights[s], 0.0).sum(axis=1)
        flips = sets @ matcher.observables[:, observable] % 2
        for value in (0, 1):
            if (flips == value).any():
                best[s, value] = totals[flips == value].min()
    return best


def check_classes(matcher, defects, weights, observable=0):
    """Each class has a correction with the right syndrome, observable and weight; the better one is the optimum."""
    classes = matcher.logical_classes(pack(defects), weights, observable=observable, threads=1)
    edges = unpack(classes.edges, matcher.n_edges).astype(np.int64)
    h = incidence(matcher.n_detectors, matcher.ends)
    flips = edges @ matcher.observables[:, observable]
    for value in (0, 1):
        there = np.isfinite(classes.weights[:, value])
        mine = edges[there, value]
        np.testing.assert_array_equal((h @ mine.T).T % 2, defects[there])
        assert (flips[there, value] % 2 == value).all()
        totals = np.where(mine, weights[there], 0.0).sum(axis=1)
        np.testing.assert_allclose(classes.weights[there, value], totals, atol=1e-12)
        assert not edges[~there, value].any()
    best = matcher.decode_to_edges(pack(defects), weights, threads=1).weights
    np.testing.assert_allclose(classes.weights.min(axis=1), best, atol=1e-8)
    np.testing.assert_array_equal(classes.gap, classes.weights[:, 1] - classes.weights[:, 0])
    return classes.weights


@pytest.mark.parametrize("kind", KINDS)
def test_logical_classes_against_enumeration(kind):
    """Random gauges put the observable on edges between detectors too; some classes have no correction."""
    rng = np.random.default_rng(KINDS.index(kind))
    for _ in range(15):
        n = int(rng.integers(2, 7))
        matcher = random_graph(
            rng, n, int(rng.integers(1, 12)), boundary=rng.choice([0.1, 0.5]), n_observables=2
        )
        gauge = rng.random(n) < 0.5
        at_boundary = (matcher.ends[:, 1] == BOUNDARY) & (rng.random(matcher.n_edges) < 0.5)
        masks = matcher.observables.copy()
        masks[:, 1] = at_boundary ^ gauge[matcher.ends[:, 0]]
        masks[:, 1] ^= gauge[matcher.ends[:, 1]] & (matcher.ends[:, 1] != BOUNDARY)
        matcher = PerShotMatcher(n, matcher.ends, masks)
        defects = random_defects(rng, matcher, 4)
        weights = random_weights(rng, (4, matcher.n_edges), kind)
        expected = brute_force_classes(matcher, defects, weights, observable=1)
        np.testing.assert_allclose(
            check_classes(matcher, defects, weights, observable=1), expected, atol=1e-8
        )


def test_logical_classes_of_a_small_code_against_enumeration():
    circuit, graph = memory(3, 0.02, rounds=2, task="repetition_code:memory")
    matcher = PerShotMatcher.from_graph(graph, circuit.num_detectors)
    assert matcher.n_edges <= 18
    defects = unpack(sample(circuit, 12), circuit.num_detectors)
    weights = lognormal_weights(graph, 12)
    expected = brute_force_classes(matcher, defects, weights, 0)
    np.testing.assert_allclose(check_classes(matcher, defects, weights), expected, atol=1e-8)


@pytest.mark.parametrize("d", [3, 5])
def test_logical_classes_against_pymatching_with_an_observable_node(d):
    circuit, graph = memory(d, 0.01)
    n = circuit.num_detectors
    matcher = PerShotMatcher.from_graph(graph, n)
    defects = unpack(sample(circuit, 40), n)
    weights = bernoulli_weights(graph, 40)
    carries = graph.observables[:, 0]
    assert (graph.ends[carries, 1] == BOUNDARY).all()
    ends = graph.ends.copy()
    ends[carries, 1] = n
    found = check_classes(matcher, defects, weights)
    for value in (0, 1):
        extended = np.concatenate([defects, np.full((40, 1), value, dtype=np.uint8)], axis=1)
        theirs = pymatching_weights(n + 1, ends, extended, weights)
        assert (found[:, value] <= theirs + 1e-6).all()
        np.testing.assert_allclose(found[:, value], theirs, atol=1e-3)


@pytest.mark.parametrize(
    "task",
    [
        "surface_code:rotated_memory_x",
        "surface_code:rotated_memory_z",
        "surface_code:unrotated_memory_x",
        "surface_code:unrotated_memory_z",
        "repetition_code:memory",
    ],
)
def test_memory_experiments_have_logical_classes(task):
    circuit, graph = memory(3, 0.02, task=task)
    matcher = PerShotMatcher.from_graph(graph, circuit.num_detectors)
    defects = unpack(sample(circuit, 100), circuit.num_detectors)
    assert np.isfinite(check_classes(matcher, defects, lognormal_weights(graph, 100))).all()


def test_a_cycle_that_flips_the_observable_is_refused():
    ring = np.array([(0, 1), (1, 2), (2, 0)], dtype=np.int32)
    matcher = PerShotMatcher(3, ring, np.array([[True], [False], [False]]))
    with pytest.raises(InputError, match="observable 0 is flipped by a cycle"):
        matcher.logical_classes(pack([[1, 1, 0]]), np.ones(3))
    np.testing.assert_array_equal(matcher.decode(pack([[1, 1, 0]]), np.ones(3)), [[1]])
    with pytest.raises(InputError, match="observable 1 does not exist"):
        matcher.logical_classes(pack([[1, 1, 0]]), np.ones(3), observable=1)


def test_a_shot_without_correction_is_named():
    """Two components: 0-1 with a boundary, 2-3-4 without."""
    ends = np.array([(0, 1), (0, BOUNDARY), (2, 3), (3, 4)], dtype=np.int32)
    matcher = PerShotMatcher(5, ends, np.zeros((4, 1), dtype=bool))
    shots = pack([[1, 0, 1, 1, 0], [1, 0, 1, 1, 1], [0, 0, 1, 0, 0]])
    for call in (matcher.decode, matcher.decode_to_edges, matcher.logical_classes):
        with pytest.raises(InputError, match=r"shot 1 has no correction.*\(D2 D3 D4\)"):
            call(shots, np.ones(4))
    blocked = np.array([[1.0, np.inf, 1.0, 1.0]])
    with pytest.raises(InputError, match=r"shot 0 .*\(D1\)"):
        matcher.decode(pack([[0, 1, 0, 0, 0]]), blocked)
    # A failed batch leaves nothing behind.
    np.testing.assert_array_equal(matcher.decode(shots[:1], np.ones(4)), [[0]])


GRAPH = MatchingGraph(
    ends=np.array([(0, 1), (1, BOUNDARY)], dtype=np.int32),
    priors=np.array([0.1, 0.1]),
    observables=np.array([[False], [True]]),
    fault_edges=sp.csr_array(np.eye(2)),
)


@pytest.mark.parametrize(
    ("detectors", "weights", "message"),
    [
        ([[1]], [[1.0, np.nan]], "edge 1 in shot 0 is nan"),
        ([[1], [0], [3]], [[1.0, 1.0], [1.0, 1.0], [-np.inf, np.inf]], "edge 0 in shot 2 is -inf"),
        ([[0], [0]], [np.nan, 1.0], "edge 0 in shot 0 is nan"),
        ([[1]], [[1.0, 1.0, 1.0]], r"shape \(1, 3\) for 1 shots and 2 edges"),
        ([[1], [1]], [[1.0, 1.0]], r"shape \(1, 2\) for 2 shots"),
        ([[1]], [["a", "b"]], "weights: got <U1"),
        ([[1, 0]], [[1.0, 1.0]], r"expected uint8 \[shots, 1\] for 2 detectors"),
        ([1], [[1.0, 1.0]], r"shape \(1,\)"),
        ([[0], [4]], [1.0, 1.0], "bits beyond the 2 detectors bits are set"),
    ],
)
def test_bad_shots_and_weights_are_refused(detectors, weights, message):
    matcher = PerShotMatcher.from_graph(GRAPH, 2)
    with pytest.raises(InputError, match=message):
        matcher.decode(np.array(detectors, dtype=np.uint8), np.array(weights))


def test_bad_arguments_are_refused():
    matcher = PerShotMatcher.from_graph(GRAPH, 2)
    with pytest.raises(InputError, match="bool with shape"):
        matcher.decode(np.zeros((1, 2), dtype=bool), np.ones(2))
    with pytest.raises(InputError, match="threads is 0"):
        matcher.decode(np.zeros((1, 1), dtype=np.uint8), np.ones(2), threads=0)
    for ends in ([(0, 2)], [(-1, 0)], [(0, -2)], [(1, 1)]):
        with pytest.raises(InputError, match="edge 0 joins"):
            PerShotMatcher(2, np.array(ends, dtype=np.int32), np.zeros((1, 1), dtype=bool))
    with pytest.raises(InputError, match="ends: got float64"):
        PerShotMatcher(2, np.array([(0.0, 1.0)]), np.zeros((1, 1), dtype=bool))
    with pytest.raises(InputError, match="observables: got bool of shape"):
        PerShotMatcher(2, GRAPH.ends, np.zeros((1, 1), dtype=bool))
    with pytest.raises(InputError, match="detectors"):
        PerShotMatcher(-1, GRAPH.ends, GRAPH.observables)
