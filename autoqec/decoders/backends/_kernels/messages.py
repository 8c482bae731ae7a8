"""Messages of a graph network in one shot, made and summed edge by edge, and their gradients, `LANES` features side by side.

For every undirected edge (u, v) with `t` the part that both directions share:

    t      = static + sum_k value_k weight_k
    z      = src_u + dst_v + t                        what u tells v; from v to u the other way round
    m      = silu(z)
           = silu(z) sigmoid(z')                      gated, with z' made like z from weights of its own
           = x_u + silu(z)                            residual
    sum_v += m

No edge is ever in main memory: a shot's nodes stay in the first-level cache, and going back makes each message again. Edges come
a few at a time, so that the sigmoids of several are under way at once: each is a chain of twenty dependent instructions.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit

from autoqec.decoders.backends._kernels.rows import add, add_product
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
_AT_ONCE = 8  # edges
_STEP = 4  # vectors; divides what any number of edges have


class Edges(NamedTuple):
    """first, second: [edge] the end nodes. output: [edge] whose values it has."""

    first: Any
    second: Any
    output: Any


class Terms(NamedTuple):
    """weight: [k * vectors, lane] by which values enter, and static: [edge * vectors, lane]; twice as many vectors if gated."""

    weight: Any
    static: Any


@njit
def sigmoid(z):  # type: ignore[no-untyped-def]
    return inverse(exp_minus(greater(lesser(z, _TOP), _BOTTOM)) + _ONE)


@njit
def sigmoids(rows, first):  # type: ignore[no-untyped-def]
    """Those of `_STEP` rows from `first` on, side by side."""
    e0 = exp_minus(greater(lesser(load(rows, first), _TOP), _BOTTOM)) + _ONE
    e1 = exp_minus(greater(lesser(load(rows, first + 1), _TOP), _BOTTOM)) + _ONE
    e2 = exp_minus(greater(lesser(load(rows, first + 2), _TOP), _BOTTOM)) + _ONE
    e3 = exp_minus(greater(lesser(load(rows, first + 3), _TOP), _BOTTOM)) + _ONE
    return inverse(e0), inverse(e1), inverse(e2), inverse(e3)


@njit
def scratch(vectors):  # type: ignore[no-untyped-def]
    """Room for what is under way."""
    return np.zeros((_AT_ONCE * 2 * vectors + _STEP, LANES), np.float32)


@njit
def _gather(  # type: ignore[no-untyped-def]
    first, second, output, weight, static, values, nodes, vectors, size, e0, e1, part, z
):  # fmt: skip
    """z of both directions of the edges e0 <= edge < e1, for the content (part = 0) or the gate (part = vectors).

    Arrays and no tuples of them: to take one apart counts references, atomically, at every call.
    """
    per_node = 2 * size
    r = 0
    for edge in range(e0, e1):
        u, v, o = first[edge] * per_node + part, second[edge] * per_node + part, output[edge]
        for c in range(vectors):
            row = part + c
            t = load(static, edge * size + row)
            for k in range(values.shape[1]):
                t = t + load(weight, k * size + row) * values[o, k]
            store(z, r, load(nodes, u + c) + load(nodes, v + size + c) + t)
            store(z, r + 1, load(nodes, v + c) + load(nodes, u + size + c) + t)
            r += 2
    return r


@njit
def add_messages(  # type: ignore[no-untyped-def]
    gated, carries, edges, terms, values, nodes, x, vectors, sums
):  # fmt: skip
    """Adds the messages of one shot up.

    gated, carries: True or None. numba knows None when it compiles and leaves the branch out; a branch in the inner loop would bring
    reference counts along. values: [output, k]. nodes: [node * per_node, lane], src, dst, each twice if gated. x, sums:
    [node * vectors, lane].
    """
    first, second, output = edges
    weight, static = terms
    size = 2 * vectors if gated is not None else vectors
    z, gates = scratch(vectors), scratch(vectors)
    for e0 in range(0, first.shape[0], _AT_ONCE):
        e1 = min(e0 + _AT_ONCE, first.shape[0])
        rows = _gather(first, second, output, weight, static, values, nodes, vectors, size, e0, e1, 0, z)
        if gated is not None:
            _gather(
                first,
                second,
                output,
                weight,
                static,
                values,
                nodes,
                vectors,
                size,
                e0,
                e1,
                vectors,
                gates,
            )
        for r in range(0, rows, _STEP):
            s0, s1, s2, s3 = sigmoids(z, r)
            if gated is not None:
                o0, o1, o2, o3 = sigmoids(gates, r)
                s0, s1, s2, s3 = s0 * o0, s1 * o1, s2 * o2, s3 * o3
            store(z, r, load(z, r) * s0)
            store(z, r + 1, load(z, r + 1) * s1)
            store(z, r + 2, load(z, r + 2) * s2)
            store(z, r + 3, load(z, r + 3) * s3)
        r = 0
        for edge in range(e0, e1):
            u, v = first[edge] * vectors, second[edge] * vectors
            for c in range(vectors):
                from_u, from_v = load(z, r), load(z, r + 1)
                if carries is not None:
                    from_u, from_v = from_u + load(x, u + c), from_v + load(x, v + c)
                add(sums, v + c, from_u)
                add(sums, u + c, from_v)
                r += 2


@njit
def _slopes(gated, z, gates, rows):  # type: ignore[no-untyped-def]
    """z and the gate become the derivatives of the message by them."""
    for r in range(0, rows, _STEP):
        s = sigmoids(z, r)
        o = s
        if gated is not None:
            o = sigmoids(gates, r)
        for i in range(_STEP):
            value = load(z, r + i)
            slope = s[i] + value * s[i] * (_ONE - s[i])
            if gated is not None:
                store(gates, r + i, value * s[i] * o[i] * (_ONE - o[i]))
                slope = slope * o[i]
            store(z, r + i, slope)


@njit
def add_gradients(  # type: ignore[no-untyped-def]
    gated, carries, edges, terms, values, nodes, above, vectors, by_terms, by_values, by_nodes, by_x, by_t
):  # fmt: skip
    """From `above`, like sums; adds to all but by_t: [edge * size, lane], which is set."""
    first, second, output = edges
    weight, static = terms
    by_weight, by_static = by_terms
    size = 2 * vectors if gated is not None else vectors
    per_node = 2 * size
    z, gates = scratch(vectors), scratch(vectors)
    for e0 in range(0, first.shape[0], _AT_ONCE):
        e1 = min(e0 + _AT_ONCE, first.shape[0])
        rows = _gather(first, second, output, weight, static, values, nodes, vectors, size, e0, e1, 0, z)
        if gated is not None:
            _gather(
                first,
                second,
                output,
                weight,
                static,
                values,
                nodes,
                vectors,
                size,
                e0,
                e1,
                vectors,
                gates,
            )
        _slopes(gated, z, gates, rows)
        r = 0
        for edge in range(e0, e1):
            u, v = first[edge], second[edge]
            for c in range(vectors):
                to_v, to_u = load(above, v * vectors + c), load(above, u * vectors + c)
                from_u, from_v = to_v * load(z, r), to_u * load(z, r + 1)
                add(by_nodes, u * per_node + c, from_u)
                add(by_nodes, v * per_node + size + c, from_u)
                add(by_nodes, v * per_node + c, from_v)
                add(by_nodes, u * per_node + size + c, from_v)
                store(by_t, edge * size + c, from_u + from_v)
                if gated is not None:
                    from_u, from_v = to_v * load(gates, r), to_u * load(gates, r + 1)
                    add(by_nodes, u * per_node + vectors + c, from_u)
                    add(by_nodes, v * per_node + size + vectors + c, from_u)
                    add(by_nodes, v * per_node + vectors + c, from_v)
                    add(by_nodes, u * per_node + size + vectors + c, from_v)
                    store(by_t, edge * size + vectors + c, from_u + from_v)
                if carries is not None:
                    add(by_x, u * vectors + c, to_v)
                    add(by_x, v * vectors + c, to_u)
                r += 2
    for edge in range(first.shape[0]):
        for row in range(edge * size, edge * size + size):
            add(by_static, row, load(by_t, row))
        for k in range(values.shape[1]):
            by_value = splat(_ZERO)
            for row in range(size):
                by_value = by_value + load(by_t, edge * size + row) * load(weight, k * size + row)
            by_values[output[edge], k] += sum_lanes(by_value)
    add_value_products(output, values, by_t, size, by_weight)


@njit
def add_value_products(output, values, by_t, size, by_weight):  # type: ignore[no-untyped-def]
    """by_weight[k] += sum over edges of by_t times the k-th value of the edge."""
    n_edges, width = output.shape[0], values.shape[1]
    on_edges = np.empty(n_edges * width, np.float32)
    for edge in range(n_edges):
        for k in range(width):
            on_edges[edge * width + k] = values[output[edge], k]
    add_product(on_edges, 1, width, width, n_edges, by_t, size, by_weight)
