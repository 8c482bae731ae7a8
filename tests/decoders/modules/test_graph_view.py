"""Who hears whom in a graph network."""

import numpy as np
import pytest
import torch

from autoqec.decoders.compiler import compile_predecoder, context
from autoqec.decoders.dsl_schema import PredecoderDSL
from autoqec.decoders.modules.graph_view import STATIC_FEATURES, GraphView
from autoqec.envs.load import load_env
from autoqec.envs.problem import log_odds
from autoqec.errors import InputError


@pytest.fixture(scope="module")
def problem():
    return load_env("surface_d3_depol").problem(0.005)


def test_any_two_detectors_of_a_fault_hear_each_other_once(problem):
    view = GraphView(problem, "faults")
    ends = np.sort(view.nodes_of_output.numpy(), axis=1)
    joined = {tuple(pair) for pair in ends.tolist()}
    columns = problem.h.tocsc()
    wanted = {
        (int(a), int(b))
        for fault in range(problem.n_faults)
        for a in columns.indices[columns.indptr[fault] : columns.indptr[fault + 1]]
        for b in columns.indices[columns.indptr[fault] : columns.indptr[fault + 1]]
        if a < b
    }
    assert wanted <= joined
    assert len(joined) == len(ends) > view.n_answers == problem.graph.n_edges
    # The edges come first, as they are without the pairs.
    plain = GraphView(problem)
    assert torch.equal(view.nodes_of_output[: view.n_answers], plain.nodes_of_output)
    of_edges, as_before = view.static[: view.n_answers], plain.static[: plain.n_edges]
    distance = STATIC_FEATURES.index("distance")  # in units of the longest, which a pair may be
    scale = as_before[:, distance].max() / of_edges[:, distance].max()
    of_edges = of_edges.clone()
    of_edges[:, distance] *= scale
    torch.testing.assert_close(of_edges, as_before)


def test_a_pair_is_as_likely_as_an_odd_number_of_its_faults(problem):
    view = GraphView(problem, "faults")
    rows = problem.h.toarray().astype(bool)
    for number, (a, b) in enumerate(view.nodes_of_output[view.n_answers :].tolist()):
        faults = np.flatnonzero(rows[a] & rows[b])
        expected = (1 - np.prod(1 - 2 * problem.priors[faults])) / 2
        prior = torch.from_numpy(log_odds(problem.priors)).float()[:, None]
        assert view.pairs(prior)[number, 0] == pytest.approx(
            float(log_odds(np.array([expected]))[0]), rel=1e-3
        )


@pytest.mark.parametrize("neighbours", ["edges", "faults"])
def test_a_detector_of_the_other_basis_is_heard_through_pairs(problem, neighbours):
    """In one layer, and away from the boundary, which is a node of both bases."""
    config = {
        "type": "gnn",
        "gnn": {"layers": 1, "hidden_dim": 8, "neighbours": neighbours},
        "output_mode": "soft_priors",
    }
    module = compile_predecoder(PredecoderDSL.model_validate(config), problem, seed=1).eval()
    with torch.no_grad():
        for parameter in module.parameters():
            parameter += 0.3 * torch.randn(parameter.shape, generator=torch.Generator().manual_seed(2))
    ends = module.view.nodes_of_output[: module.view.n_answers].numpy()
    flipped = int(np.flatnonzero(problem.detector_basis == "X")[0])
    syndrome = torch.zeros(2, problem.n_checks)
    syndrome[1, flipped] = 1
    weights = module.backend_weights(syndrome, context(problem))
    basis = np.append(problem.detector_basis, "boundary")
    of_other = (basis[ends] == "Z").all(axis=1)
    moved = (weights[1] - weights[0]).abs()[torch.from_numpy(of_other)].max()
    assert (moved > 1e-3) == (neighbours == "faults")


def test_a_problem_without_a_matching_graph_has_no_pairs():
    with pytest.raises(InputError, match="no matching graph") as refused:
        GraphView(load_env("steane_custom_dem").problem(0.01), "faults")
    assert refused.value.where == "gnn.neighbours"


def test_a_code_of_one_basis_has_no_pairs_and_needs_none():
    env = load_env("repetition_d9_tanner")
    problem = env.problem(max(env.spec.noise.p))
    assert GraphView(problem, "faults").n_outputs == GraphView(problem).n_outputs
    config = {"type": "gnn", "gnn": {"layers": 1, "neighbours": "faults"}, "output_mode": "soft_priors"}
    module = compile_predecoder(PredecoderDSL.model_validate(config), problem)
    assert module.backend_weights(torch.zeros(2, problem.n_checks), context(problem)).isfinite().all()
