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


class _Tables(NamedTuple):
    node_ptr: Tensor
    entering: Tensor
    source: Tensor
    target: Tensor
    output_of: Tensor


@one_at_a_time
def _tables(view: GraphView) -> _Tables:
    """Made once for each device that the view is on."""
    made: dict[torch.device, _Tables] = view.__dict__.setdefault("_device_tables", {})
    device = view.source.device
    if device not in made:
        counts = torch.bincount(view.target, minlength=view.n_nodes)
        starts = torch.cat([counts.new_zeros(1), counts.cumsum(0)])
        tables = starts, view.target.argsort(stable=True), view.source, view.target, view.output_of
        made[device] = _Tables(*(table.to(torch.int32).contiguous() for table in tables))
    return made[device]


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
        ends, values = ends.contiguous(), values.float().contiguous()
        weight, static = weight.float().contiguous(), static.float().contiguous()
        ctx.save_for_backward(ends, values, weight, static)
        ctx.view, ctx.tables = view, _tables(view)
        ctx.options = {
            "WIDTH": width,
            "PADDED": max(16, 1 << (width - 1).bit_length()),
            "K": values.shape[2],
            "GATED": rule == "gated_mlp",
            "CARRIES": rule == "residual_mlp",
            "BLOCK": _BLOCK,
        }
        total: Tensor = ends.new_empty(len(ends), view.n_nodes, width, dtype=torch.float32)
        node_ptr, entering, source, _, output_of = ctx.tables
        if len(ends):
            kernels.messages_forward[(view.n_nodes, _blocks(ends))](
                ends, values, weight, static, node_ptr, entering, source, output_of, total, len(ends), view.n_nodes,
                view.n_outputs, view.n_edges, **ctx.options,
            )  # fmt: skip
        return total

    @staticmethod
    @once_differentiable
    @one_at_a_time
    def backward(ctx: Any, *upstream: Tensor) -> tuple[Any, ...]:
        ends, values, weight, static = ctx.saved_tensors
        view, tables = ctx.view, ctx.tables
        above = upstream[0].float().contiguous()
        batch, blocks = len(ends), _blocks(ends)
        by_ends = torch.zeros_like(ends)
        by_values = values.new_zeros(batch, view.n_edges, values.shape[2])
        by_static = values.new_zeros(blocks, *static.shape)
        by_weight = values.new_zeros(blocks, view.n_edges, *weight.shape)
        sizes = batch, view.n_nodes, view.n_outputs, view.n_edges
        if batch:
            kernels.nodes_backward[(view.n_nodes, blocks)](
                ends, values, weight, static, tables.node_ptr, tables.entering, tables.source, tables.output_of, above,
                by_ends, *sizes, **ctx.options,
            )  # fmt: skip
            kernels.edges_backward[(view.n_edges, blocks)](
                ends, values, weight, static, tables.source, tables.target, tables.output_of, above, by_values, by_weight,
                by_static, *sizes, **ctx.options,
            )  # fmt: skip
        if not view.on_matching_graph:
            by_values = view.by_output.sum(by_values)
        return by_ends, by_values, by_weight.sum((0, 1)), by_static.sum(0), None, None, None


def _blocks(ends: Tensor) -> int:
    return -(-len(ends) // _BLOCK)
