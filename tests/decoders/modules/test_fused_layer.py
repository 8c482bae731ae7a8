"""The compiled layer against the torch reference in double precision, and the gradients of `Segments`."""

import copy
import math

import numpy as np
import pytest
import torch

from autoqec.decoders.dsl_schema import GnnSpec
from autoqec.decoders.modules import gnn
from autoqec.decoders.modules.edge_features import Shots
from autoqec.decoders.modules.fused_layer import LayerWeights, fused_layer
from autoqec.decoders.modules.gnn import Layer
from autoqec.decoders.modules.graph_view import GraphView
from autoqec.decoders.modules.segments import Segments
from autoqec.envs.load import load_env
from autoqec.errors import InputError

ENVS = {"surface_d3_depol": 0.005, "steane_custom_dem": 0.01}
FUSED = [(message, "sum") for message in ("mlp", "gated_mlp", "residual_mlp")] + [("mlp", "mean")]


@pytest.fixture(scope="module", params=ENVS)
def view(request):
    return GraphView(load_env(request.param).problem(ENVS[request.param]))


def make(message="mlp", aggregation="sum", hidden=8, edge_inputs=2, seed=0, **options):
    torch.manual_seed(seed)
    spec = GnnSpec(message_fn=message, aggregation=aggregation, hidden_dim=hidden, **options)
    return Layer(spec, edge_inputs)


def given(view, batch, hidden, edge_inputs=2, scale=1.0, seed=0):
    generator = torch.Generator().manual_seed(seed)
    x = scale * torch.randn(batch, view.n_nodes, hidden, generator=generator)
    bits = torch.nn.functional.pad(
        (torch.rand(batch, view.n_checks, generator=generator) < 0.3).float(),
        (0, view.n_nodes - view.n_checks),
    )
    values = scale * torch.randn(batch, view.n_outputs, edge_inputs, generator=generator)
    return x, bits, values


def answer_and_gradients(layer, inputs, view, *, fused, dtype):
    layer = copy.deepcopy(layer).to(dtype)
    layer.fused = fused
    x, bits, values = (tensor.to(dtype, copy=True) for tensor in inputs)
    x.requires_grad_()
    values.requires_grad_()
    out = layer(x, Shots(bits, values), copy.deepcopy(view).to(dtype))
    upstream = torch.randn(out.shape, generator=torch.Generator().manual_seed(7), dtype=torch.float64)
    (out * upstream.to(dtype)).sum().backward()
    found = {"out": out.detach(), "x": x.grad, "values": values.grad}
    found |= {name: p.grad for name, p in layer.named_parameters()}
    return {name: tensor.double() for name, tensor in found.items() if tensor is not None and tensor.numel()}


def assert_agrees(layer, inputs, view):
    found = answer_and_gradients(layer, inputs, view, fused=True, dtype=torch.float32)
    expected = answer_and_gradients(layer, inputs, view, fused=False, dtype=torch.float64)
    assert found.keys() == expected.keys()
    for name, tensor in expected.items():
        assert (found[name] - tensor).norm() <= 2e-5 * tensor.norm() + 1e-6, name


@pytest.mark.parametrize(("message", "aggregation"), FUSED)
@pytest.mark.parametrize("hidden", [4, 16, 24, 37])
def test_answer_and_gradients_are_those_of_the_reference(message, aggregation, hidden, view):
    assert_agrees(make(message, aggregation, hidden), given(view, 9, hidden), view)


@pytest.mark.parametrize(
    "options",
    [{"residual": False}, {"normalization": "none"}, {"normalization": "graph_norm", "residual": False}],
)
def test_any_update(options, view):
    assert_agrees(make("mlp", "mean", 24, **options), given(view, 6, 24), view)


@pytest.mark.parametrize("batch", [1, 31, 32, 33, 70])
def test_any_batch_size(batch, view):
    assert_agrees(make("gated_mlp", (batch % 2 and "sum") or "mean"), given(view, batch, 8, seed=batch), view)


@pytest.mark.parametrize(
    "options", [{"edge_inputs": 0}, {"edge_features": ["syndrome_bit"]}, {"edge_features": ["distance"]}]
)
def test_any_edge_features(options, view):
    edge_inputs = options.get("edge_inputs", 2)
    assert_agrees(make("residual_mlp", **options), given(view, 5, 8, edge_inputs), view)


def test_activations_far_out(view):
    inputs = given(view, 6, 8, scale=200.0)
    assert_agrees(make("gated_mlp"), inputs, view)
    found = answer_and_gradients(make("mlp"), inputs, view, fused=True, dtype=torch.float32)
    assert all(tensor.isfinite().all() for tensor in found.values())


def some_weights(view, rule, h=8, k=2):
    size = 2 * h if rule == "gated_mlp" else h
    shapes = [(2 * size, h), (2 * size,), (size, k), (view.n_edges, size), (h, h), (h,), (h, h), (h,), (h,)]
    return LayerWeights(*(torch.linspace(-1, 1, math.prod(shape)).reshape(shape) for shape in shapes))


def test_threads_change_no_bit(view):
    before = torch.get_num_threads()
    try:
        results = []
        for threads in (1, 2, 3, 1):
            torch.set_num_threads(threads)
            x, bits, values = given(view, 100, 8)
            weights = some_weights(view, "gated_mlp")
            asked = [tensor.requires_grad_() for tensor in (x, values, *weights) if tensor is not None]
            out = fused_layer("gated_mlp", view, x, bits, values, weights, mean=False)
            gradients = torch.autograd.grad((out * bits[..., None]).sum(), asked)
            results.append((out.detach(), *gradients))
    finally:
        torch.set_num_threads(before)
    for result in results[1:]:
        assert all(torch.equal(a, b) for a, b in zip(result, results[0], strict=True))


def test_the_fused_path_is_taken_only_where_it_holds(view, monkeypatch):
    def refuse(*args, **options):
        raise RuntimeError("fused")

    monkeypatch.setattr("autoqec.decoders.modules.fused_layer.fused_layer", refuse)
    x, bits, values = given(view, 3, 8)

    def run(layer, dtype=torch.float32):
        return layer.to(dtype)(
            x.to(dtype), Shots(bits.to(dtype), values.to(dtype)), copy.deepcopy(view).to(dtype)
        )

    for message, aggregation in FUSED:
        with pytest.raises(RuntimeError, match="fused"):
            run(make(message, aggregation))
    run(make("attention"))
    run(make("mlp", "max"))
    run(make("mlp", normalization="edge_norm"))
    run(make(), torch.float64)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        run(make())
    off = make()
    off.fused = False
    run(off)


def test_an_empty_batch(view):
    layer = make("gated_mlp")
    out = layer(
        torch.zeros(0, view.n_nodes, 8),
        Shots(torch.zeros(0, view.n_nodes), torch.zeros(0, view.n_outputs, 2)),
        view,
    )
    assert out.shape == (0, view.n_nodes, 8)
    out.sum().backward()
    assert not layer.message.src.weight.grad.any()


def test_tensors_that_do_not_fit_are_named(view):
    x, bits, values = given(view, 2, 8)
    weights = some_weights(view, "mlp")
    fused_layer("mlp", view, x, bits, values, weights, mean=True)
    with pytest.raises(InputError, match="values: got shape"):
        fused_layer("mlp", view, x, bits, values[:, 1:], weights, mean=True)
    with pytest.raises(InputError, match=r"weights\.mix: got shape"):
        fused_layer("gated_mlp", view, x, bits, values, weights, mean=True)
    double = weights._replace(static=weights.static.double())
    with pytest.raises(InputError, match=r"weights\.static: the tensor is torch\.float64"):
        fused_layer("mlp", view, x, bits, values, double, mean=True)


@pytest.mark.parametrize(("message", "aggregation"), [("attention", "sum"), ("gru_cell", "max")])
def test_a_batch_in_parts_is_the_batch_whole(message, aggregation, view, monkeypatch):
    layer = make(message, aggregation, normalization="batch").train()
    inputs = given(view, 11, 8)
    whole = answer_and_gradients(layer, inputs, view, fused=True, dtype=torch.float32)
    monkeypatch.setattr(gnn, "_EDGE_BYTES", 3 * 4 * view.n_directed * layer.message.edge_parts * 8)
    parts = answer_and_gradients(layer, inputs, view, fused=True, dtype=torch.float32)
    for name, tensor in whole.items():
        torch.testing.assert_close(parts[name], tensor, rtol=1e-4, atol=1e-4, msg=name)


def test_sums_and_look_ups_are_each_others_gradient():
    key = np.array([4, 0, 2, 2, 4, 4, 0])  # groups 1, 3 and 5 are empty
    segments = Segments(key, 6).double()
    rows = torch.randn(2, 7, 3, dtype=torch.float64, requires_grad=True)
    groups = torch.randn(2, 6, 3, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(segments.sum, rows)
    assert torch.autograd.gradcheck(segments.spread, groups)
    assert torch.autograd.gradgradcheck(lambda r: segments.sum(r).square(), rows)
    torch.testing.assert_close(segments.sum(rows)[:, 2], rows[:, 2:4].sum(dim=1))
    assert not segments.sum(rows)[:, 3].any()
