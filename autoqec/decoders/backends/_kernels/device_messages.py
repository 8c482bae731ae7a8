"""Messages of a graph network on a GPU, made and summed without a tensor on the edges, and their gradients, in Triton.

The messages are those of `messages`; with u -> v a directed edge, z = src_u + dst_v + t. One program has a block of shots and all edges of
one node, or one edge; sums are gathered, never scattered, so that every run gives the same bits. Going back makes each z again.

ends: [shot, node, columns], columns being src, dst (each twice as wide if gated: content, gate), and carry for residual messages.
values: [shot, output, K]. weight: [size, K], static: [edge, size], with size the width, or twice that if gated.

Kernels take these in named tuples, which the caller makes: inputs, with all four; graph, with node_ptr, entering (directed edges by the
node they enter, from node_ptr on), source, target and output_of (of directed edges), and the numbers of nodes, outputs and edges.
"""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def _end(ends, graph, node, offset, columns, shots, cols, here):  # type: ignore[no-untyped-def]
    at = (shots * graph.nodes + node)[:, None] * columns + offset + cols[None, :]
    return tl.load(ends + at, mask=here, other=0.0).to(tl.float32)


@triton.jit
def _shared(  # type: ignore[no-untyped-def]
    inputs, graph, edge, output, part, size, shots, inside, cols, used, K: tl.constexpr
):
    """What both directions of an edge have in common: [shot, column]."""
    t = tl.load(inputs.static + edge * size + part + cols, mask=used, other=0.0)[None, :]
    t += tl.zeros_like(shots).to(tl.float32)[:, None]
    for k in tl.static_range(K):
        value = tl.load(
            inputs.edge_values + (shots * graph.outputs + output) * K + k, mask=inside, other=0.0
        ).to(tl.float32)
        t += value[:, None] * tl.load(inputs.weight + (part + cols) * K + k, mask=used, other=0.0)[None, :]
    return t


@triton.jit
def _slopes(z, gate, GATED: tl.constexpr):  # type: ignore[no-untyped-def]
    """Derivatives of a message by z and by the gate."""
    s = tl.sigmoid(z)
    slope = s + z * s * (1.0 - s)
    by_gate = slope
    if GATED:
        open_ = tl.sigmoid(gate)
        by_gate = z * s * open_ * (1.0 - open_)
        slope = slope * open_
    return slope, by_gate


@triton.jit(do_not_specialize=["batch"])
def messages_forward(  # type: ignore[no-untyped-def]
    inputs, graph, total, batch,
    WIDTH: tl.constexpr, PADDED: tl.constexpr, K: tl.constexpr, GATED: tl.constexpr, CARRIES: tl.constexpr,
    BLOCK: tl.constexpr,
):  # fmt: skip
    """total [shot, node, width]."""
    node = tl.program_id(0)
    shots = (tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)).to(tl.int64)
    inside = shots < batch
    cols = tl.arange(0, PADDED)
    used = cols < WIDTH
    here = inside[:, None] & used[None, :]
    SIZE: tl.constexpr = 2 * WIDTH if GATED else WIDTH
    COLUMNS: tl.constexpr = 2 * SIZE + (WIDTH if CARRIES else 0)
    to_here = _end(inputs.ends, graph, node, SIZE, COLUMNS, shots, cols, here)
    gate_here = to_here
    if GATED:
        gate_here = _end(inputs.ends, graph, node, SIZE + WIDTH, COLUMNS, shots, cols, here)
    summed = tl.zeros([BLOCK, PADDED], tl.float32)
    for i in range(tl.load(graph.node_ptr + node), tl.load(graph.node_ptr + node + 1)):
        directed = tl.load(graph.entering + i)
        edge, other = directed % graph.edges, tl.load(graph.source + directed)
        output = tl.load(graph.output_of + directed)
        z = _end(inputs.ends, graph, other, 0, COLUMNS, shots, cols, here) + to_here
        z += _shared(inputs, graph, edge, output, 0, SIZE, shots, inside, cols, used, K)
        m = z * tl.sigmoid(z)
        if GATED:
            gate = _end(inputs.ends, graph, other, WIDTH, COLUMNS, shots, cols, here) + gate_here
            gate += _shared(inputs, graph, edge, output, WIDTH, SIZE, shots, inside, cols, used, K)
            m *= tl.sigmoid(gate)
        if CARRIES:
            m += _end(inputs.ends, graph, other, 2 * SIZE, COLUMNS, shots, cols, here)
        summed += m
    tl.store(total + (shots * graph.nodes + node)[:, None] * WIDTH + cols[None, :], summed, mask=here)


@triton.jit(do_not_specialize=["batch"])
def nodes_backward(  # type: ignore[no-untyped-def]
    inputs, graph, above, by_ends, batch,
    WIDTH: tl.constexpr, PADDED: tl.constexpr, K: tl.constexpr, GATED: tl.constexpr, CARRIES: tl.constexpr,
    BLOCK: tl.constexpr,
):  # fmt: skip
    """by_ends like ends, from `above` like total. Every edge that enters a node also leaves it, the other way round."""
    node = tl.program_id(0)
    shots = (tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)).to(tl.int64)
    inside = shots < batch
    cols = tl.arange(0, PADDED)
    used = cols < WIDTH
    here = inside[:, None] & used[None, :]
    SIZE: tl.constexpr = 2 * WIDTH if GATED else WIDTH
    COLUMNS: tl.constexpr = 2 * SIZE + (WIDTH if CARRIES else 0)
    from_here, to_here = (
        _end(inputs.ends, graph, node, 0, COLUMNS, shots, cols, here),
        _end(inputs.ends, graph, node, SIZE, COLUMNS, shots, cols, here),
    )
    gate_from, gate_to = from_here, to_here
    if GATED:
        gate_from = _end(inputs.ends, graph, node, WIDTH, COLUMNS, shots, cols, here)
        gate_to = _end(inputs.ends, graph, node, SIZE + WIDTH, COLUMNS, shots, cols, here)
    above_here = _end(above, graph, node, 0, WIDTH, shots, cols, here)
    by_src, by_dst = tl.zeros([BLOCK, PADDED], tl.float32), tl.zeros([BLOCK, PADDED], tl.float32)
    by_src_gate, by_dst_gate = tl.zeros([BLOCK, PADDED], tl.float32), tl.zeros([BLOCK, PADDED], tl.float32)
    by_carry = tl.zeros([BLOCK, PADDED], tl.float32)
    for i in range(tl.load(graph.node_ptr + node), tl.load(graph.node_ptr + node + 1)):
        directed = tl.load(graph.entering + i)
        edge, other = directed % graph.edges, tl.load(graph.source + directed)
        output = tl.load(graph.output_of + directed)
        t = _shared(inputs, graph, edge, output, 0, SIZE, shots, inside, cols, used, K)
        z_in = _end(inputs.ends, graph, other, 0, COLUMNS, shots, cols, here) + to_here + t
        z_out = from_here + _end(inputs.ends, graph, other, SIZE, COLUMNS, shots, cols, here) + t
        gate_in, gate_out = z_in, z_out
        if GATED:
            t = _shared(inputs, graph, edge, output, WIDTH, SIZE, shots, inside, cols, used, K)
            gate_in = _end(inputs.ends, graph, other, WIDTH, COLUMNS, shots, cols, here) + gate_to + t
            gate_out = (
                gate_from + _end(inputs.ends, graph, other, SIZE + WIDTH, COLUMNS, shots, cols, here) + t
            )
        above_other = _end(above, graph, other, 0, WIDTH, shots, cols, here)
        slope_in, gate_slope_in = _slopes(z_in, gate_in, GATED)
        slope_out, gate_slope_out = _slopes(z_out, gate_out, GATED)
        by_dst += above_here * slope_in
        by_src += above_other * slope_out
        if GATED:
            by_dst_gate += above_here * gate_slope_in
            by_src_gate += above_other * gate_slope_out
        if CARRIES:
            by_carry += above_other
    at = by_ends + (shots * graph.nodes + node)[:, None] * COLUMNS + cols[None, :]
    tl.store(at, by_src, mask=here)
    tl.store(at + SIZE, by_dst, mask=here)
    if GATED:
        tl.store(at + WIDTH, by_src_gate, mask=here)
        tl.store(at + SIZE + WIDTH, by_dst_gate, mask=here)
    if CARRIES:
        tl.store(at + 2 * SIZE, by_carry, mask=here)


@triton.jit
def _edge_gradient(  # type: ignore[no-untyped-def]
    by_t, inputs, graph, gradients, edge, output, part, size, block, shots, inside, cols, used, K: tl.constexpr
):  # fmt: skip
    """Sums of by_t [shot, column] over the block's shots, by the static term and by the weights of the values."""
    at = (block * graph.edges + edge) * size + part + cols
    tl.store(gradients.static + at, tl.sum(by_t, axis=0), mask=used)
    for k in tl.static_range(K):
        value = tl.load(
            inputs.edge_values + (shots * graph.outputs + output) * K + k, mask=inside, other=0.0
        ).to(tl.float32)
        tl.store(gradients.weight + at * K + k, tl.sum(by_t * value[:, None], axis=0), mask=used)


@triton.jit(do_not_specialize=["batch"])
def edges_backward(  # type: ignore[no-untyped-def]
    inputs, graph, above, gradients, batch,
    WIDTH: tl.constexpr, PADDED: tl.constexpr, K: tl.constexpr, GATED: tl.constexpr, CARRIES: tl.constexpr,
    BLOCK: tl.constexpr,
):  # fmt: skip
    """gradients: edge_values [shot, edge, K]; static [block, edge, size] and weight [block, edge, size, K], sums over the block's shots."""
    edge = tl.program_id(0)
    block = tl.program_id(1)
    shots = (block * BLOCK + tl.arange(0, BLOCK)).to(tl.int64)
    inside = shots < batch
    cols = tl.arange(0, PADDED)
    used = cols < WIDTH
    here = inside[:, None] & used[None, :]
    SIZE: tl.constexpr = 2 * WIDTH if GATED else WIDTH
    COLUMNS: tl.constexpr = 2 * SIZE + (WIDTH if CARRIES else 0)
    u, v, output = tl.load(graph.source + edge), tl.load(graph.target + edge), tl.load(graph.output_of + edge)
    t = _shared(inputs, graph, edge, output, 0, SIZE, shots, inside, cols, used, K)
    z_u = (
        _end(inputs.ends, graph, u, 0, COLUMNS, shots, cols, here)
        + _end(inputs.ends, graph, v, SIZE, COLUMNS, shots, cols, here)
        + t
    )
    z_v = (
        _end(inputs.ends, graph, v, 0, COLUMNS, shots, cols, here)
        + _end(inputs.ends, graph, u, SIZE, COLUMNS, shots, cols, here)
        + t
    )
    gate_u, gate_v = z_u, z_v
    if GATED:
        t = _shared(inputs, graph, edge, output, WIDTH, SIZE, shots, inside, cols, used, K)
        gate_u = _end(inputs.ends, graph, u, WIDTH, COLUMNS, shots, cols, here) + t
        gate_u += _end(inputs.ends, graph, v, SIZE + WIDTH, COLUMNS, shots, cols, here)
        gate_v = _end(inputs.ends, graph, v, WIDTH, COLUMNS, shots, cols, here) + t
        gate_v += _end(inputs.ends, graph, u, SIZE + WIDTH, COLUMNS, shots, cols, here)
    slope_u, gate_slope_u = _slopes(z_u, gate_u, GATED)
    slope_v, gate_slope_v = _slopes(z_v, gate_v, GATED)
    above_u = _end(above, graph, u, 0, WIDTH, shots, cols, here)
    above_v = _end(above, graph, v, 0, WIDTH, shots, cols, here)
    by_t = above_v * slope_u + above_u * slope_v
    by_gate = above_v * gate_slope_u + above_u * gate_slope_v
    _edge_gradient(by_t, inputs, graph, gradients, edge, output, 0, SIZE, block, shots, inside, cols, used, K)
    if GATED:
        _edge_gradient(
            by_gate, inputs, graph, gradients, edge, output, WIDTH, SIZE, block, shots, inside, cols, used, K
        )
    for k in tl.static_range(K):
        by_value = tl.sum(by_t * tl.load(inputs.weight + cols * K + k, mask=used, other=0.0)[None, :], axis=1)
        if GATED:
            gate_weight = tl.load(inputs.weight + (WIDTH + cols) * K + k, mask=used, other=0.0)[None, :]
            by_value += tl.sum(by_gate * gate_weight, axis=1)
        tl.store(gradients.edge_values + (shots * graph.edges + edge) * K + k, by_value, mask=inside)
