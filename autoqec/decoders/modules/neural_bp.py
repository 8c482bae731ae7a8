"""Belief propagation with learned weights, on the undecomposed faults (Nachmani et al. 2016; Liu and Poulin 2019).

One iteration, with m the messages from faults to checks, s the syndrome and w, g, u learned:

    c  = w (-1)^s  2 artanh prod tanh(m'/2)   over the other links m' of the check    (or the min-sum rule)
    c  = (1 - g) c + g c_before                                                      damping
    q  = (1 - u) prior + u q_before + sum of c over the fault's links                memory u, if any
    m  = q - c

The answer is a learned sum of the posteriors q of all iterations, which starts as the mean over the second half of them.
Flooding propagation oscillates with period two: damping calms it, and the mean of consecutive posteriors decodes better
than any single one. On BB72 the two together make half as many failures as neither.

Untrained (w = 1, g = 0.4, u = 0) this is damped belief propagation, a strong start: training moves on from there.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from autoqec.decoders.dsl_schema import NeuralBpSpec
from autoqec.decoders.modules.structure import TannerLinks, phi

CLIP = 25.0
DAMPING = 0.4
"""Where damping starts, and where it stays when it is `fixed`."""

_FLOOR = 1e-7


class LearnedBP(nn.Module):
    """Fault log-odds from a syndrome. All tensors are [rows, batch].

    fused: let `fused_bp` do the work where it can. Export and operation counts, which see torch operations only, turn
    it off.
    """

    fused: bool = True
    damping: Tensor

    def __init__(self, spec: NeuralBpSpec, links: TannerLinks) -> None:
        super().__init__()
        self.spec = spec
        self.links = links
        rows = {"per_layer": 1, "per_check": links.n_checks, "none": links.n_links}[spec.weight_sharing]
        self.weight = nn.Parameter(torch.ones(spec.iterations, rows))
        damping = torch.full((spec.iterations if spec.damping == "learnable_per_iter" else 1,), DAMPING)
        if spec.damping == "fixed":
            self.register_buffer("damping", damping, persistent=False)
        else:
            self.damping = nn.Parameter(damping)
        self.memory = nn.Parameter(torch.zeros(links.n_faults)) if spec.memory == "learnable" else None
        self.attention = LinkAttention(spec.attention_heads) if spec.attention_aug else None
        averaged = (spec.iterations + 1) // 2
        self.readout = nn.Parameter(torch.zeros(spec.iterations))
        with torch.no_grad():
            self.readout[-averaged:] = 1.0 / averaged

    def forward(self, syndrome: Tensor, prior: Tensor) -> Tensor:
        """syndrome: [n_checks, batch] of 0 and 1; prior: [n_faults, batch] log-odds -> log-odds [n_faults, batch]."""
        if self._fusible(prior):
            return self._fused(syndrome, prior)
        links = self.links
        message = prior.clamp(-CLIP, CLIP)[links.fault]
        sign = 1.0 - 2.0 * syndrome
        posterior = prior
        answer = torch.zeros_like(prior)
        before: Tensor | None = None
        for i in range(self.spec.iterations):
            check = self._checks(message, sign) * self._weight(i)
            if self.attention is not None:
                check = check * self.attention(check, message)
            if before is not None:
                g = self.damping[i if len(self.damping) > 1 else 0]
                check = (1 - g) * check + g * before
            before = check
            base = prior
            if self.memory is not None:
                base = prior + self.memory[:, None] * (posterior - prior)
            padded = torch.cat([check, check.new_zeros(1, check.shape[1])])
            posterior = (base + padded[links.links_of_fault].sum(dim=1)).clamp(-4 * CLIP, 4 * CLIP)
            answer = answer + self.readout[i] * posterior
            message = (posterior[links.fault] - check).clamp(-CLIP, CLIP)
        return answer

    def _fusible(self, prior: Tensor) -> bool:
        return (
            self.fused
            and not torch.compiler.is_compiling()
            and prior.device.type == "cpu"
            and prior.dtype == self.weight.dtype == torch.float32
            and self.attention is None
        )

    def _fused(self, syndrome: Tensor, prior: Tensor) -> Tensor:
        from autoqec.decoders.modules.fused_bp import fused_learned_bp

        weight: Tensor = self.weight
        if self.spec.weight_sharing == "per_check":
            weight = weight[:, self.links.check]
        return fused_learned_bp(
            self.links,
            syndrome.to(prior.dtype),
            prior,
            weight.expand(-1, self.links.n_links),
            self.damping.expand(self.spec.iterations),
            self.memory,
            self.readout,
            min_sum=self.spec.check_rule == "min_sum",
            threads=torch.get_num_threads(),
        )

    def _weight(self, iteration: int) -> Tensor:
        weight = self.weight[iteration]
        if self.spec.weight_sharing == "per_check":
            weight = weight[self.links.check]
        return weight[:, None]

    def _checks(self, message: Tensor, sign: Tensor) -> Tensor:
        """Messages from checks to faults, [n_links, batch], before weights."""
        links = self.links
        negative = (message < 0).to(message.dtype)
        parity = torch.remainder(links.by_check.sum(negative[None])[0], 2.0)
        signs = ((1.0 - 2.0 * parity) * sign)[links.check] * (1.0 - 2.0 * negative)
        size = message.abs()
        if self.spec.check_rule == "min_sum":
            # A padded link carries +CLIP: it is never the smallest.
            pad = message.new_full((1, message.shape[1]), CLIP)
            rows = torch.cat([size, pad])[links.links_of_check]
            two = rows.topk(min(2, rows.shape[1]), dim=1, largest=False)
            smallest, second = two.values[:, 0][links.check], two.values[:, -1][links.check]
            # By its place and not by its size: a compiler may round the two sides of a comparison apart.
            place = links.links_of_check.gather(1, two.indices[:, 0])[links.check]
            is_smallest = place == torch.arange(links.n_links, device=place.device)[:, None]
            return signs * torch.where(is_smallest, second, smallest)
        part = phi(size.clamp(2 * _FLOOR, CLIP))
        total = links.by_check.sum(part[None])[0]
        return signs * phi((total[links.check] - part).clamp(min=2 * _FLOOR))


class LinkAttention(nn.Module):
    """A gate on each check message from its own size and the fault's doubt; starts at one (no effect)."""

    def __init__(self, heads: int) -> None:
        super().__init__()
        self.features = nn.Parameter(torch.linspace(-0.5, 0.5, 2 * heads).reshape(heads, 2))
        self.bias = nn.Parameter(torch.zeros(heads))
        self.out = nn.Parameter(torch.zeros(heads))

    def forward(self, check: Tensor, message: Tensor) -> Tensor:
        size, doubt = check.abs() / CLIP, message.abs() / CLIP
        gate = torch.ones_like(check)
        for h in range(len(self.bias)):
            score = self.features[h, 0] * size + self.features[h, 1] * doubt + self.bias[h]
            gate = gate + self.out[h] * torch.tanh(score)
        return gate


def log_odds(probability: Tensor) -> Tensor:
    clipped = probability.clamp(1e-10, 1 - 1e-7)
    return torch.log1p(-clipped) - torch.log(clipped)


def prior_rows(ctx: dict[str, Any], fallback: Tensor, batch: int) -> Tensor:
    """Prior log-odds as [n_faults, batch], from `ctx["prior_p"]` of shape [n_faults] or [batch, n_faults]."""
    prior = ctx.get("prior_p")
    rows = fallback if prior is None else log_odds(prior)
    return rows[:, None].expand(-1, batch) if rows.ndim == 1 else rows.T
