"""One layer of a graph network, shot by shot, and its gradients: everything of a shot stays in the cache.

    a  = share_j sum of messages                       those of `messages`; the share is one, or one over the degree for a mean
    u  = take a + bias (+ keep x)
    y  = x + silu(u)                                   or silu(u) where x is kept by a matrix
    x' = gain (y - mean) / deviation + shift           over the features of a node, if there is a gain

Going back, the matrix products of a shot are made again; the sums of its messages are kept.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit

from autoqec.decoders.backends._kernels.messages import Edges, Terms, add_gradients, add_messages, sigmoid
from autoqec.decoders.backends._kernels.pieces import sources_of
from autoqec.decoders.backends._kernels.rows import add, add_product, clear, narrow, pad, scale_rows
from autoqec.decoders.backends._kernels.simd import LANES, load, splat, store, sum_lanes

_F = np.float32
_ZERO = _F(0.0)
_ONE = _F(1.0)
EPS = _F(1e-5)

__all__ = ["EPS", "RULES", "Edges", "Kernels", "Shots", "Terms", "Weights"]


class Shots(NamedTuple):
    """x: [shot, node, width]. bits: [shot, node], nearly all zero. values: [shot, output, k]."""

    x: Any
    bits: Any
    values: Any


class Weights(NamedTuple):
    """Matrices as [row * vectors, lane], each part padded with zeros to whole vectors; `_back` is the transpose.

    mix: [width, (src, dst) vectors] with bits: one such row; take, keep: [width, vectors]; bias, gain, shift: one row. inside: one row
    of ones, zero in the padding. share: [node]. keep and gain may be empty.
    """

    mix: Any
    mix_back: Any
    bits: Any
    take: Any
    take_back: Any
    bias: Any
    keep: Any
    keep_back: Any
    gain: Any
    shift: Any
    inside: Any
    share: Any


class Gradients(NamedTuple):
    """By x and values for every shot; the rest like `Weights` and `Terms`, one entry per group of shots. All start at zero."""

    x: Any
    values: Any
    weight: Any
    static: Any
    mix: Any
    bits: Any
    take: Any
    bias: Any
    keep: Any
    gain: Any
    shift: Any


class Kernels(NamedTuple):
    """forward(edges, terms, weights, shots, start, stop, kept, answer): x' [shot, node, width] of shots start <= shot < stop. kept:
    [shot, node * vectors, lane] gets the shares of the sums, or has no shots if nobody will go back.

    backward(edges, terms, weights, shots, kept, upstream, bounds, start, stop, gradients): of groups start <= group < stop; group i
    has the shots from bounds[i] to bounds[i + 1]. Which shots share a group does not depend on the number of threads.
    """

    forward: Any
    backward: Any


@njit
def _ends(x, bits, mix, bit_row, width, nodes):  # type: ignore[no-untyped-def]
    """nodes = x mix + bits."""
    columns = bit_row.shape[0]
    clear(nodes)
    for node in range(bits.shape[0]):
        if bits[node] != _ZERO:
            for c in range(columns):
                store(nodes, node * columns + c, load(bit_row, c) * bits[node])
    add_product(x.reshape(-1), -(-width // LANES) * LANES, 1, bits.shape[0], width, mix, columns, nodes)


@njit
def _before_silu(x, sums, take, bias, keep, width, u):  # type: ignore[no-untyped-def]
    """u = bias + take sums + keep x."""
    vectors = bias.shape[0]
    n_nodes, stride = u.shape[0] // vectors, vectors * LANES
    for node in range(n_nodes):
        for c in range(vectors):
            store(u, node * vectors + c, load(bias, c))
    add_product(sums.reshape(-1), stride, 1, n_nodes, width, take, vectors, u)
    if keep.shape[0] > 0:
        add_product(x.reshape(-1), stride, 1, n_nodes, width, keep, vectors, u)


@njit
def _silu(u, x, adds, y):  # type: ignore[no-untyped-def]
    """y = silu(u), plus x if it adds; u becomes the slope of silu."""
    for row in range(u.shape[0]):
        value = load(u, row)
        s = sigmoid(value)
        out = value * s
        store(u, row, s + out * (_ONE - s))
        if adds:
            out = out + load(x, row)
        store(y, row, out)


@njit
def _normalise(y, inside, width, scales):  # type: ignore[no-untyped-def]
    """Rows of y to zero mean and unit deviation; scales: [node] one over the deviation."""
    vectors = inside.shape[0]
    for node in range(scales.shape[0]):
        first = node * vectors
        total = splat(_ZERO)
        for c in range(vectors):
            total = total + load(y, first + c)
        mean = sum_lanes(total) / _F(width)
        total = splat(_ZERO)
        for c in range(vectors):
            centred = (load(y, first + c) - mean) * load(inside, c)
            store(y, first + c, centred)
            total = total + centred * centred
        scale = _ONE / np.sqrt(sum_lanes(total) / _F(width) + EPS)
        scales[node] = scale
        for c in range(vectors):
            store(y, first + c, load(y, first + c) * scale)


@njit
def _gain(y, gain, shift):  # type: ignore[no-untyped-def]
    vectors = gain.shape[0]
    for first in range(0, y.shape[0], vectors):
        for c in range(vectors):
            store(y, first + c, load(y, first + c) * load(gain, c) + load(shift, c))


@njit
def _normalised_gradients(d, scales, above, gain, inside, width, by_gain, by_shift):  # type: ignore[no-untyped-def]
    """`above` by x' becomes that by y; d are the normalised rows."""
    vectors = inside.shape[0]
    for node in range(scales.shape[0]):
        first = node * vectors
        total, along = splat(_ZERO), splat(_ZERO)
        for c in range(vectors):
            given, unit = load(above, first + c), load(d, first + c)
            add(by_shift, c, given)
            add(by_gain, c, given * unit)
            given = given * load(gain, c)
            store(above, first + c, given)
            total = total + given
            along = along + given * unit
        mean, slope = sum_lanes(total) / _F(width), sum_lanes(along) / _F(width)
        for c in range(vectors):
            by_y = (load(above, first + c) - mean - load(d, first + c) * slope) * scales[node]
            store(above, first + c, by_y * load(inside, c))


@njit
def _update_gradients(above, u, adds, by_bias, by_x):  # type: ignore[no-untyped-def]
    """The slopes u become gradients by u, given those by y; by_x begins with what y passes on."""
    vectors = by_bias.shape[0]
    for first in range(0, u.shape[0], vectors):
        for c in range(vectors):
            by_y = load(above, first + c)
            store(by_x, first + c, by_y if adds else splat(_ZERO))
            by_u = by_y * load(u, first + c)
            store(u, first + c, by_u)
            add(by_bias, c, by_u)


@njit
def _bit_gradients(by_nodes, bits, by_row):  # type: ignore[no-untyped-def]
    columns = by_row.shape[0]
    for node in range(bits.shape[0]):
        if bits[node] != _ZERO:
            for c in range(columns):
                add(by_row, c, load(by_nodes, node * columns + c) * bits[node])


def _compiled(gated: bool | None, carries: bool | None, sources: str) -> Kernels:
    """The closures hold plain values: numba's disk cache would take a compiled function in one for another in every process."""

    @njit(cache=True, nogil=True)
    def forward(edges, terms, weights, shots, start, stop, kept, answer):  # type: ignore[no-untyped-def]
        n_nodes, width = shots.x.shape[1], shots.x.shape[2]
        vectors = weights.bias.shape[0]
        rows = n_nodes * vectors
        x, y = np.zeros((rows, LANES), np.float32), np.empty((rows, LANES), np.float32)
        u, sums = np.empty((rows, LANES), np.float32), np.empty((rows, LANES), np.float32)
        nodes = np.empty((n_nodes * weights.bits.shape[0], LANES), np.float32)
        scales = np.empty(n_nodes, np.float32)
        for shot in range(start, stop if sources else start):
            pad(shots.x[shot], x)
            _ends(x, shots.bits[shot], weights.mix, weights.bits, width, nodes)
            clear(sums)
            add_messages(gated, carries, edges, terms, shots.values[shot], nodes, x, vectors, sums)
            scale_rows(sums, vectors, weights.share)
            if kept.shape[0] > 0:
                kept[shot] = sums
            _before_silu(x, sums, weights.take, weights.bias, weights.keep, width, u)
            _silu(u, x, weights.keep.shape[0] == 0, y)
            if weights.gain.shape[0] > 0:
                _normalise(y, weights.inside, width, scales)
                _gain(y, weights.gain, weights.shift)
            narrow(y, answer[shot])

    @njit(cache=True, nogil=True)
    def backward(  # type: ignore[no-untyped-def]
        edges, terms, weights, shots, kept, upstream, bounds, start, stop, gradients
    ):  # fmt: skip
        n_nodes, width = shots.x.shape[1], shots.x.shape[2]
        vectors, columns = weights.bias.shape[0], weights.bits.shape[0]
        rows, stride = n_nodes * vectors, vectors * LANES
        adds = weights.keep.shape[0] == 0
        x, u = np.zeros((rows, LANES), np.float32), np.empty((rows, LANES), np.float32)
        y, above = np.empty((rows, LANES), np.float32), np.zeros((rows, LANES), np.float32)
        by_x = np.empty((rows, LANES), np.float32)
        nodes = np.empty((n_nodes * columns, LANES), np.float32)
        by_nodes = np.empty((n_nodes * columns, LANES), np.float32)
        by_t = np.empty((terms.static.shape[0], LANES), np.float32)
        scales = np.empty(n_nodes, np.float32)
        for group in range(start, stop if sources else start):
            by_terms = Terms(gradients.weight[group], gradients.static[group])
            for shot in range(bounds[group], bounds[group + 1]):
                sums = kept[shot]
                pad(shots.x[shot], x)
                pad(upstream[shot], above)
                _before_silu(x, sums, weights.take, weights.bias, weights.keep, width, u)
                _silu(u, x, adds, y)
                if weights.gain.shape[0] > 0:
                    _normalise(y, weights.inside, width, scales)
                    _normalised_gradients(
                        y, scales, above, weights.gain, weights.inside, width, gradients.gain[group],
                        gradients.shift[group]
                    )  # fmt: skip
                _update_gradients(above, u, adds, gradients.bias[group], by_x)
                by_u = u.reshape(-1)
                add_product(sums.reshape(-1), 1, stride, width, n_nodes, u, vectors, gradients.take[group])
                if not adds:
                    add_product(x.reshape(-1), 1, stride, width, n_nodes, u, vectors, gradients.keep[group])
                    add_product(by_u, stride, 1, n_nodes, width, weights.keep_back, vectors, by_x)
                clear(above)
                add_product(by_u, stride, 1, n_nodes, width, weights.take_back, vectors, above)
                scale_rows(above, vectors, weights.share)
                _ends(x, shots.bits[shot], weights.mix, weights.bits, width, nodes)
                clear(by_nodes)
                add_gradients(
                    gated, carries, edges, terms, shots.values[shot], nodes, above, vectors, by_terms,
                    gradients.values[shot], by_nodes, by_x, by_t
                )  # fmt: skip
                _bit_gradients(by_nodes, shots.bits[shot], gradients.bits[group])
                add_product(x.reshape(-1), 1, stride, width, n_nodes, by_nodes, columns, gradients.mix[group])
                for part in range(columns // vectors):
                    add_product(
                        by_nodes.reshape(-1)[part * stride :], columns * LANES, 1, n_nodes, width,
                        weights.mix_back[part * width * vectors :], vectors, by_x
                    )  # fmt: skip
                narrow(by_x, gradients.x[shot])

    return Kernels(forward, backward)


_SOURCES = sources_of("simd.py", "rows.py", "messages.py")
RULES = {
    "mlp": _compiled(None, None, _SOURCES),
    "gated_mlp": _compiled(True, None, _SOURCES),
    "residual_mlp": _compiled(None, True, _SOURCES),
}
