"""Sums, maxima and softmax over groups of rows, as gathers into padded tables.

Deterministic on every device, unlike scattered additions. The degrees of a decoding graph are uneven (the
boundary has a hundred neighbours, a detector ten), so groups of similar size share a table and little is
padded.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

I64 = npt.NDArray[np.int64]
# A further table is a further kernel: it has to save this share of the rows, and at least this many.
_TABLE_SHARE, _TABLE_ROWS = 1 / 16, 64
# Finite, so that a group without rows gives no NaN; inside the range of bfloat16.
LOWEST = -1.0e30


class Segments(nn.Module):
    """`key`: the group of each row. Values are [batch, n_rows, width]; what comes back is [batch, n_groups,
    width].
    """

    key: Tensor
    position: Tensor
    count: Tensor

    def __init__(self, key: I64, n_groups: int) -> None:
        super().__init__()
        self.n_rows, self.n_groups = len(key), n_groups
        order = np.argsort(key, kind="stable")
        count = np.bincount(key, minlength=n_groups)
        start = np.concatenate([[0], np.cumsum(count)])
        position = np.zeros(n_groups, dtype=np.int64)
        self.tables, done = 0, 0
        for low, high in itertools.pairwise(_cuts(count)):
            groups = np.flatnonzero((count > low) & (count <= high))
            slot = start[groups][:, None] + np.arange(max(high, 1))[None, :]
            inside = np.arange(max(high, 1))[None, :] < count[groups][:, None]
            table = np.where(inside, np.append(order, 0)[np.where(inside, slot, len(order))], len(order))
            position[groups] = done + np.arange(len(groups))
            self._add(f"table_{self.tables}", table.astype(np.int64))
            self.tables, done = self.tables + 1, done + len(groups)
        self.in_order = bool((position == np.arange(n_groups)).all())
        self._add("key", key.astype(np.int64))
        self._add("position", position)
        self._add("count", count.astype(np.float32)[:, None])

    def _add(self, name: str, table: npt.NDArray[np.generic]) -> None:
        self.register_buffer(name, torch.from_numpy(np.ascontiguousarray(table)), persistent=False)

    def _rows(self) -> Iterator[Tensor]:
        for k in range(self.tables):
            yield self.get_buffer(f"table_{k}")

    @property
    def padded_rows(self) -> int:
        """How many rows a fold gathers, padding included."""
        return sum(table.numel() for table in self._rows())

    def _fold(self, values: Tensor, fill: float, fold: Callable[[Tensor], Tensor]) -> Tensor:
        pad = values.new_full((values.shape[0], 1, values.shape[2]), fill)
        padded = torch.cat([values, pad], dim=1)
        parts = [
            fold(padded.index_select(1, t.flatten()).reshape(values.shape[0], *t.shape, values.shape[2]))
            for t in self._rows()
        ]
        joined = torch.cat(parts, dim=1) if len(parts) > 1 else parts[0]
        return joined if self.in_order else joined.index_select(1, self.position)

    def sum(self, values: Tensor) -> Tensor:
        return _linear(values, self._sum, self._spread)

    def _sum(self, values: Tensor) -> Tensor:
        return self._fold(values, 0.0, lambda rows: rows.sum(dim=2))

    def mean(self, values: Tensor) -> Tensor:
        return self.sum(values) / self.count.clamp(min=1.0)

    def max(self, values: Tensor) -> Tensor:
        """A group without rows gives zero."""
        return torch.where(self.count > 0, self._fold(values, LOWEST, lambda rows: rows.amax(dim=2)), 0.0)

    def spread(self, groups: Tensor) -> Tensor:
        """[batch, n_groups, width] -> [batch, n_rows, width]: each row gets the value of its group."""
        return _linear(groups, self._spread, self._sum)

    def _spread(self, groups: Tensor) -> Tensor:
        return groups.index_select(1, self.key)

    def softmax(self, scores: Tensor) -> Tensor:
        """Weights that add up to one over the rows of each group, apart for each column."""
        top = self.max(scores.detach())
        weights = torch.exp(scores - self.spread(top))
        return weights / self.spread(self.sum(weights).clamp(min=1e-20))


Map = Callable[[Tensor], Tensor]


def _linear(values: Tensor, there: Map, back: Map) -> Tensor:
    """there(values), whose gradient is `back`, its transpose: torch, which sees gathers only, would scatter it."""
    if torch.compiler.is_compiling() or not values.requires_grad:
        return there(values)
    out: Tensor = _Linear.apply(values, there, back)  # type: ignore[no-untyped-call]
    return out


class _Linear(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, values: Tensor, there: Map, back: Map) -> Tensor:
        ctx.there, ctx.back = there, back
        return there(values)

    @staticmethod
    def backward(ctx: Any, *upstream: Tensor) -> tuple[Tensor, None, None]:
        return _linear(upstream[0], ctx.back, ctx.there), None, None


def _cuts(count: npt.NDArray[np.integer]) -> list[int]:
    """Table widths, rising, with -1 in front: the cuts of the sorted group sizes that cost least in all."""
    sizes, groups = np.unique(count, return_counts=True)
    if not len(sizes):
        return [-1, 1]
    table_cost = max(_TABLE_ROWS, _TABLE_SHARE * int(count.sum()))
    below = np.concatenate([[0], np.cumsum(groups)])
    best: list[tuple[float, list[int]]] = [(0.0, [-1])]
    for j, width in enumerate(sizes):
        candidates = (
            (best[i][0] + table_cost + max(int(width), 1) * int(below[j + 1] - below[i]), i)
            for i in range(j + 1)
        )
        cost, i = min(candidates)
        best.append((cost, [*best[i][1], int(width)]))
    return best[-1][1]
