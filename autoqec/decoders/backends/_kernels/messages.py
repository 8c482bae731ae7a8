"""Messages of a graph network, made and summed edge by edge, and their gradients, `LANES` features side by side.

For every undirected edge (u, v) with `t` the part that both directions share:

    t      = static + sum_k value_k weight_k
    z      = src_u + dst_v + t                        what u tells v; from v to u the other way round
    m      = silu(z)
           = silu(z) sigmoid(z')                      gated, with z' made like z from weights of its own
           = carry_u + silu(z)                        residual
    sum_v += m

No edge is ever in memory: a shot's nodes stay in the first-level cache, and going back makes each message again.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit

from autoqec.decoders.backends._kernels.pieces import sources_of
from autoqec.decoders.backends._kernels.simd import (
    LANES,
    LARGEST,
    exp_minus,
    greater,
    inverse,
    lesser,
    load,
    splat,
    store,
    sum_lanes,
)

_F = np.float32
_ZERO = _F(0.0)
_ONE = _F(1.0)
_TOP = _F(LARGEST)
_BOTTOM = _F(-LARGEST)


@njit
def _sigmoid(z):  # type: ignore[no-untyped-def]
    return inverse(exp_minus(greater(lesser(z, _TOP), _BOTTOM)) + _ONE)


@njit
def _add(array, row, value):  # type: ignore[no-untyped-def]
    store(array, row, load(array, row) + value)


@njit
def _spread(rows, width, padded):  # type: ignore[no-untyped-def]
    """rows [node, parts * width] -> padded [node * parts * vectors, lane]; lanes beyond `width` are left alone."""
    vectors = -(-width // LANES)
    parts = rows.shape[1] // width
    flat = padded.reshape(-1)
    for node in range(rows.shape[0]):
        for part in range(parts):
            start = (node * parts + part) * vectors * LANES
            for h in range(width):
                flat[start + h] = rows[node, part * width + h]


@njit
def _gather(padded, width, rows):  # type: ignore[no-untyped-def]
    """The reverse of `_spread`."""
    vectors = -(-width // LANES)
    parts = rows.shape[1] // width
    flat = padded.reshape(-1)
    for node in range(rows.shape[0]):
        for part in range(parts):
            start = (node * parts + part) * vectors * LANES
            for h in range(width):
                rows[node, part * width + h] = flat[start + h]


@njit
def _shared(static, weight, values, shot, output, edge, row, size):  # type: ignore[no-untyped-def]
    """Vector `row` of the part of an edge that both directions share."""
    t = load(static, edge * size + row)
    for k in range(values.shape[2]):
        t = t + load(weight, k * size + row) * values[shot, output, k]
    return t


class Edges(NamedTuple):
    """first, second: [edge] the end nodes. output: [edge] whose values it has."""

    first: Any
    second: Any
    output: Any


class Inputs(NamedTuple):
    """ends: [shot, node, (src, dst, carry)], each as wide as a message, src and dst twice that when gated.

    values: [shot, output, k]. weight: [k * vectors, lane] and static: [edge * vectors, lane], padded with zeros to whole
    vectors.
    """

    ends: Any
    values: Any
    weight: Any
    static: Any


class Gradients(NamedTuple):
    """By `Inputs`. Those by weight and static have one entry per group of shots, which add up to the whole; those by
    values start at zero.
    """

    ends: Any
    values: Any
    weight: Any
    static: Any


class Kernels(NamedTuple):
    """forward(edges, inputs, start, stop, total): sums [shot, node, width] of shots `start <= shot < stop`.

    backward(edges, inputs, upstream, bounds, start, stop, gradients): gradients of groups `start <= group < stop`; group
    i has the shots from bounds[i] to bounds[i + 1]. upstream: [shot, node, width]. Which shots share a group does not
    depend on the number of threads.
    """

    forward: Any
    backward: Any


def _compiled(gated: bool, carries: bool, sources: str) -> Kernels:
    """`gated` and `carries` are constants to numba: a branch in the inner loop would bring reference counts along."""

    @njit
    def message(nodes, sender, receiver, c, vectors, size, t, t_gate):  # type: ignore[no-untyped-def]
        """Vector c of what the node whose rows begin at `sender` tells that at `receiver`."""
        z = load(nodes, sender + c) + load(nodes, receiver + size + c) + t
        m = z * _sigmoid(z)
        if gated:
            gate = load(nodes, sender + vectors + c) + load(nodes, receiver + size + vectors + c) + t_gate
            m = m * _sigmoid(gate)
        if carries:
            m = m + load(nodes, sender + 2 * size + c)
        return m

    @njit
    def gradient(nodes, sender, receiver, c, vectors, size, t, t_gate, above, by_nodes):  # type: ignore[no-untyped-def]
        """Gradients by z and by the gate of `message`, given `above` by the message; those by the nodes are added."""
        z = load(nodes, sender + c) + load(nodes, receiver + size + c) + t
        s = _sigmoid(z)
        slope = s + z * s * (_ONE - s)
        by_gate = above
        if gated:
            gate = load(nodes, sender + vectors + c) + load(nodes, receiver + size + vectors + c) + t_gate
            open_ = _sigmoid(gate)
            by_gate = above * z * s * open_ * (_ONE - open_)
            slope = slope * open_
            _add(by_nodes, sender + vectors + c, by_gate)
            _add(by_nodes, receiver + size + vectors + c, by_gate)
        if carries:
            _add(by_nodes, sender + 2 * size + c, above)
        by_z = above * slope
        _add(by_nodes, sender + c, by_z)
        _add(by_nodes, receiver + size + c, by_z)
        return by_z, by_gate

    @njit(cache=True, nogil=True)
    def forward(edges, inputs, start, stop, total):  # type: ignore[no-untyped-def]
        first, second, output = edges
        ends, values, weight, static = inputs
        n_nodes, width = total.shape[1], total.shape[2]
        vectors = -(-width // LANES)
        size = 2 * vectors if gated else vectors
        per_node = ends.shape[2] // width * vectors
        nodes = np.zeros((n_nodes * per_node, LANES), np.float32)
        sums = np.empty((n_nodes * vectors, LANES), np.float32)
        for shot in range(start, stop if sources else start):
            _spread(ends[shot], width, nodes)
            sums[:] = _ZERO
            for edge in range(first.shape[0]):
                u, v, o = first[edge], second[edge], output[edge]
                for c in range(vectors):
                    t = _shared(static, weight, values, shot, o, edge, c, size)
                    t_gate = t
                    if gated:
                        t_gate = _shared(static, weight, values, shot, o, edge, vectors + c, size)
                    from_u = message(nodes, u * per_node, v * per_node, c, vectors, size, t, t_gate)
                    _add(sums, v * vectors + c, from_u)
                    from_v = message(nodes, v * per_node, u * per_node, c, vectors, size, t, t_gate)
                    _add(sums, u * vectors + c, from_v)
            _gather(sums, width, total[shot])

    @njit(cache=True, nogil=True)
    def backward(edges, inputs, upstream, bounds, start, stop, gradients):  # type: ignore[no-untyped-def]
        first, second, output = edges
        ends, values, weight, static = inputs
        by_ends, by_values, by_weight, by_static = gradients
        n_nodes, width = upstream.shape[1], upstream.shape[2]
        vectors = -(-width // LANES)
        size = 2 * vectors if gated else vectors
        per_node = ends.shape[2] // width * vectors
        nodes = np.zeros((n_nodes * per_node, LANES), np.float32)
        by_nodes = np.empty((n_nodes * per_node, LANES), np.float32)
        aboves = np.zeros((n_nodes * vectors, LANES), np.float32)
        by_edge = np.empty((size, LANES), np.float32)
        for group in range(start, stop if sources else start):
            group_weight, group_static = by_weight[group], by_static[group]
            for shot in range(bounds[group], bounds[group + 1]):
                _spread(ends[shot], width, nodes)
                _spread(upstream[shot], width, aboves)
                by_nodes[:] = _ZERO
                for edge in range(first.shape[0]):
                    u, v, o = first[edge], second[edge], output[edge]
                    for c in range(vectors):
                        t = _shared(static, weight, values, shot, o, edge, c, size)
                        t_gate = t
                        if gated:
                            t_gate = _shared(static, weight, values, shot, o, edge, vectors + c, size)
                        z_u, gate_u = gradient(
                            nodes, u * per_node, v * per_node, c, vectors, size, t, t_gate,
                            load(aboves, v * vectors + c), by_nodes
                        )  # fmt: skip
                        z_v, gate_v = gradient(
                            nodes, v * per_node, u * per_node, c, vectors, size, t, t_gate,
                            load(aboves, u * vectors + c), by_nodes
                        )  # fmt: skip
                        store(by_edge, c, z_u + z_v)
                        if gated:
                            store(by_edge, vectors + c, gate_u + gate_v)
                    for row in range(size):
                        _add(group_static, edge * size + row, load(by_edge, row))
                    for k in range(values.shape[2]):
                        by_value = splat(_ZERO)
                        for row in range(size):
                            by_t = load(by_edge, row)
                            by_value = by_value + by_t * load(weight, k * size + row)
                            _add(group_weight, k * size + row, by_t * values[shot, o, k])
                        by_values[shot, o, k] += sum_lanes(by_value)
                _gather(by_nodes, width, by_ends[shot])

    return Kernels(forward, backward)


_SOURCES = sources_of("simd.py")
RULES = {
    "mlp": _compiled(False, False, _SOURCES),
    "gated_mlp": _compiled(True, False, _SOURCES),
    "residual_mlp": _compiled(False, True, _SOURCES),
}
