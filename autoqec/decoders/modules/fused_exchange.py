"""The exchange between two halves on a CPU in one compiled pass, with gradients.

The function is that of `exchange.Exchange`; the kernels are in `autoqec.decoders.backends._kernels.exchange`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from autoqec.decoders.backends._kernels import exchange as kernels
from autoqec.decoders.backends._kernels.pieces import in_pieces, read_only
from autoqec.decoders.modules.compiled import as_array, blocks_of, groups_of, lifted_gradients
from autoqec.decoders.modules.exchange import Exchange, Odds


def fused_exchange(exchange: Exchange, evidence: Tensor, scale: Tensor, odds: Odds) -> Tensor:
    """Prior log-odds [n_listening, batch]. Gradients by evidence and scale, once; none by the odds."""
    answer: Tensor = _Fused.apply(evidence, scale, odds, exchange)  # type: ignore[no-untyped-call]
    return answer


class _Fused(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, evidence: Tensor, scale: Tensor, odds: Odds, exchange: Exchange) -> Tensor:
        ctx.save_for_backward(evidence, scale)
        ctx.tables = _tables(odds, exchange)
        faults, table = ctx.tables
        answer = np.empty((exchange.n_listening, evidence.shape[1]), dtype=np.float32)
        given, by = as_array(evidence), np.float32(float(scale))
        in_pieces(
            lambda start, stop: kernels.forward(faults, table, given, by, start, stop, answer),
            blocks_of(evidence.shape[1]),
            torch.get_num_threads(),
            worth_a_thread=1,
        )
        return torch.from_numpy(answer)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *upstream: Tensor) -> tuple[Any, ...]:
        evidence, scale = ctx.saved_tensors
        faults, table = ctx.tables
        lifted, back = lifted_gradients([upstream[0]])
        given, above, by = as_array(evidence), as_array(lifted[0]), np.float32(float(scale))
        blocks = blocks_of(evidence.shape[1])
        groups, bounds = groups_of(blocks)
        by_evidence = np.empty(evidence.shape, dtype=np.float32)
        by_scale = np.zeros(groups, dtype=np.float32)
        in_pieces(
            lambda start, stop: kernels.backward(
                faults, table, given, by, above, bounds, start, stop, by_evidence, by_scale
            ),
            groups,
            torch.get_num_threads(),
            worth_a_thread=1,
        )
        of_scale = torch.full_like(scale, float(by_scale.sum()) * back)
        return torch.from_numpy(by_evidence) * back, of_scale, None, None


def _tables(odds: Odds, exchange: Exchange) -> tuple[Any, Any]:
    ptr, source = exchange.starts.astype(np.int32), exchange.source.numpy().astype(np.int32)
    rows = odds.probability, odds.others, odds.alone
    return kernels.Faults(read_only(ptr), read_only(source)), kernels.Odds(*map(as_array, rows))
