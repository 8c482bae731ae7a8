"""Learned belief propagation on a CPU in one compiled pass, with gradients.

The function is that of `neural_bp.LearnedBP` without attention; the kernels are in
`autoqec.decoders.backends._kernels.learned_bp`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from autoqec.decoders.backends._kernels import learned_bp
from autoqec.decoders.backends._kernels.pieces import in_pieces, read_only
from autoqec.decoders.modules.compiled import as_array, blocks_of, groups_of, lifted_gradients
from autoqec.decoders.modules.structure import TannerLinks
from autoqec.errors import InputError

F32 = npt.NDArray[np.float32]


def fused_propagation(
    links: TannerLinks,
    syndrome: Tensor,
    prior: Tensor,
    weight: Tensor,
    damping: Tensor | None,
    memory: Tensor | None,
    readout: Tensor,
    begin: Tensor | None = None,
    before: Tensor | None = None,
    *,
    min_sum: bool = False,
    goes_on: bool = True,
    threads: int | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """The answer, fault log-odds [n_faults, batch] by the readout; those of the last iteration; and the messages [n_links, batch]
    from checks, to go on from. The last two are empty unless `goes_on`.

    Args:
        syndrome: [n_checks, batch] of 0 and 1; no gradient.
        prior: [n_faults, batch] log-odds.
        weight: [iterations, n_links], of the messages from checks.
        damping: [iterations] or None; the first entry has no effect from the start, as there is nothing before it.
        memory: [n_faults] or None.
        readout: [iterations].
        begin: [n_links, batch] messages from checks to go on from; damping counts from the first iteration then.
        before: [n_faults, batch] posteriors that the memory starts at, in place of the prior; no gradient.
        min_sum: that rule at the checks instead of sum-product.
        threads: by default one per available core. Neither answer nor gradients depend on it, bit by bit.

    Single precision. Gradients may be taken once, not of gradients.
    """
    iterations, batch = len(weight), syndrome.shape[1]
    shapes = {
        "syndrome": (syndrome, (links.n_checks, batch)),
        "prior": (prior, (links.n_faults, batch)),
        "weight": (weight, (iterations, links.n_links)),
        "damping": (damping, (iterations,)),
        "memory": (memory, (links.n_faults,)),
        "readout": (readout, (iterations,)),
        "begin": (begin, (links.n_links, batch)),
        "before": (before, (links.n_faults, batch)),
    }
    for name, (tensor, shape) in shapes.items():
        if tensor is None:
            continue
        if tuple(tensor.shape) != shape:
            raise InputError(f"got shape {tuple(tensor.shape)}, expected {shape}", where=name)
        if tensor.device.type != "cpu":
            raise InputError(f"the tensor is on {tensor.device}", where=name, hint="use the torch path there")
        if tensor.dtype != torch.float32:
            raise InputError(f"the tensor is {tensor.dtype}", where=name, hint="use torch.float32")
    none, no_rows = weight.new_empty(0), weight.new_empty(0, batch)
    answer, last, messages = _FusedBP.apply(  # type: ignore[no-untyped-call]
        syndrome,
        prior,
        no_rows if begin is None else begin,
        no_rows if before is None else before,
        weight,
        none if damping is None else damping,
        none if memory is None else memory,
        readout,
        links,
        min_sum,
        goes_on,
        threads,
    )
    return answer, last, messages


class _FusedBP(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, *args: Any) -> tuple[Tensor, ...]:
        *tensors, links, min_sum, goes_on, threads = args
        ctx.save_for_backward(*tensors)
        ctx.set_materialize_grads(False)
        ctx.links, ctx.min_sum, ctx.threads = _links(links), min_sum, threads
        shots, weights = _shots(tensors), _weights(tensors)
        faults, batch = tensors[1].shape
        rows = (faults, faults, links.n_links) if goes_on else (faults, 0, 0)
        answers = learned_bp.Answers(*(np.empty((n, batch), dtype=np.float32) for n in rows))
        in_pieces(
            lambda start, stop: learned_bp.forward(ctx.links, weights, shots, min_sum, start, stop, answers),
            blocks_of(batch),
            threads,
            worth_a_thread=1,
        )
        return tuple(map(torch.from_numpy, answers))

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *upstream: Tensor | None) -> tuple[Any, ...]:
        tensors = ctx.saved_tensors
        _, prior, begin, _, weight, damping, memory, readout = tensors
        by_answer, by_last, by_end = upstream
        if by_answer is None:
            by_answer = torch.zeros_like(prior)
        none = prior.new_empty(0, prior.shape[1])
        lifted, scale = lifted_gradients(
            [by_answer, *(none if each is None else each for each in (by_last, by_end))]
        )
        shots, weights, above = _shots(tensors), _weights(tensors), learned_bp.Answers(*map(as_array, lifted))
        blocks = blocks_of(prior.shape[1])
        groups, bounds = groups_of(blocks)
        parts = [
            np.zeros((groups, *tensor.shape), dtype=np.float32)
            for tensor in (weight, damping, memory, readout)
        ]
        by_prior, by_begin = (np.empty(each.shape, dtype=np.float32) for each in (prior, begin))
        of_weight, of_damping, of_memory, of_readout = parts
        gradients = learned_bp.Gradients(of_weight, of_damping, of_memory, of_readout, by_prior, by_begin)
        in_pieces(
            lambda start, stop: learned_bp.backward(
                ctx.links, weights, shots, ctx.min_sum, above, bounds, start, stop, gradients
            ),
            groups,
            ctx.threads,
            worth_a_thread=1,
        )
        by_weight, by_damping, by_memory, by_readout = (
            torch.from_numpy(part.sum(axis=0)) * scale for part in parts
        )
        of_prior, of_begin = (torch.from_numpy(each) * scale for each in (by_prior, by_begin))
        rest = None, None, None, None
        return None, of_prior, of_begin, None, by_weight, by_damping, by_memory, by_readout, *rest


def _shots(tensors: Sequence[Tensor]) -> learned_bp.Shots:
    return learned_bp.Shots(*map(as_array, tensors[:4]))


def _weights(tensors: Sequence[Tensor]) -> learned_bp.Weights:
    return learned_bp.Weights(*map(as_array, tensors[4:]))


def _links(links: TannerLinks) -> learned_bp.Links:
    check, fault = links.check.numpy(), links.fault.numpy()
    by_fault = links.links_of_fault.numpy()
    check_ptr = np.concatenate([[0], np.cumsum(np.bincount(check, minlength=links.n_checks))])
    fault_ptr = np.concatenate([[0], np.cumsum(np.bincount(fault, minlength=links.n_faults))])
    tables = check_ptr, fault, fault_ptr, by_fault[by_fault < links.n_links]
    return learned_bp.Links(*(read_only(table.astype(np.int32)) for table in tables))
