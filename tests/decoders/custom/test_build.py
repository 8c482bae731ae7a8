"""Custom functions inside a graph network, and the smoke check on functions that misbehave."""

import copy

import pytest
import torch

from autoqec.decoders.custom import allowed
from autoqec.decoders.custom.build import CustomCall, compile_custom, namespace
from autoqec.decoders.custom.errors import CustomCodeError
from autoqec.decoders.custom.smoke import EDGES, NODES, smoke_check
from autoqec.decoders.dsl_schema import CustomFunction, GnnSpec
from autoqec.decoders.modules.gnn import GraphNet
from autoqec.decoders.modules.graph_view import GraphView
from autoqec.envs.load import load_env

MESSAGE = CustomFunction(
    type="custom",
    code="def message(x_src, x_dst, e_ij, params):\n    h = params.N(params.A(x_src) + params.B(x_dst) + e_ij)\n"
    "    return F.silu(h) * torch.sigmoid(params.gate)\n",
    params_declared={
        "A": "Linear(hidden, hidden)",
        "B": "Linear(hidden, hidden)",
        "N": "LayerNorm(edge)",
        "gate": "Parameter(hidden)",
    },
)
AGGREGATE = CustomFunction(
    type="custom",
    code="def aggregate(messages, edge_index, n_nodes, params):\n"
    "    out = messages.new_zeros(messages.shape[0], n_nodes, messages.shape[-1])\n"
    "    return out.index_add(1, edge_index[1], messages @ params.M)\n",
    params_declared={"M": "Parameter(hidden, hidden)"},
)
HEAD = CustomFunction(
    type="custom",
    code="def head(hidden_state, params):\n    return params['V'](torch.tanh(params['W'](hidden_state)))\n",
    params_declared={"W": "Linear(hidden, 8)", "V": "Linear(8, out)"},
)


@pytest.fixture(scope="module")
def view():
    return GraphView(load_env("surface_d3_depol").problem(0.005))


@pytest.mark.parametrize(
    ("slots", "head"),
    [
        ({"message_fn": MESSAGE}, "linear"),
        ({"aggregation": AGGREGATE}, "linear"),
        ({}, HEAD),
        ({"message_fn": MESSAGE, "aggregation": AGGREGATE}, HEAD),
    ],
    ids=["message", "aggregation", "head", "all"],
)
def test_custom_parts_start_at_nothing_train_and_matter(slots, head, view):
    torch.manual_seed(0)
    net = GraphNet(GnnSpec(layers=2, hidden_dim=8, **slots), view, head, edge_inputs=1)
    syndrome = (torch.rand(6, view.n_checks) < 0.3).float()
    values = torch.randn(6, view.n_outputs, 1)
    assert torch.equal(net(syndrome, values), torch.zeros(6, view.n_outputs))
    optimizer = torch.optim.Adam(net.parameters(), lr=0.05)
    for _ in range(3):
        optimizer.zero_grad()
        loss = (net(syndrome, values) - values[..., 0]).square().mean()
        loss.backward()
        optimizer.step()
    assert (net(syndrome, values) - values[..., 0]).square().mean() < values.square().mean()
    custom = [call for call in net.modules() if isinstance(call, CustomCall)]
    assert custom
    assert all(p.grad is not None and p.grad.abs().sum() > 0 for call in custom for p in call.parameters())
    out = net(syndrome, values)
    blanked = copy.deepcopy(net)
    with torch.no_grad():
        for call in blanked.modules():
            if isinstance(call, CustomCall):
                for p in call.parameters():
                    p.mul_(-0.5)
    assert not torch.allclose(blanked(syndrome, values), out, atol=1e-5)
    torch.testing.assert_close(net(syndrome[1:2], values[1:2])[0], out[1], rtol=1e-4, atol=1e-5)


def test_custom_net_exports(view):
    net = GraphNet(
        GnnSpec(layers=1, hidden_dim=8, message_fn=MESSAGE, aggregation=AGGREGATE), view, HEAD, edge_inputs=1
    )
    given = torch.zeros(3, view.n_checks), torch.randn(3, view.n_outputs, 1)
    torch.testing.assert_close(torch.export.export(net.eval(), given).module()(*given), net(*given))


def test_the_namespace_holds_functions_and_no_modules():
    space = namespace()
    assert set(space) == {"__builtins__", "torch", "F"}
    for gone in ("os", "load", "ops", "utils", "tensor", "Tensor"):
        assert not hasattr(space["torch"], gone)
    assert vars(space["torch"].nn).keys() == {"functional"}
    # Torch itself imports while it dispatches; custom code cannot even name the function.
    with pytest.raises(ImportError):
        space["__builtins__"]["__import__"]("os")
    assert space["__builtins__"].keys() - allowed.BUILTINS.keys() == {"__import__"}


@pytest.mark.parametrize(
    ("rule", "text"),
    [
        ("batch_independence", "x_src - x_src.mean(dim=0, keepdim=True)"),
        ("batch_independence", "torch.softmax(x_src, dim=0)"),
        ("batch_independence", "x_src + 0.001 * x_dst.sum()"),
        ("batch_independence", "x_src * x_src.shape[0]"),
        ("shape", "x_src.sum(dim=-1)"),
        ("shape", "x_src[:1]"),
        ("shape", "x_src.shape"),
        ("finite", "torch.log(x_src)"),
        ("finite", "x_src / (x_dst - x_dst)"),
        ("finite", "torch.exp(x_src * x_src)"),
        ("dtype", "x_src > 0"),
        ("runtime", "torch.matmul(x_src, x_dst)"),
        ("gradient", "torch.zeros_like(x_src)"),
        ("gradient", "torch.sqrt(torch.relu(x_src) * 0.0) + e_ij"),
        ("runtime", "x_src.view(4, 9, 8) + x_src"),
    ],
)
def test_a_linted_function_that_misbehaves_is_caught(rule, text):
    code = f"def message(x_src, x_dst, e_ij, params):\n    return {text}\n"
    with pytest.raises(CustomCodeError) as caught:
        compile_custom(CustomFunction(type="custom", code=code), "message", hidden=8, where="gnn.message_fn")
    assert caught.value.rule == rule, caught.value
    assert str(caught.value).startswith("gnn.message_fn: ")


def refused(call, slot="message") -> str:
    with pytest.raises(CustomCodeError) as caught:
        smoke_check(call, slot, hidden=4, where="here")
    return caught.value.rule


def test_smoke_catches_what_only_running_shows():
    assert refused(lambda x, *_: x + torch.rand(())) == "determinism"
    assert refused(lambda x, *_: x.add_(1.0)) == "mutation"
    assert refused(lambda x, *_: x.double()) == "dtype"

    largest = [0.0]

    def remembers(x, y, e):
        largest[0] = max(largest[0], float(x.abs().max()))
        return x + largest[0]

    assert refused(remembers) == "state"

    calls = [0]

    def counts(x, y, e):
        calls[0] += 1
        return x + calls[0]

    assert refused(counts) == "determinism"

    def aggregate_changes_graph(messages, edge_index, n_nodes):
        edge_index[1, 0] = 3
        return messages.new_zeros(len(messages), n_nodes, messages.shape[-1])

    assert refused(aggregate_changes_graph, "aggregate") == "mutation"
    assert refused(lambda m, _, n: m[:, :n].flip(0), "aggregate") == "batch_independence"
    assert NODES < EDGES


def test_honest_callables_pass_the_smoke_check():
    smoke_check(lambda x, y, e: torch.tanh(x + y) * e, "message", hidden=4, where="here")
    smoke_check(lambda h: h.sum(dim=-1, keepdim=True), "head", hidden=4, where="here")
    smoke_check(lambda h: h[..., :2], "head", hidden=4, out=2, where="here")
