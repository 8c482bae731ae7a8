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


class _Links(NamedTuple):
    check_ptr: Tensor
    link_fault: Tensor
    fault_ptr: Tensor
    fault_link: Tensor


class _Learned(NamedTuple):
    weight: Tensor
    damping: Tensor
    memory: Tensor
    readout: Tensor

    def of(self, iteration: int) -> _Learned:
        return _Learned(
            self.weight[iteration], self.damping[iteration:], self.memory, self.readout[iteration:]
        )


class _State(NamedTuple):
    q: Tensor
    k: Tensor


class _Above(NamedTuple):
    answer: Tensor
    last: Tensor | None


class _Gradients(NamedTuple):
    messages: Tensor
    carry: Tensor
    scratch: Tensor
    earlier: Tensor
    prior: Tensor
    weight: Tensor
    damping: Tensor
    memory: Tensor
    readout: Tensor

    def of(self, iteration: int) -> _Gradients:
        return self._replace(
            weight=self.weight[iteration], damping=self.damping[iteration], readout=self.readout[iteration]
        )


@one_at_a_time
def _links(links: TannerLinks) -> _Links:
    """Made once for each device that the links are on."""
    made: dict[torch.device, _Links] = links.__dict__.setdefault("_device_links", {})
    device = links.check.device
    if device not in made:
        by_fault = links.links_of_fault.flatten()
        tables = (
            _starts(links.check, links.n_checks),
            links.fault,
            _starts(links.fault, links.n_faults),
            by_fault[by_fault < links.n_links],
        )
        made[device] = _Links(*(table.to(torch.int32).contiguous() for table in tables))
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
        *tensors, _links(links), min_sum, goes_on, torch.is_grad_enabled()
    )
    return answer, last, end


class _DeviceBP(torch.autograd.Function):
    @staticmethod
    @one_at_a_time
    def forward(ctx: Any, *args: Any) -> tuple[Tensor, ...]:
        *tensors, links, min_sum, goes_on, learns = args
        ctx.set_materialize_grads(False)
        tensors = [tensor.contiguous() for tensor in tensors]
        syndrome, prior, begin, before = tensors[:4]
        learned = _Learned(*tensors[4:])
        faults, batch = prior.shape
        iterations, n_links = learned.weight.shape
        keeps = learns and any(ctx.needs_input_grad)  # a parameter needs it also where nothing learns
        q = prior.new_empty(iterations if keeps else 1, faults, batch)
        check = prior.new_empty(iterations if keeps else 2, n_links, batch)
        answer = torch.zeros_like(prior)
        per_check, per_fault = _grids(links, batch)
        begun = begin.numel() > 0
        start = prior
        if begun:
            start = torch.empty_like(prior)
            kernels.faults_forward[per_fault](
                links, learned, prior, prior, begin, start, answer, batch,
                REMEMBERS=False, BOUNDED=False, ANSWERS=False, BLOCK=_BLOCK,
            )  # fmt: skip
        earlier = before if before.numel() else prior
        posterior, k = start, begin
        for t in range(iterations):
            out, now = check[t % len(check)], learned.of(t)
            kernels.checks_forward[per_check](
                links, _State(posterior, k), now, syndrome, out, batch,
                GOES_ON=begun or t > 0, DAMPED=begun or t > 0, MIN_SUM=min_sum, BLOCK=_BLOCK,
            )  # fmt: skip
            k, posterior = out, q[t % len(q)]
            kernels.faults_forward[per_fault](
                links, now, prior, earlier, k, posterior, answer, batch,
                REMEMBERS=learned.memory.numel() > 0, BOUNDED=True, ANSWERS=True, BLOCK=_BLOCK,
            )  # fmt: skip
            earlier = posterior
        if keeps:
            ctx.save_for_backward(*tensors, start, q, check)
            ctx.links, ctx.min_sum = links, min_sum
        if not goes_on:
            return answer, answer.new_empty(0), answer.new_empty(0)
        # Copies: what is kept for going back must not be changed, nor kept as a whole for the sake of its last part.
        return answer, posterior.clone(), k.clone()

    @staticmethod
    @once_differentiable
    @one_at_a_time
    def backward(ctx: Any, *upstream: Tensor | None) -> tuple[Any, ...]:
        syndrome, prior, begin, before, *parameters, start, q, check = ctx.saved_tensors
        learned = _Learned(*parameters)
        links, min_sum = ctx.links, ctx.min_sum
        by_answer, by_last, by_end = (None if each is None else each.contiguous() for each in upstream)
        above = _Above(torch.zeros_like(prior) if by_answer is None else by_answer, by_last)
        faults, batch = prior.shape
        iterations, n_links = learned.weight.shape
        per_check, per_fault = _grids(links, batch)
        blocks = per_check[1]
        begun, remembers = begin.numel() > 0, learned.memory.numel() > 0
        by = _Gradients(
            messages=prior.new_empty(n_links, batch),
            carry=prior.new_zeros(n_links, batch) if by_end is None else by_end.clone(),
            scratch=prior.new_empty(n_links, batch),
            earlier=torch.zeros_like(prior) if remembers else prior,
            prior=torch.zeros_like(prior),
            weight=prior.new_empty(iterations, n_links, blocks),
            damping=prior.new_zeros(iterations, len(links.check_ptr) - 1, blocks),
            memory=prior.new_zeros(faults if remembers else 0, blocks),
            readout=prior.new_empty(iterations, faults, blocks),
        )
        for t in range(iterations - 1, -1, -1):
            first, damped = t == iterations - 1, begun or t > 0
            earlier = q[t - 1] if t > 0 else before if before.numel() else prior
            now, by_now = learned.of(t), by.of(t)
            kernels.faults_backward[per_fault](
                links, now, prior, earlier, q[t], above, by_now, batch, blocks,
                FIRST=first, LAST=first and by_last is not None, CARRIES=not first or by_end is not None,
                REMEMBERS=remembers, BLOCK=_BLOCK,
            )  # fmt: skip
            state = _State(q[t - 1], check[t - 1]) if t > 0 else _State(start, begin)
            kernels.checks_backward[per_check](
                links, state, now, syndrome, by_now, batch, blocks,
                GOES_ON=damped, DAMPED=damped, MIN_SUM=min_sum, BLOCK=_BLOCK,
            )  # fmt: skip
        # What is left goes to the messages of the start, which are the prior and those gone on from.
        by_start = torch.empty_like(prior)
        kernels.faults_forward[per_fault](
            links, learned, by.prior, prior, by.messages, by_start, prior, batch,
            REMEMBERS=False, BOUNDED=False, ANSWERS=False, BLOCK=_BLOCK,
        )  # fmt: skip
        by_begin = None
        if begun:
            by_begin = by.carry + (by_start - by.prior)[links.link_fault.long()] - by.messages
        if remembers and not before.numel():  # the posterior before the first iteration is the prior
            by_start = by_start + by.earlier
        by_tensors = by.weight.sum(2), by.damping.sum((1, 2)), by.memory.sum(1), by.readout.sum((1, 2))
        return None, by_start, by_begin, None, *by_tensors, None, None, None, None


def _grids(links: _Links, batch: int) -> tuple[tuple[int, int], tuple[int, int]]:
    blocks = -(-batch // _BLOCK)
    return (len(links.check_ptr) - 1, blocks), (len(links.fault_ptr) - 1, blocks)
