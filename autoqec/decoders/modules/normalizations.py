"""Normalizations. None of them mixes shots, in training or evaluation. Tensors are [batch, rows, hidden].

`per` says what is normalised: the nodes after each update, or the messages on the edges before they are
aggregated.
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor, nn

EPS = 1e-5


class Normalization(nn.Module):
    per: Literal["nodes", "edges"] = "nodes"

    def __init__(self, hidden: int) -> None:
        super().__init__()

    def forward(self, x: Tensor) -> Tensor:
        return x


class Layer(Normalization):
    """Over the features of one node."""

    def __init__(self, hidden: int) -> None:
        super().__init__(hidden)
        self.norm = nn.LayerNorm(hidden, eps=EPS)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.norm(x)
        return out


class Batch(Normalization):
    """Per feature, by running statistics that always come from EARLIER batches.

    The batch at hand never normalises itself: in training it updates the statistics after it was used,
    without a gradient, so a shot's output depends on no shot beside it. They start at mean 0 and variance 1.
    """

    mean: Tensor
    variance: Tensor

    def __init__(self, hidden: int, momentum: float = 0.05) -> None:
        super().__init__(hidden)
        self.momentum = momentum
        self.weight = nn.Parameter(torch.ones(hidden))
        self.bias = nn.Parameter(torch.zeros(hidden))
        self.register_buffer("mean", torch.zeros(hidden))
        self.register_buffer("variance", torch.ones(hidden))

    def forward(self, x: Tensor) -> Tensor:
        mean, scale = self.mean.clone(), torch.rsqrt(self.variance + EPS)
        if self.training and x.shape[0]:
            with torch.no_grad():
                rows = x.detach().float().flatten(0, 1)
                self.mean.lerp_(rows.mean(dim=0), self.momentum)
                self.variance.lerp_(rows.var(dim=0, unbiased=False), self.momentum)
        return (x - mean) * (scale * self.weight) + self.bias


class GraphNorm(Normalization):
    """Per feature over the nodes of one shot, with a learned share of the mean taken off (Cai et al.
    2021).
    """

    def __init__(self, hidden: int) -> None:
        super().__init__(hidden)
        self.share = nn.Parameter(torch.ones(hidden))
        self.weight = nn.Parameter(torch.ones(hidden))
        self.bias = nn.Parameter(torch.zeros(hidden))

    def forward(self, x: Tensor) -> Tensor:
        centred = x - self.share * x.mean(dim=1, keepdim=True)
        scale = torch.rsqrt(centred.square().mean(dim=1, keepdim=True) + EPS)
        return centred * (scale * self.weight) + self.bias


class EdgeNorm(Normalization):
    """Per feature over the messages of one shot."""

    per = "edges"

    def __init__(self, hidden: int) -> None:
        super().__init__(hidden)
        self.weight = nn.Parameter(torch.ones(hidden))
        self.bias = nn.Parameter(torch.zeros(hidden))

    def forward(self, x: Tensor) -> Tensor:
        centred = x - x.mean(dim=1, keepdim=True)
        scale = torch.rsqrt(centred.square().mean(dim=1, keepdim=True) + EPS)
        return centred * (scale * self.weight) + self.bias


NORMALIZATIONS: dict[str, type[Normalization]] = {
    "none": Normalization,
    "layer": Layer,
    "batch": Batch,
    "edge_norm": EdgeNorm,
    "graph_norm": GraphNorm,
}
