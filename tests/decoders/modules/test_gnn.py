"""GraphNet and its parts; what holds for every predecoder is in test_conformance."""

import copy
from typing import get_args

import pytest
import torch

from autoqec.decoders import dsl_schema
from autoqec.decoders.dsl_schema import GnnSpec
from autoqec.decoders.modules.aggregations import AGGREGATIONS
from autoqec.decoders.modules.gnn import GraphNet
from autoqec.decoders.modules.graph_view import GraphView
from autoqec.decoders.modules.heads import HEADS
from autoqec.decoders.modules.messages import MESSAGES
from autoqec.decoders.modules.normalizations import NORMALIZATIONS
from autoqec.envs.load import load_env

SMALL = {"layers": 2, "hidden_dim": 8}
OPTIONS = [
    *({"message_fn": name} for name in MESSAGES),
    *({"aggregation": name} for name in AGGREGATIONS),
]
IDS = ["-".join(str(v) for v in option.values()) for option in OPTIONS]


@pytest.fixture(scope="module")
def matching_view():
    return GraphView(load_env("surface_d3_depol").problem(0.005))


@pytest.fixture(scope="module")
def tanner_view():
    return GraphView(load_env("steane_custom_dem").problem(0.01))


def make(view, *, head="linear", perturb=True, edge_inputs=2, **options):
    torch.manual_seed(0)
    net = GraphNet(GnnSpec(**(SMALL | options)), view, head, edge_inputs=edge_inputs).eval()
    if perturb:
        generator = torch.Generator().manual_seed(1)
        with torch.no_grad():
            for parameter in net.parameters():
                parameter += 0.3 * torch.randn(parameter.shape, generator=generator)
    return net


def inputs(view, batch=5, seed=0, edge_inputs=2):
    generator = torch.Generator().manual_seed(seed)
    syndrome = (torch.rand(batch, view.n_checks, generator=generator) < 0.3).float()
    return syndrome, torch.randn(batch, view.n_outputs, edge_inputs, generator=generator)


def test_registries_and_schema_name_the_same_options():
    assert set(MESSAGES) == set(get_args(dsl_schema.MessageFn))
    assert set(AGGREGATIONS) == set(get_args(dsl_schema.Aggregation))
    assert set(NORMALIZATIONS) == set(get_args(dsl_schema.Normalization))
    assert set(HEADS) == set(get_args(dsl_schema.Head))


def by_the_formula(net, view, syndrome, values):
    """The docstring of `gnn`, edge by edge, for mlp messages that are added up."""
    bits = torch.nn.functional.pad(syndrome, (0, view.n_nodes - view.n_checks))
    e = torch.cat([bits[:, view.source, None], bits[:, view.target, None], values[:, view.output_of]], dim=-1)

    def features(part):
        return part.per_shot(e) + part.static(view.static[:, part.columns])

    def added(rows, at, n):
        return rows.new_zeros(len(rows), n, rows.shape[2]).index_add(1, at, rows)

    others = net.other.expand(len(bits), view.n_nodes - view.n_checks, -1)
    x = torch.cat([net.check(syndrome[..., None]), others], dim=1)
    for part in net.rounds:
        m = part.message.src(x)[:, view.source] + part.message.dst(x)[:, view.target] + features(part.edges)
        told = added(torch.nn.functional.silu(m), view.target, view.n_nodes)
        x = part.norm(x + torch.nn.functional.silu(part.take(told)))
    ones = torch.ones(1, view.n_directed, 1, dtype=x.dtype)
    edge = added(features(net.edges), view.output_of, view.n_outputs) / added(
        ones, view.output_of, view.n_outputs
    )
    u, v = view.nodes_of_output.T
    head = net.head
    return head.after(head.first(torch.cat([x[:, u], x[:, v], edge], dim=-1))).squeeze(-1)


@pytest.mark.parametrize("head", list(HEADS))
@pytest.mark.parametrize("view_name", ["matching_view", "tanner_view"])
def test_the_net_is_what_its_formula_says(head, view_name, request):
    view = copy.deepcopy(request.getfixturevalue(view_name)).double()
    net = make(view, head=head).double()
    syndrome, values = (tensor.double() for tensor in inputs(view))
    torch.testing.assert_close(net(syndrome, values), by_the_formula(net, view, syndrome, values))


def test_batch_statistics_are_those_of_earlier_batches(matching_view):
    net = make(matching_view, normalization="batch")
    syndrome, values = inputs(matching_view)
    before = net(syndrome, values)
    net(*inputs(matching_view, seed=3))
    assert torch.equal(net(syndrome, values), before), "evaluation must not move the statistics"
    net.train()
    for _ in range(5):
        net(*inputs(matching_view, seed=3))
    assert not torch.allclose(net.eval()(syndrome, values), before), "training must move them"
    assert any("variance" in name for name in net.state_dict()), "a checkpoint must carry them"


@pytest.mark.parametrize("head", list(HEADS))
def test_an_untrained_net_adds_nothing_and_still_learns(head, matching_view):
    net = make(matching_view, head=head, perturb=False)
    syndrome, values = inputs(matching_view)
    assert torch.equal(net(syndrome, values), torch.zeros(5, matching_view.n_outputs))
    optimizer = torch.optim.SGD(net.parameters(), lr=1e-2)
    for _ in range(2):
        optimizer.zero_grad()
        (net(syndrome, values) - values[..., 0]).square().sum().backward()
        optimizer.step()
    assert all(p.grad is not None and torch.isfinite(p.grad).all() for p in net.parameters())
    assert net.rounds[0].edges.per_shot.weight.grad.abs().sum() > 0
    assert net(syndrome, values).abs().sum() > 0


@pytest.mark.parametrize("view_name", ["matching_view", "tanner_view"])
def test_every_edge_feature_reaches_the_output(view_name, request):
    view = copy.deepcopy(request.getfixturevalue(view_name))
    syndrome, values = inputs(view)
    generator = torch.Generator().manual_seed(5)
    half = view.n_directed // 2
    for column, name in enumerate(["round_idx", "stabilizer_type", "distance", "prior_weight"]):
        net = make(view, edge_features=[name])
        blind = make(view, edge_features=["syndrome_bit"])
        before, blind_before = net(syndrome, values), blind(syndrome, values)
        view.static[:, column] += torch.randn(half, generator=generator).repeat(2)
        assert not torch.allclose(net(syndrome, values), before, atol=1e-4), name
        assert torch.equal(blind(syndrome, values), blind_before)


def test_view_segments_agree_with_scattered_sums(matching_view, tanner_view):
    for view in (matching_view, tanner_view):
        values = torch.randn(3, view.n_directed, 4)
        expected = torch.zeros(3, view.n_nodes, 4).index_add(1, view.target, values)
        torch.testing.assert_close(view.by_target.sum(values), expected)
        index = view.target[None, :, None].expand_as(values)
        top = torch.full((3, view.n_nodes, 4), -1e9).scatter_reduce(1, index, values, "amax")
        torch.testing.assert_close(view.by_target.max(values), torch.where(top > -1e8, top, 0.0))
        weights = view.by_target.softmax(80 * values)
        present = view.by_target.count[:, 0] > 0
        ones = torch.ones(3, int(present.sum()), 4)
        torch.testing.assert_close(view.by_target.sum(weights)[:, present], ones)
        assert view.by_target.padded_rows < 2 * view.n_directed


@pytest.mark.parametrize("options", OPTIONS, ids=IDS)
def test_bfloat16_autocast_stays_close(options, matching_view):
    net = make(matching_view, **options)
    syndrome, values = inputs(matching_view)
    exact = net(syndrome, values)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        rough = net(syndrome, values)
    assert torch.isfinite(rough).all()
    assert (rough.float() - exact).abs().mean() < 0.1 * exact.abs().mean() + 0.05


def test_no_edge_inputs(matching_view):
    net = make(matching_view, edge_inputs=0, edge_features=["prior_weight"])
    syndrome, _ = inputs(matching_view)
    assert net(syndrome, torch.zeros(5, matching_view.n_outputs, 0)).shape == (5, matching_view.n_outputs)
