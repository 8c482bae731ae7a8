"""Heads: [batch, n_outputs, width] -> [batch, n_outputs, 1]. Untrained, every head answers zero.

A head begins with the matrix `first` and continues with `after`, so that a caller whose input is made of parts may
multiply the parts.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from autoqec.decoders.custom.build import CustomCall


class Linear(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.last = _zero_linear(width)

    @property
    def first(self) -> nn.Linear:
        return self.last

    def after(self, x: Tensor) -> Tensor:
        return x


class MlpSmall(nn.Module):
    """One hidden layer, a sixth as wide as its input."""

    def __init__(self, width: int) -> None:
        super().__init__()
        narrow = max(width // 6, 4)
        self.first = nn.Linear(width, narrow)
        self.last = _zero_linear(narrow)

    def after(self, x: Tensor) -> Tensor:
        out: Tensor = self.last(functional.silu(x))
        return out


class CustomHead(nn.Module):
    """The custom answer times a learned number that starts at zero: its first step moves that number only."""

    def __init__(self, call: CustomCall) -> None:
        super().__init__()
        self.call = call
        self.gate = nn.Parameter(torch.zeros(()))

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.call(x) * self.gate
        return out


def _zero_linear(width: int) -> nn.Linear:
    last = nn.Linear(width, 1)
    nn.init.zeros_(last.weight)
    nn.init.zeros_(last.bias)
    return last


HEADS: dict[str, type[Linear] | type[MlpSmall]] = {"linear": Linear, "mlp_small": MlpSmall}
