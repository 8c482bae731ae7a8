"""The messages of a graph network on a GPU, made and summed by Triton kernels, with gradients.

The kernels are in `autoqec.decoders.backends._kernels.device_messages`. Answers and gradients are the same bits on every run.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from autoqec.decoders.backends._kernels import device_messages as kernels
from autoqec.decoders.modules.device_kernels import one_at_a_time
from autoqec.decoders.modules.graph_view import GraphView

_BLOCK = 32


class _Graph(NamedTuple):
    node_ptr: Tensor
    entering: Tensor
    source: Tensor
    target: Tensor
    output_of: Tensor
    nodes: int
    outputs: int
    edges: int


class _Inputs(NamedTuple):
    ends: Tensor
    edge_values: Tensor
    weight: Tensor
    static: Tensor


class _Gradients(NamedTuple):
    edge_values: Tensor
    weight: Tensor
    static: Tensor


@one_at_a_time
def _graph(view: GraphView) -> _Graph:
    """Made once for each device that the view is on."""
    made: dict[torch.device, _Graph] = view.__dict__.setdefault("_device_graphs", {})
    device = view.source.device
    if device not in made:
        counts = torch.bincount(view.target, minlength=view.n_nodes)
        starts = torch.cat([counts.new_zeros(1), counts.cumsum(0)])
        made[device] = _Graph(
            _table(starts),
            _table(view.target.argsort(stable=True)),
            _table(view.source),
            _table(view.target),
            _table(view.output_of),
            nodes=view.n_nodes,
            outputs=view.n_outputs,
            edges=view.n_edges,
        )
    return made[device]


def _table(indices: Tensor) -> Tensor:
    return indices.to(torch.int32).contiguous()


def sum_of_messages(
    rule: str, view: GraphView, ends: Tensor, values: Tensor, weight: Tensor, static: Tensor, width: int
) -> Tensor:
    """What the neighbours of each node tell it, added up: [batch, n_nodes, width], in single precision.

    Args:
        rule: of a `SiluMessage`.
        ends: [batch, n_nodes, .], single precision or bfloat16: what a node contributes as source, `parts * width` numbers, then as many
            as target, then for `residual_mlp` the `width` numbers that it passes on as they are. There are two parts for `gated_mlp`.
        values: [batch, n_outputs, k], of the undirected edges.
        weight: [parts * width, k] by which values enter.
        static: [n_edges, parts * width], added on every edge in both directions.

    Gradients may be taken once.
    """
    total: Tensor = _Messages.apply(ends, values, weight, static, view, rule, width)  # type: ignore[no-untyped-call]
    return total


class _Messages(torch.autograd.Function):
    @staticmethod
    @one_at_a_time
    def forward(ctx: Any, *args: Any) -> Tensor:
        ends, values, weight, static, view, rule, width = args
        given = (values, weight, static)
        inputs = _Inputs(ends.contiguous(), *(tensor.float().contiguous() for tensor in given))
        ctx.save_for_backward(*inputs)
        ctx.view = view
        ctx.options = {
            "WIDTH": width,
            "PADDED": max(16, 1 << (width - 1).bit_length()),
            "K": values.shape[2],
            "GATED": rule == "gated_mlp",
            "CARRIES": rule == "residual_mlp",
            "BLOCK": _BLOCK,
        }
        batch = len(ends)
        total: Tensor = ends.new_empty(batch, view.n_nodes, width, dtype=torch.float32)
        if batch:
            grid = view.n_nodes, _blocks(batch)
            kernels.messages_forward[grid](inputs, _graph(view), total, batch, **ctx.options)
        return total

    @staticmethod
    @once_differentiable
    @one_at_a_time
    def backward(ctx: Any, *upstream: Tensor) -> tuple[Any, ...]:
        inputs = _Inputs(*ctx.saved_tensors)
        ends, values, weight, static = inputs
        view = ctx.view
        above = upstream[0].float().contiguous()
        batch, blocks = len(ends), _blocks(len(ends))
        by_ends = torch.zeros_like(ends)
        by = _Gradients(
            edge_values=values.new_zeros(batch, view.n_edges, values.shape[2]),
            weight=values.new_zeros(blocks, view.n_edges, *weight.shape),
            static=values.new_zeros(blocks, *static.shape),
        )
        if batch:
            graph = _graph(view)
            kernels.nodes_backward[(view.n_nodes, blocks)](
                inputs, graph, above, by_ends, batch, **ctx.options
            )
            kernels.edges_backward[(view.n_edges, blocks)](inputs, graph, above, by, batch, **ctx.options)
        by_values = by.edge_values if view.on_matching_graph else view.by_output.sum(by.edge_values)
        return by_ends, by_values, by.weight.sum((0, 1)), by.static.sum(0), None, None, None


def _blocks(batch: int) -> int:
    return -(-batch // _BLOCK)
