"""The compiled fold of faults into edges against the torch reference in double precision."""

import copy

import pytest
import torch

from autoqec.decoders.modules.structure import GraphEdges
from autoqec.envs.load import load_env


@pytest.fixture(scope="module")
def edges():
    return GraphEdges(load_env("surface_d3_depol").problem(0.005))


def folded(edges, odds, *, fused, dtype):
    edges = copy.deepcopy(edges).to(dtype)
    edges.fused = fused
    odds = odds.to(dtype, copy=True).requires_grad_()
    out = edges.from_faults(odds)
    weight = torch.randn(out.shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    (out * weight.to(dtype)).sum().backward()
    return out.detach().double(), odds.grad.double()


def some_odds(edges, batch, scale, shift=0.0):
    n_faults = len(edges.edges_of_fault)
    return shift + scale * torch.randn(n_faults, batch, generator=torch.Generator().manual_seed(batch))


@pytest.mark.parametrize(
    ("batch", "scale", "shift"), [(1, 3.0, 4.0), (16, 2.0, 0.0), (21, 0.05, 0.0), (40, 6.0, 6.0)]
)
def test_answer_and_gradients_are_those_of_the_reference(edges, batch, scale, shift):
    odds = some_odds(edges, batch, scale, shift)
    found, gradient = folded(edges, odds, fused=True, dtype=torch.float32)
    expected, reference = folded(edges, odds, fused=False, dtype=torch.float64)
    torch.testing.assert_close(found, expected, atol=1e-4, rtol=1e-4)
    assert (gradient - reference).norm() <= 1e-4 * reference.norm()


def test_an_edge_without_faults_keeps_its_prior(edges):
    alone = copy.deepcopy(edges)
    alone.untouched[:] = 3.5
    alone.ptr[:] = 0
    odds = some_odds(edges, 3, 1.0).requires_grad_()
    out = alone.from_faults(odds)
    assert (out == 3.5).all()
    out.sum().backward()
    assert not odds.grad.any()


def test_threads_change_no_bit(edges):
    before = torch.get_num_threads()
    odds, results = some_odds(edges, 100, 3.0), []
    try:
        for threads in (1, 3):
            torch.set_num_threads(threads)
            results.append(folded(edges, odds, fused=True, dtype=torch.float32))
    finally:
        torch.set_num_threads(before)
    assert all(torch.equal(a, b) for a, b in zip(*results, strict=True))
