"""Aggregations: the messages that enter a node become one vector. A node without neighbours gets zeros."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from autoqec.decoders.custom.build import CustomCall
from autoqec.decoders.modules.graph_view import GraphView

SEEDS = 2


class Aggregate(nn.Module):
    """forward: messages [batch, n_directed, hidden] -> [batch, n_nodes, hidden]."""

    def __init__(self, hidden: int) -> None:
        super().__init__()

    def forward(self, messages: Tensor, view: GraphView) -> Tensor:
        raise NotImplementedError


class Sum(Aggregate):
    def forward(self, messages: Tensor, view: GraphView) -> Tensor:
        return view.by_target.sum(messages)


class Mean(Aggregate):
    def forward(self, messages: Tensor, view: GraphView) -> Tensor:
        return view.by_target.mean(messages)


class Max(Aggregate):
    def forward(self, messages: Tensor, view: GraphView) -> Tensor:
        return view.by_target.max(messages)


class AttentionPool(Aggregate):
    """A mean weighted by softmax(a . m)."""

    def __init__(self, hidden: int) -> None:
        super().__init__(hidden)
        self.score = nn.Linear(hidden, 1, bias=False)

    def forward(self, messages: Tensor, view: GraphView) -> Tensor:
        return view.by_target.sum(view.by_target.softmax(self.score(messages)) * messages)


class GatedSum(Aggregate):
    """Each feature of a message passes a gate of its own, opened by the message as a whole and by that
    feature.
    """

    def __init__(self, hidden: int) -> None:
        super().__init__(hidden)
        self.score = nn.Linear(hidden, 1)
        self.own = nn.Parameter(torch.zeros(hidden))

    def forward(self, messages: Tensor, view: GraphView) -> Tensor:
        return view.by_target.sum(torch.sigmoid(self.score(messages) + self.own * messages) * messages)


class SetTransformer(Aggregate):
    """Pooling by attention to learned seeds, then attention among the seeds (Lee et al. 2019, PMA and
    SAB).
    """

    def __init__(self, hidden: int) -> None:
        super().__init__(hidden)
        self.seeds = nn.Linear(hidden, SEEDS, bias=False)
        self.qkv = nn.Linear(hidden, 3 * hidden, bias=False)
        self.feed = nn.Linear(hidden, hidden)
        self.hidden = hidden

    def forward(self, messages: Tensor, view: GraphView) -> Tensor:
        weight = view.by_target.softmax(self.seeds(messages))
        pooled = torch.stack(
            [view.by_target.sum(weight[..., s : s + 1] * messages) for s in range(SEEDS)], dim=2
        )
        query, key, value = self.qkv(pooled).chunk(3, dim=-1)
        among = torch.softmax(query @ key.transpose(-1, -2) * self.hidden**-0.5, dim=-1)
        pooled = pooled + among @ value
        out: Tensor = (pooled + functional.silu(self.feed(pooled))).mean(dim=2)
        return out


class CustomAggregate(nn.Module):
    def __init__(self, call: CustomCall) -> None:
        super().__init__()
        self.call = call

    def forward(self, messages: Tensor, view: GraphView) -> Tensor:
        out: Tensor = self.call(messages, torch.stack([view.source, view.target]), view.n_nodes)
        return out


AGGREGATIONS: dict[str, type[Aggregate]] = {
    "sum": Sum,
    "mean": Mean,
    "max": Max,
    "attention_pool": AttentionPool,
    "set_transformer": SetTransformer,
    "gated_sum": GatedSum,
}
