"""Log-odds of matching edges from those of faults on a CPU in one compiled pass, with gradients.

The function is that of `structure.FaultFold`; the kernels are in `autoqec.decoders.backends._kernels.edge_odds`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from autoqec.decoders.backends._kernels import edge_odds
from autoqec.decoders.backends._kernels.pieces import in_pieces, read_only
from autoqec.decoders.modules.compiled import as_array, blocks_of, lifted_gradients


def edges_from_faults(log_odds: Tensor, edge_ptr: Tensor, fault: Tensor, untouched: Tensor) -> Tensor:
    """[n_faults, batch] -> [n_edges, batch]. fault: [.] those of edge i from edge_ptr[i] on; untouched: [n_edges].

    Single precision. Gradients may be taken once. Neither answer nor gradients depend on the number of torch's threads, bit by bit.
    """
    answer: Tensor = _Edges.apply(log_odds, edge_ptr, fault, untouched)  # type: ignore[no-untyped-call]
    return answer


class _Edges(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, *args: Any) -> Tensor:
        log_odds, edge_ptr, fault, untouched = args
        table = edge_odds.FaultsOfEdges(*(read_only(each.numpy()) for each in (edge_ptr, fault, untouched)))
        ctx.save_for_backward(log_odds)
        ctx.table, odds = table, as_array(log_odds)
        answer = np.empty((len(untouched), odds.shape[1]), dtype=np.float32)
        in_pieces(
            lambda start, stop: edge_odds.forward(table, odds, start, stop, answer),
            blocks_of(odds.shape[1]),
            torch.get_num_threads(),
            worth_a_thread=1,
        )
        return torch.from_numpy(answer)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *upstream: Tensor) -> tuple[Any, ...]:
        odds = as_array(ctx.saved_tensors[0])
        (lifted,), scale = lifted_gradients([upstream[0]])
        above, gradient = as_array(lifted), np.empty(odds.shape, dtype=np.float32)
        in_pieces(
            lambda start, stop: edge_odds.backward(ctx.table, odds, above, start, stop, gradient),
            blocks_of(odds.shape[1]),
            torch.get_num_threads(),
            worth_a_thread=1,
        )
        return torch.from_numpy(gradient).mul_(scale), None, None, None
