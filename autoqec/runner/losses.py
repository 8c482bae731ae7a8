"""Losses on log-odds: z = log((1 - q) / q), so a fault that happened wants z negative."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional as F

Loss = Callable[[Tensor, Tensor], Tensor]


def bce(log_odds: Tensor, happened: Tensor) -> Tensor:
    return F.binary_cross_entropy_with_logits(-log_odds, happened.to(log_odds.dtype))


def focal(log_odds: Tensor, happened: Tensor, gamma: float = 2.0) -> Tensor:
    """Lin et al. 2017: entries that are already right count less."""
    target = happened.to(log_odds.dtype)
    plain = F.binary_cross_entropy_with_logits(-log_odds, target, reduction="none")
    right = torch.exp(-plain)
    return ((1 - right) ** gamma * plain).mean()


def weighted_bce(log_odds: Tensor, happened: Tensor) -> Tensor:
    """Faults that happened weigh as much in total as those that did not, up to a factor of 50 each."""
    target = happened.to(log_odds.dtype)
    share = target.mean().clamp(min=1e-6)
    weight = ((1 - share) / share).clamp(max=50.0)
    return F.binary_cross_entropy_with_logits(-log_odds, target, pos_weight=weight)


MARGINAL_LOSSES: dict[str, Loss] = {"bce": bce, "focal": focal, "weighted_bce": weighted_bce}
