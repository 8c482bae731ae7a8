"""phi and the fold from faults to matching edges, against plain products in double precision."""

import numpy as np
import torch

from autoqec.decoders.modules.structure import GraphEdges, phi
from autoqec.envs.load import load_env


def test_phi_is_exact_to_rounding_and_its_own_inverse():
    x = torch.logspace(-6.5, 1.3, 2001, dtype=torch.float64)
    single = x.float().requires_grad_()
    expected = -torch.log(torch.tanh(single.detach().double() / 2))
    found = phi(single)
    torch.testing.assert_close(found.double(), expected, rtol=1e-6, atol=0)
    found.sum().backward()
    slope = -1 / torch.sinh(single.detach().double())
    torch.testing.assert_close(single.grad.double(), slope, rtol=1e-5, atol=0)
    within = single[single < 16]
    torch.testing.assert_close(phi(phi(within)), within, rtol=1e-5, atol=0)


def test_an_edge_flips_when_an_odd_number_of_its_faults_did():
    problem = load_env("surface_d3_depol").problem(0.005)
    edges = GraphEdges(problem)
    odds = 4 * torch.randn(problem.n_faults, 7, generator=torch.Generator().manual_seed(0))
    incidence = problem.graph.fault_edges.toarray() != 0
    tanh = np.tanh(odds.double().numpy() / 2)
    products = np.stack([np.prod(tanh[row], axis=0) for row in incidence])
    expected = np.clip(2 * np.arctanh(products), -16.1, 16.1)
    np.testing.assert_allclose(edges.from_faults(odds).numpy(), expected, rtol=1e-4, atol=1e-5)
    happened = torch.rand(problem.n_faults, 7, generator=torch.Generator().manual_seed(1)) < 0.3
    assert (edges.labels(happened).numpy() == (incidence @ happened.numpy().astype(int)) % 2).all()
