"""Cuts that give the observable of any correction."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from autoqec.decoders.backends.logical_cuts import logical_cuts
from autoqec.envs.load import load_env
from autoqec.envs.problem import BOUNDARY, MatchingGraph


def graph(ends: list[tuple[int, int]], flips: list[int]) -> MatchingGraph:
    return MatchingGraph(
        ends=np.array(ends, dtype=np.int32),
        observables=np.array(flips, dtype=np.bool_)[:, None],
        priors=np.full(len(ends), 0.1),
        fault_edges=sp.csr_array(np.eye(len(ends), dtype=np.uint8)),
    )


@pytest.mark.parametrize("name", ["surface_d3_depol", "surface_d5_depol", "surface_d5_leakage"])
def test_every_cut_reads_the_observable(name: str) -> None:
    problem = load_env(name).problem(5e-3)
    found = logical_cuts(problem.graph, problem.n_checks)
    assert 3 <= len(found.edges) < 20
    rng = np.random.default_rng(1)
    correction = rng.random((200, problem.graph.n_edges)) < 0.1
    ends = problem.graph.ends
    defects = np.zeros((200, problem.n_checks + 1), dtype=np.int64)
    for edge, (u, v) in enumerate(ends):
        defects[:, u] += correction[:, edge]
        defects[:, v] += correction[:, edge]  # the boundary is the last column
    observable = (correction @ problem.graph.observables.astype(np.int64)) % 2
    counted = correction @ found.edges.T.astype(np.int64) + defects[:, :-1] @ found.detectors.T.astype(
        np.int64
    )
    assert np.array_equal(counted % 2, np.repeat(observable, len(found.edges), axis=1))
    assert len(np.unique(found.edges, axis=0)) == len(found.edges)


def test_a_chain_is_cut_at_each_of_its_edges() -> None:
    chain = graph([(0, BOUNDARY), (0, 1), (1, 2), (2, BOUNDARY)], [1, 0, 0, 0])
    found = logical_cuts(chain, 3)
    assert sorted(map(tuple, found.edges.astype(int))) == sorted(map(tuple, np.eye(4, dtype=int)))


def test_no_cuts_where_there_are_no_two_ends() -> None:
    around = graph([(0, 1), (1, 2), (2, 0), (0, BOUNDARY)], [1, 0, 0, 0])
    assert logical_cuts(around, 3) is None, "the observable is on a cycle"
    nowhere = graph([(0, BOUNDARY), (0, 1), (1, BOUNDARY)], [0, 0, 0])
    assert logical_cuts(nowhere, 2) is None
