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

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from autoqec.decoders.dsl_schema import NeuralBpSpec
from autoqec.decoders.modules import device_kernels
from autoqec.decoders.modules.sharing import fault_rows, link_rows
from autoqec.decoders.modules.structure import TannerLinks, phi

CLIP = 25.0
DAMPING = 0.4
"""Where damping starts, and where it stays when it is `fixed`."""


class LearnedBP(nn.Module):
    """Fault log-odds from a syndrome. All tensors are [rows, batch].

    fused: let `fused_bp` (CPU) or `device_bp` (GPU) do the work where they can. Export and operation counts, which see torch operations only, turn
    it off.
    """

    fused: bool = True
    damping: Tensor

    def __init__(self, spec: NeuralBpSpec, links: TannerLinks) -> None:
        super().__init__()
        self.spec = spec
        self.links = links
        self.weight_rows = link_rows(spec, links)
        self.weight = nn.Parameter(torch.ones(spec.iterations, self.weight_rows.count))
        damping = torch.full((spec.iterations if spec.damping == "learnable_per_iter" else 1,), DAMPING)
        if spec.damping == "fixed":
            self.register_buffer("damping", damping, persistent=False)
        else:
            self.damping = nn.Parameter(damping)
        self.memory: nn.Parameter | None = None
        if spec.memory == "learnable":
            self.memory_rows = fault_rows(spec, links)
            self.memory = nn.Parameter(torch.zeros(self.memory_rows.count))
        self.attention = LinkAttention(spec.attention_heads) if spec.attention_aug else None
        averaged = (spec.iterations + 1) // 2
        self.readout = nn.Parameter(torch.zeros(spec.iterations))
        with torch.no_grad():
            self.readout[-averaged:] = 1.0 / averaged

    def forward(self, syndrome: Tensor, prior: Tensor) -> Tensor:
        """syndrome: [n_checks, batch] of 0 and 1; prior: [n_faults, batch] log-odds -> log-odds [n_faults, batch]."""
        weights = Weights(
            self.weight_rows(self.weight),
            self.damping.expand(self.spec.iterations),
            None if self.memory is None else self.memory_rows(self.memory),
            self.readout,
        )
        return propagate(
            self.links,
            syndrome,
            prior,
            weights,
            min_sum=self.spec.check_rule == "min_sum",
            goes_on=False,
            attention=self.attention,
            fused=self.fused,
        ).answer


class Weights(NamedTuple):
    """link: [iterations, n_links or 1]. damping, readout: [iterations]. memory: [n_faults] or None."""

    link: Tensor
    damping: Tensor
    memory: Tensor | None
    readout: Tensor


class Propagated(NamedTuple):
    """answer: fault log-odds [n_faults, batch] by the readout. last: those of the last iteration. messages: [n_links, batch] from
    checks, to go on from.
    """

    answer: Tensor
    last: Tensor
    messages: Tensor

    def of(self, shots: Tensor) -> Propagated:
        """Some columns."""
        return Propagated(*(each.index_select(1, shots) for each in self))


def propagate(
    links: TannerLinks,
    syndrome: Tensor,
    prior: Tensor,
    weights: Weights,
    begin: Propagated | None = None,
    *,
    min_sum: bool,
    goes_on: bool = True,
    attention: LinkAttention | None = None,
    fused: bool = True,
) -> Propagated:
    """The iterations of `weights`, from the start, or from where an earlier propagation ended, under another prior.

    syndrome: [n_checks, batch]; prior: [n_faults, batch]. goes_on: whether more than the answer is needed.
    """
    if fused and _fusible(prior, weights, attention):
        return Propagated(
            *_kernel_for(prior.device)(
                links,
                syndrome.to(prior.dtype),
                prior,
                weights.link.expand(-1, links.n_links),
                weights.damping,
                weights.memory,
                weights.readout,
                None if begin is None else begin.messages,
                None if begin is None else begin.last.detach(),
                min_sum=min_sum,
                goes_on=goes_on,
            )
        )

    def summed(check: Tensor) -> Tensor:
        return links.by_fault.sum(check[None])[0]

    sign = 1.0 - 2.0 * syndrome
    before: Tensor | None = None
    posterior = prior
    message = prior[links.fault]
    if begin is not None:
        before, posterior = begin.messages, begin.last.detach()
        message = (prior + summed(before))[links.fault] - before
    answer = torch.zeros_like(prior)
    for i, weight in enumerate(weights.link):
        if min_sum or attention is not None:  # the tanh rule clamps by itself
            message = message.clamp(-CLIP, CLIP)
        check = _checks(links, message, sign, min_sum=min_sum)
        g = None if before is None else weights.damping[i]
        factor = weight[:, None] if g is None else (1 - g) * weight[:, None]
        if attention is not None:
            check = check * attention(check * weight[:, None], message)
        check = check * factor
        if g is not None and before is not None:
            check = check + g * before
        before = check
        base = prior
        if weights.memory is not None:
            base = prior + weights.memory[:, None] * (posterior - prior)
        posterior = (base + summed(check)).clamp(-4 * CLIP, 4 * CLIP)
        answer = answer + weights.readout[i] * posterior
        message = posterior[links.fault] - check
    return Propagated(answer, posterior, check)


def _fusible(prior: Tensor, weights: Weights, attention: LinkAttention | None) -> bool:
    return (
        not torch.compiler.is_compiling()
        and (prior.device.type == "cpu" or device_kernels.runs_on(prior.device))
        and prior.dtype == weights.link.dtype == torch.float32
        and attention is None
    )


def _kernel_for(device: torch.device) -> Callable[..., tuple[Tensor, Tensor, Tensor]]:
    if device.type == "cpu":
        from autoqec.decoders.modules.fused_bp import fused_propagation

        return partial(fused_propagation, threads=torch.get_num_threads())
    from autoqec.decoders.modules.device_bp import device_propagation

    return device_propagation


def _checks(links: TannerLinks, message: Tensor, sign: Tensor, *, min_sum: bool) -> Tensor:
    """Messages from checks to faults, [n_links, batch], before weights."""
    negative = message < 0
    parity = torch.remainder(links.by_check.sum(negative.to(message.dtype)[None])[0], 2.0)
    signs = ((1.0 - 2.0 * parity) * sign)[links.check]
    size = message.abs()
    if min_sum:
        # A padded link carries +CLIP: it is never the smallest.
        pad = message.new_full((1, message.shape[1]), CLIP)
        rows = torch.cat([size, pad])[links.links_of_check]
        two = rows.topk(min(2, rows.shape[1]), dim=1, largest=False)
        smallest, second = two.values[:, 0][links.check], two.values[:, -1][links.check]
        # By its place and not by its size: a compiler may round the two sides of a comparison apart.
        place = links.links_of_check.gather(1, two.indices[:, 0])[links.check]
        is_smallest = place == torch.arange(links.n_links, device=place.device)[:, None]
        others = torch.where(is_smallest, second, smallest)
    else:
        part = phi(size)
        others = phi(links.by_check.sum(part[None])[0][links.check] - part)
    signed = signs * others
    return torch.where(negative, -signed, signed)


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
