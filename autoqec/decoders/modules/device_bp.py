"""Learned belief propagation on a GPU by Triton kernels, with gradients: the function of `fused_bp` there.

The kernels are in `autoqec.decoders.backends._kernels.device_bp`. Answers and gradients are the same bits on every run.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from autoqec.decoders.backends._kernels import device_bp as kernels
from autoqec.decoders.modules.device_kernels import one_at_a_time
from autoqec.decoders.modules.structure import TannerLinks

_BLOCK = 128


class _Tables(NamedTuple):
    check_ptr: Tensor
    link_fault: Tensor
    fault_ptr: Tensor
    fault_link: Tensor


@one_at_a_time
def _tables(links: TannerLinks) -> _Tables:
    """Made once for each device that the links are on."""
    made: dict[torch.device, _Tables] = links.__dict__.setdefault("_device_tables", {})
    device = links.check.device
    if device not in made:
        by_fault = links.links_of_fault.flatten()
        tables = (
            _starts(links.check, links.n_checks),
            links.fault,
            _starts(links.fault, links.n_faults),
            by_fault[by_fault < links.n_links],
        )
        made[device] = _Tables(*(table.to(torch.int32).contiguous() for table in tables))
    return made[device]


def _starts(key: Tensor, groups: int) -> Tensor:
    counts = torch.bincount(key, minlength=groups)
    return torch.cat([counts.new_zeros(1), counts.cumsum(0)])


def device_propagation(
    links: TannerLinks,
    syndrome: Tensor,
    prior: Tensor,
    weight: Tensor,
    damping: Tensor,
    memory: Tensor | None,
    readout: Tensor,
    begin: Tensor | None = None,
    before: Tensor | None = None,
    *,
    min_sum: bool,
    goes_on: bool,
) -> tuple[Tensor, Tensor, Tensor]:
    """As `fused_bp.fused_propagation`, arguments and answers. Single precision. Gradients may be taken once."""
    none = weight.new_empty(0)
    given = (none if each is None else each for each in (begin, before))
    memory = none if memory is None else memory
    tensors = (syndrome, prior, *given, weight, damping, memory, readout)
    answer, last, end = _DeviceBP.apply(  # type: ignore[no-untyped-call]
        *tensors, _tables(links), min_sum, goes_on, torch.is_grad_enabled()
    )
    return answer, last, end


class _DeviceBP(torch.autograd.Function):
    @staticmethod
    @one_at_a_time
    def forward(ctx: Any, *args: Any) -> tuple[Tensor, ...]:
        *tensors, tables, min_sum, goes_on, learns = args
        ctx.set_materialize_grads(False)
        tensors = [tensor.contiguous() for tensor in tensors]
        syndrome, prior, begin, before, weight, damping, memory, readout = tensors
        faults, batch = prior.shape
        iterations, n_links = weight.shape
        keeps = learns and any(ctx.needs_input_grad)  # a parameter needs it also where nothing learns
        q = prior.new_empty(iterations if keeps else 1, faults, batch)
        check = prior.new_empty(iterations if keeps else 2, n_links, batch)
        answer = torch.zeros_like(prior)
        per_check, per_fault = _grids(tables, batch)
        begun = begin.numel() > 0
        start = prior
        if begun:
            start = torch.empty_like(prior)
            kernels.faults_forward[per_fault](
                prior, prior, memory, readout, begin, tables.fault_ptr, tables.fault_link, start, answer, batch,
                REMEMBERS=False, BOUNDED=False, ANSWERS=False, BLOCK=_BLOCK,
            )  # fmt: skip
        earlier = before if before.numel() else prior
        posterior, k = start, begin
        for t in range(iterations):
            out = check[t % len(check)]
            kernels.checks_forward[per_check](
                posterior, k, weight[t], damping[t:], syndrome, tables.check_ptr, tables.link_fault, out, batch,
                GOES_ON=begun or t > 0, DAMPED=begun or t > 0, MIN_SUM=min_sum, BLOCK=_BLOCK,
            )  # fmt: skip
            k, posterior = out, q[t % len(q)]
            kernels.faults_forward[per_fault](
                prior, earlier, memory, readout[t:], k, tables.fault_ptr, tables.fault_link, posterior, answer, batch,
                REMEMBERS=memory.numel() > 0, BOUNDED=True, ANSWERS=True, BLOCK=_BLOCK,
            )  # fmt: skip
            earlier = posterior
        if keeps:
            ctx.save_for_backward(*tensors, start, q, check)
            ctx.tables, ctx.min_sum = tables, min_sum
        if not goes_on:
            return answer, answer.new_empty(0), answer.new_empty(0)
        # Copies: what is kept for going back must not be changed, nor kept as a whole for the sake of its last part.
        return answer, posterior.clone(), k.clone()

    @staticmethod
    @once_differentiable
    @one_at_a_time
    def backward(ctx: Any, *upstream: Tensor | None) -> tuple[Any, ...]:
        syndrome, prior, begin, before, weight, damping, memory, readout, start, q, check = ctx.saved_tensors
        tables, min_sum = ctx.tables, ctx.min_sum
        above, by_last, by_end = (None if each is None else each.contiguous() for each in upstream)
        above = torch.zeros_like(prior) if above is None else above
        batch = prior.shape[1]
        iterations, n_links = weight.shape
        per_check, per_fault = _grids(tables, batch)
        blocks = per_check[1]
        begun, remembers = begin.numel() > 0, memory.numel() > 0
        gradient, scratch = (prior.new_empty(n_links, batch) for _ in range(2))
        carry = prior.new_zeros(n_links, batch) if by_end is None else by_end.clone()
        by_prior = torch.zeros_like(prior)
        by_earlier = torch.zeros_like(prior) if remembers else prior
        by_memory = prior.new_zeros(prior.shape[0] if remembers else 0, blocks)
        by_readout = prior.new_empty(iterations, prior.shape[0], blocks)
        by_weight = prior.new_empty(iterations, n_links, blocks)
        by_damping = prior.new_zeros(iterations, len(tables.check_ptr) - 1, blocks)
        for t in range(iterations - 1, -1, -1):
            first, damped = t == iterations - 1, begun or t > 0
            earlier = q[t - 1] if t > 0 else before if before.numel() else prior
            kernels.faults_backward[per_fault](
                above, by_last, prior, earlier, memory, readout[t:], q[t], tables.fault_ptr, tables.fault_link, gradient,
                carry, by_earlier, by_prior, by_memory, by_readout[t], batch, blocks,
                FIRST=first, LAST=first and by_last is not None, CARRIES=not first or by_end is not None,
                REMEMBERS=remembers, BLOCK=_BLOCK,
            )  # fmt: skip
            kernels.checks_backward[per_check](
                q[t - 1] if t > 0 else start, check[t - 1] if t > 0 else begin, weight[t], damping[t:], syndrome,
                tables.check_ptr, tables.link_fault, gradient, carry, scratch, by_weight[t], by_damping[t], batch, blocks,
                GOES_ON=damped, DAMPED=damped, MIN_SUM=min_sum, BLOCK=_BLOCK,
            )  # fmt: skip
        # What is left goes to the messages of the start, which are the prior and those gone on from.
        by_start = torch.empty_like(prior)
        kernels.faults_forward[per_fault](
            by_prior, prior, memory, readout, gradient, tables.fault_ptr, tables.fault_link, by_start, prior, batch,
            REMEMBERS=False, BOUNDED=False, ANSWERS=False, BLOCK=_BLOCK,
        )  # fmt: skip
        by_begin = None
        if begun:
            by_begin = carry + (by_start - by_prior)[tables.link_fault.long()] - gradient
        if remembers and not before.numel():  # the posterior before the first iteration is the prior
            by_start = by_start + by_earlier
        by_tensors = by_weight.sum(2), by_damping.sum((1, 2)), by_memory.sum(1), by_readout.sum((1, 2))
        return None, by_start, by_begin, None, *by_tensors, None, None, None, None


def _grids(tables: _Tables, batch: int) -> tuple[tuple[int, int], tuple[int, int]]:
    blocks = -(-batch // _BLOCK)
    return (len(tables.check_ptr) - 1, blocks), (len(tables.fault_ptr) - 1, blocks)
