"""The messages of a graph network on a CPU, made and summed in one compiled pass, with gradients.

The kernels are in `autoqec.decoders.backends._kernels.messages`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from autoqec.decoders.backends._kernels.messages import RULES, Edges, Gradients, Inputs
from autoqec.decoders.backends._kernels.pieces import in_pieces, read_only
from autoqec.decoders.backends._kernels.simd import LANES
from autoqec.decoders.modules.compiled import as_array, groups_of
from autoqec.decoders.modules.graph_view import GraphView
from autoqec.errors import InputError

F32 = npt.NDArray[np.float32]
_SHOTS_PER_THREAD = 8


def sum_of_messages(
    rule: str, view: GraphView, ends: Tensor, values: Tensor, weight: Tensor, static: Tensor, width: int
) -> Tensor:
    """What the neighbours of each node tell it, added up: [batch, n_nodes, width].

    Args:
        rule: a message function of `RULES`, which has one part, or two for `gated_mlp`.
        ends: [batch, n_nodes, .]: what a node contributes as source, `parts * width` numbers, then as many as
            target, then for `residual_mlp` the `width` numbers that it passes on as they are.
        values: [batch, n_outputs, k], of the undirected edges.
        weight: [parts * width, k] by which values enter.
        static: [n_edges, parts * width], added on every edge in both directions.

    Single precision. Gradients may be taken once. Neither answer nor gradients depend on the number of torch's
    threads, bit by bit.
    """
    parts = weight.shape[0] // width
    carried = width if rule == "residual_mlp" else 0
    shapes = {
        "ends": (ends, (ends.shape[0], view.n_nodes, 2 * parts * width + carried)),
        "values": (values, (ends.shape[0], view.n_outputs, weight.shape[1])),
        "weight": (weight, ((2 if rule == "gated_mlp" else 1) * width, weight.shape[1])),
        "static": (static, (view.n_edges, weight.shape[0])),
    }
    for name, (tensor, shape) in shapes.items():
        if tuple(tensor.shape) != shape:
            raise InputError(f"got shape {tuple(tensor.shape)}, expected {shape}", where=name)
        if tensor.device.type != "cpu" or tensor.dtype != torch.float32:
            raise InputError(
                f"the tensor is {tensor.dtype} on {tensor.device}",
                where=name,
                hint="use torch.float32 on a CPU, or the torch path",
            )
    answer: Tensor = _Messages.apply(ends, values, weight, static, view, rule, width)  # type: ignore[no-untyped-call]
    return answer


class _Messages(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, *args: Any) -> Tensor:
        ends, values, weight, static, view, rule, width = args
        ctx.save_for_backward(ends, values, weight, static)
        ctx.view, ctx.rule, ctx.width = view, rule, width
        edges, inputs = _edges(view), _inputs(ends, values, weight, static, width)
        total = np.empty((*ends.shape[:2], width), dtype=np.float32)
        in_pieces(
            lambda start, stop: RULES[rule].forward(edges, inputs, start, stop, total),
            len(total),
            torch.get_num_threads(),
            worth_a_thread=_SHOTS_PER_THREAD,
        )
        return torch.from_numpy(total)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *upstream: Tensor) -> tuple[Any, ...]:
        ends, values, weight, static = ctx.saved_tensors
        width, batch = ctx.width, ends.shape[0]
        edges, inputs = _edges(ctx.view), _inputs(ends, values, weight, static, width)
        groups, bounds = groups_of(batch)
        above = as_array(upstream[0])
        by_ends = np.empty(ends.shape, dtype=np.float32)
        by_values = np.zeros(values.shape, dtype=np.float32)
        by_weight, by_static = (
            np.zeros((groups, *rows.shape), dtype=np.float32) for rows in (inputs.weight, inputs.static)
        )
        gradients = Gradients(by_ends, by_values, by_weight, by_static)
        in_pieces(
            lambda start, stop: RULES[ctx.rule].backward(
                edges, inputs, above, bounds, start, stop, gradients
            ),
            groups,
            torch.get_num_threads(),
            worth_a_thread=1,
        )
        return (
            torch.from_numpy(by_ends),
            torch.from_numpy(by_values),
            _narrow(by_weight.sum(axis=0), weight.T.shape, width).T,
            _narrow(by_static.sum(axis=0), static.shape, width),
            None,
            None,
            None,
        )


def _edges(view: GraphView) -> Edges:
    tables = view.source, view.target, view.output_of
    return Edges(*(read_only(table[: view.n_edges].numpy()) for table in tables))


def _inputs(ends: Tensor, values: Tensor, weight: Tensor, static: Tensor, width: int) -> Inputs:
    return Inputs(as_array(ends), as_array(values), _vectors(weight.T, width), _vectors(static, width))


def _vectors(rows: Tensor, width: int) -> F32:
    """[n, parts * width] -> [n * vectors, LANES]: each part padded with zeros to whole vectors."""
    parts = rows.detach().reshape(len(rows), rows.shape[1] // width, width)
    padded = torch.nn.functional.pad(parts, (0, -width % LANES))
    return read_only(padded.reshape(-1, LANES).contiguous().numpy())


def _narrow(vectors: F32, shape: torch.Size, width: int) -> Tensor:
    """The reverse of `_vectors`: rows of `shape`."""
    padded = torch.from_numpy(vectors).reshape(shape[0], shape[1] // width, width + -width % LANES)
    return padded[..., :width].reshape(shape)
