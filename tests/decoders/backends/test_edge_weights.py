"""Edge log-odds against the product formula in double precision."""

import numpy as np
import pytest
import scipy.sparse as sp

from autoqec.decoders.backends.belief_propagation import BeliefPropagation
from autoqec.decoders.backends.edge_weights import EdgeWeights
from autoqec.envs.load import load_env
from autoqec.envs.problem import MatchingGraph, log_odds
from autoqec.errors import InputError


def reference(graph: MatchingGraph, odds: np.ndarray) -> np.ndarray:
    """The less likely values folded one by one, which loses nothing where 1 - prod(1 - 2 q) would."""
    odds = odds.astype(np.float64)
    minority = 1 / (1 + np.exp(np.minimum(np.abs(odds), 700)))
    out = np.empty((len(odds), graph.n_edges))
    for e in range(graph.n_edges):
        faults = graph.fault_edges.indices[graph.fault_edges.indptr[e] : graph.fault_edges.indptr[e + 1]]
        if not len(faults):
            out[:, e] = log_odds(graph.priors[e])
            continue
        odd = np.zeros(len(odds))
        for f in faults:
            odd = odd * (1 - minority[:, f]) + minority[:, f] * (1 - odd)
        sign = np.prod(np.where(odds[:, faults] < 0, -1.0, 1.0), axis=1)
        odd = np.maximum(odd, 1e-30)
        out[:, e] = sign * (np.log1p(-odd) - np.log(odd))
    return out


def by_hand(rows: list[list[int]], n_faults: int) -> MatchingGraph:
    """A path whose edge e has the faults rows[e]."""
    n = len(rows)
    indptr = np.concatenate([[0], np.cumsum([len(row) for row in rows])])
    fault_edges = sp.csr_array(
        (np.ones(indptr[-1], dtype=np.uint8), np.concatenate(rows).astype(np.int32), indptr),
        shape=(n, n_faults),
    )
    return MatchingGraph(
        ends=np.stack([np.arange(n), np.arange(1, n + 1)], axis=1).astype(np.int32),
        priors=np.linspace(0.01, 0.3, n),
        observables=np.zeros((n, 1), dtype=np.bool_),
        fault_edges=fault_edges,
    )


@pytest.mark.parametrize("shots", [1, 16, 37])
def test_beliefs_of_real_shots(shots):
    environment = load_env("surface_d3_depol")
    problem = environment.problem(0.01)
    assert problem.graph is not None
    detectors = environment.sampler(0.01).sample(shots, seed=4).detectors
    beliefs = BeliefPropagation(problem.h, problem.priors, iterations=6).posteriors(detectors).log_odds
    assert (beliefs < 0).any() or shots == 1
    found = EdgeWeights(problem.graph)(beliefs)
    assert found.shape == (shots, problem.graph.n_edges)
    np.testing.assert_allclose(found, reference(problem.graph, beliefs), atol=1e-3)


@pytest.mark.parametrize("spread", [0.01, 3.0, 60.0, 1e6])
def test_edges_with_no_one_or_many_faults(spread):
    rng = np.random.default_rng(0)
    n_faults = 120
    sizes = [0, 1, 2, 31, 32, 33, 64, 65, 100, 0]
    graph = by_hand([sorted(rng.choice(n_faults, size, replace=False)) for size in sizes], n_faults)
    odds = (rng.normal(size=(50, n_faults)) * spread).astype(np.float32)
    found = EdgeWeights(graph)(odds)
    expected = reference(graph, odds)
    np.testing.assert_allclose(found, expected, atol=1e-3)
    np.testing.assert_allclose(found[:, 0], log_odds(graph.priors[0]), rtol=1e-6)


def test_certain_and_undecided_faults():
    graph = by_hand([[0], [0, 1], [1, 2], [2, 3]], 4)
    odds = np.array([[np.inf, -np.inf, 0.0, 2.0]], dtype=np.float32)
    found = EdgeWeights(graph)(odds)
    np.testing.assert_allclose(found, [[69.08, -69.08, 0.0, 0.0]], atol=0.7)
    assert np.isfinite(found).all()


def test_threads_and_memory_order_change_nothing():
    problem = load_env("surface_d3_depol").problem(0.01)
    assert problem.graph is not None
    weights = EdgeWeights(problem.graph)
    odds = np.random.default_rng(1).normal(size=(1500, problem.n_faults)).astype(np.float32) * 5
    expected = weights(odds, threads=1)
    for threads in (2, 3, None):
        np.testing.assert_array_equal(weights(odds, threads=threads), expected)
    np.testing.assert_array_equal(weights(np.asfortranarray(odds)), expected)
    np.testing.assert_array_equal(weights(odds[700:719]), expected[700:719])
    assert weights(odds[:0]).shape == (0, problem.graph.n_edges)


def test_beliefs_of_the_wrong_shape_are_named():
    problem = load_env("surface_d3_depol").problem(0.01)
    assert problem.graph is not None
    with pytest.raises(InputError, match=r"shape \(4, 3\)"):
        EdgeWeights(problem.graph)(np.zeros((4, 3), dtype=np.float32))
