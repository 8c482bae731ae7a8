"""A layer of a graph network on a CPU in one compiled pass, with gradients.

The function is that of `gnn.Layer` with messages of `RULES`, added up or averaged; the kernels are in
`autoqec.decoders.backends._kernels.graph_layer`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional

from autoqec.decoders.backends._kernels import graph_layer
from autoqec.decoders.backends._kernels.graph_layer import RULES
from autoqec.decoders.backends._kernels.pieces import in_pieces, read_only
from autoqec.decoders.backends._kernels.simd import LANES
from autoqec.decoders.modules.compiled import as_array, groups_of
from autoqec.decoders.modules.graph_view import GraphView
from autoqec.errors import InputError

F32 = npt.NDArray[np.float32]
_SHOTS_PER_THREAD = 8


class LayerWeights(NamedTuple):
    """h is the width, parts two for `gated_mlp`, else one.

    mix: [2 * parts * h, h], what a node contributes as source and as target. bits: [2 * parts * h] times the node's bit, or None.
    values: [parts * h, k], by which values enter. static: [n_edges, parts * h], added on every edge in both directions. take: [h, h] and
    bias: [h]. keep: [h, h], or None to add x itself. gain and shift: [h] of a normalisation over the features, or None.
    """

    mix: Tensor
    bits: Tensor | None
    values: Tensor
    static: Tensor
    take: Tensor
    bias: Tensor
    keep: Tensor | None
    gain: Tensor | None
    shift: Tensor | None


def fused_layer(
    rule: str, view: GraphView, x: Tensor, bits: Tensor, values: Tensor, weights: LayerWeights, *, mean: bool
) -> Tensor:
    """x: [batch, n_nodes, h] -> the same. bits: [batch, n_nodes], values: [batch, n_outputs, k] of the undirected edges.

    Single precision. Gradients may be taken once. Neither answer nor gradients depend on the number of torch's threads, bit by bit.
    """
    batch, h = x.shape[0], x.shape[2]
    size = (2 if rule == "gated_mlp" else 1) * h
    shapes = {
        "x": (x, (batch, view.n_nodes, h)),
        "bits": (bits, (batch, view.n_nodes)),
        "values": (values, (batch, view.n_outputs, weights.values.shape[1])),
        "weights.mix": (weights.mix, (2 * size, h)),
        "weights.bits": (weights.bits, (2 * size,)),
        "weights.values": (weights.values, (size, weights.values.shape[1])),
        "weights.static": (weights.static, (view.n_edges, size)),
        "weights.take": (weights.take, (h, h)),
        "weights.bias": (weights.bias, (h,)),
        "weights.keep": (weights.keep, (h, h)),
        "weights.gain": (weights.gain, (h,)),
        "weights.shift": (weights.shift, (h,)),
    }
    for name, (tensor, shape) in shapes.items():
        if tensor is None:
            continue
        if tuple(tensor.shape) != shape:
            raise InputError(f"got shape {tuple(tensor.shape)}, expected {shape}", where=name)
        if tensor.device.type != "cpu" or tensor.dtype != torch.float32:
            raise InputError(
                f"the tensor is {tensor.dtype} on {tensor.device}",
                where=name,
                hint="use torch.float32 on a CPU, or the torch path",
            )
    none = x.new_empty(0)
    tensors = [none if each is None else each for each in weights]
    answer: Tensor = _Layer.apply(x, bits, values, *tensors, view, rule, mean)  # type: ignore[no-untyped-call]
    return answer


class _Layer(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, *args: Any) -> Tensor:
        x, bits, values, *tensors, view, rule, mean = args
        ctx.save_for_backward(x, bits, values, *tensors)
        ctx.given = _given(view, x, bits, values, LayerWeights(*tensors), mean)
        ctx.rule = rule
        edges, terms, weights, shots = ctx.given
        batch, nodes, width = x.shape
        goes_back = any(ctx.needs_input_grad)
        ctx.kept = np.empty((batch if goes_back else 0, nodes * _vectors(width), LANES), dtype=np.float32)
        answer = np.empty(x.shape, dtype=np.float32)
        in_pieces(
            lambda start, stop: RULES[rule].forward(
                edges, terms, weights, shots, start, stop, ctx.kept, answer
            ),
            batch,
            torch.get_num_threads(),
            worth_a_thread=_SHOTS_PER_THREAD,
        )
        return torch.from_numpy(answer)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *upstream: Tensor) -> tuple[Any, ...]:
        x, _, values, *tensors = ctx.saved_tensors
        edges, terms, weights, shots = ctx.given
        h = x.shape[2]
        groups, bounds = groups_of(x.shape[0])
        above = as_array(upstream[0])
        by_x, by_values = (np.zeros(each.shape, dtype=np.float32) for each in (x, values))
        like = [
            terms.weight,
            terms.static,
            weights.mix,
            weights.bits,
            weights.take,
            weights.bias,
            weights.keep,
            weights.gain,
            weights.shift,
        ]
        parts = [np.zeros((groups, *each.shape), dtype=np.float32) for each in like]
        gradients = graph_layer.Gradients(by_x, by_values, *parts)
        in_pieces(
            lambda start, stop: RULES[ctx.rule].backward(
                edges, terms, weights, shots, ctx.kept, above, bounds, start, stop, gradients
            ),
            groups,
            torch.get_num_threads(),
            worth_a_thread=1,
        )
        weight, static, mix, bits, take, bias, keep, gain, shift = (part.sum(axis=0) for part in parts)
        given = LayerWeights(*tensors)
        return (
            torch.from_numpy(by_x),
            None,
            torch.from_numpy(by_values),
            _narrow(mix, h, given.mix.shape[0]).T,
            _narrow(bits, h, given.bits.shape[0])[0] if given.bits.numel() else None,  # type: ignore[union-attr]
            _narrow(weight, h, given.values.shape[0]).T,
            _narrow(static, h, given.static.shape[1]),
            _narrow(take, h, h).T,
            _narrow(bias, h, h)[0],
            *(_narrow(keep, h, h).T if len(keep) else None,),
            *(_narrow(each, h, h)[0] if len(each) else None for each in (gain, shift)),
            None,
            None,
            None,
        )


def _given(
    view: GraphView, x: Tensor, bits: Tensor, values: Tensor, weights: LayerWeights, mean: bool
) -> Any:
    """What the kernels take: edges, terms of the edges, weights, shots."""
    h = x.shape[2]
    tables = view.source, view.target, view.output_of
    edges = graph_layer.Edges(*(read_only(table[: view.n_edges].numpy()) for table in tables))
    terms = graph_layer.Terms(_padded(weights.values.T, h), _padded(weights.static, h))
    keep, gain, shift, column = weights.keep, weights.gain, weights.shift, weights.bits
    if keep is None or gain is None or shift is None or column is None:
        raise ValueError("missing tensors are empty here")
    none = np.empty((0, LANES), dtype=np.float32)
    count = view.by_target.count[:, 0].clamp(min=1.0)
    given = graph_layer.Weights(
        mix=_padded(weights.mix.T, h),
        mix_back=_padded(weights.mix, h),
        bits=_padded((column if column.numel() else weights.mix.new_zeros(weights.mix.shape[0]))[None], h),
        take=_padded(weights.take.T, h),
        take_back=_padded(weights.take, h),
        bias=_padded(weights.bias[None], h),
        keep=_padded(keep.T, h) if keep.numel() else none,
        keep_back=_padded(keep, h) if keep.numel() else none,
        gain=_padded(gain[None], h) if gain.numel() else none,
        shift=_padded(shift[None], h) if gain.numel() else none,
        inside=_padded(x.new_ones(1, h), h),
        share=as_array(1.0 / count if mean else torch.ones_like(count)),
    )
    given = graph_layer.Weights(*map(read_only, given))
    return edges, terms, given, graph_layer.Shots(as_array(x), as_array(bits), as_array(values))


def _vectors(width: int) -> int:
    return -(-width // LANES)


def _padded(rows: Tensor, width: int) -> F32:
    """[n, parts * width] -> [n * vectors, LANES]: each part padded with zeros to whole vectors."""
    parts = rows.detach().reshape(rows.shape[0], rows.shape[1] // width, width)
    padded = functional.pad(parts, (0, -width % LANES))
    return read_only(padded.reshape(-1, LANES).contiguous().numpy())


def _narrow(vectors: F32, width: int, columns: int) -> Tensor:
    """The reverse of `_padded`: rows of `columns` numbers."""
    parts = columns // width
    padded = torch.from_numpy(vectors).reshape(-1, parts, _vectors(width) * LANES)
    return padded[..., :width].reshape(-1, columns)
