"""The index tensors of a decoding problem, as a module's non-persistent buffers.

Everything here follows from H and the matching graph, so it is rebuilt with the model and never stored in a checkpoint.
Messages live on the ones of H ("links", sorted by check) in the layout [links, batch]: rows are contiguous over the
batch, so gathering them is a copy of whole rows on a CPU and coalesced on a GPU. Sums over the links of a check or of
a fault are gathers into padded rows, which is deterministic where scattered additions are not.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
import torch
from torch import Tensor, nn

from autoqec.decoders.modules.segments import Segments
from autoqec.envs.problem import F64, CheckMatrix, DecodingProblem, flip_rates, log_odds

I64 = npt.NDArray[np.int64]


def padded_rows(indptr: I64, values: I64, fill: int) -> I64:
    """CSR rows as a [rows, longest] table; short rows end in `fill`."""
    lengths = np.diff(indptr)
    table = np.full((len(lengths), max(int(lengths.max(initial=0)), 1)), fill, dtype=np.int64)
    table[np.arange(table.shape[1])[None, :] < lengths[:, None]] = values
    return table


class TannerLinks(nn.Module):
    """H as links between checks and faults.

    check, fault: [n_links] ends of each link. links_of_check, links_of_fault: padded tables of links; the pad is
    `n_links`, one row beyond the messages. rates: [n_faults] as of the problem, else by its priors alone.
    """

    check: Tensor
    fault: Tensor
    links_of_check: Tensor
    links_of_fault: Tensor

    def __init__(self, problem: CheckMatrix) -> None:
        super().__init__()
        self.n_checks, self.n_faults = problem.n_checks, problem.n_faults
        self.rates = flip_rates(problem.priors, 1.0) if problem.rates is None else problem.rates
        rows = problem.h.tocsr()
        rows.sort_indices()
        self.n_links = int(rows.nnz)
        check = np.repeat(np.arange(self.n_checks), np.diff(rows.indptr))
        fault = rows.indices.astype(np.int64)
        by_fault = np.argsort(fault, kind="stable")
        fault_ptr = np.concatenate([[0], np.cumsum(np.bincount(fault, minlength=self.n_faults))])
        tables = {
            "check": check,
            "fault": fault,
            "links_of_check": padded_rows(
                rows.indptr.astype(np.int64), np.arange(self.n_links), self.n_links
            ),
            "links_of_fault": padded_rows(fault_ptr, by_fault, self.n_links),
        }
        for name, table in tables.items():
            self.register_buffer(name, torch.from_numpy(np.ascontiguousarray(table)), persistent=False)
        self.by_check = Segments(check, self.n_checks)
        self.by_fault = Segments(fault, self.n_faults)

    @property
    def tanner_edges(self) -> Tensor:
        """[2, n_links]: row 0 the check and row 1 the fault of each one of H."""
        return torch.stack([self.check, self.fault])


class FaultFold(nn.Module):
    """Sets of faults, and how likely an odd number of each happens.

    members: CSR [sets, n_faults]. fault: those of set i from ptr[i] on. A set without faults keeps its prior: `untouched`.

    fused: let `fused_edges` do the work where it can. Export and operation counts, which see torch operations only, turn it off.
    """

    fused: bool = True
    fault: Tensor
    ptr: Tensor
    untouched: Tensor

    def __init__(self, members: sp.csr_array[Any], priors: F64) -> None:
        super().__init__()
        degree = np.diff(members.indptr)
        tables = {
            "fault": members.indices.astype(np.int64),
            "ptr": members.indptr.astype(np.int64),
            "untouched": np.where(degree > 0, 0.0, log_odds(priors)).astype(np.float32),
        }
        for name, table in tables.items():
            self.register_buffer(name, torch.from_numpy(table), persistent=False)
        self.by_set = Segments(np.repeat(np.arange(len(degree)), degree), len(degree))

    def forward(self, fault_log_odds: Tensor) -> Tensor:
        """[sets, batch] log-odds from those of the faults [n_faults, batch]: odd parity of the set's faults.

        tanh(set / 2) is the product of tanh(fault / 2): magnitudes add up as phi, signs as a parity.
        """
        if self._fusible(fault_log_odds):
            from autoqec.decoders.modules.fused_edges import edges_from_faults

            return edges_from_faults(fault_log_odds, self.ptr, self.fault, self.untouched)
        total = self.by_set.sum(phi(fault_log_odds.abs())[self.fault][None])[0]
        flips = self.by_set.sum((fault_log_odds < 0).to(fault_log_odds.dtype)[self.fault][None])[0]
        sign = 1.0 - 2.0 * torch.remainder(flips, 2.0)
        untouched = self.untouched[:, None]
        return torch.where(untouched == 0, sign * phi(total), untouched)

    def _fusible(self, fault_log_odds: Tensor) -> bool:
        return (
            self.fused
            and not torch.compiler.is_compiling()
            and fault_log_odds.device.type == "cpu"
            and fault_log_odds.dtype == torch.float32
        )


class GraphEdges(FaultFold):
    """The matching graph: the faults of each edge and the edges of each fault. edges_of_fault: padded with `n_edges`."""

    edges_of_fault: Tensor

    def __init__(self, problem: DecodingProblem) -> None:
        if problem.graph is None:
            raise ValueError("the problem has no matching graph")
        super().__init__(problem.graph.fault_edges, problem.graph.priors)
        self.n_edges = problem.graph.n_edges
        columns = problem.graph.fault_edges.tocsc()
        of_fault = padded_rows(
            columns.indptr.astype(np.int64), columns.indices.astype(np.int64), self.n_edges
        )
        self.register_buffer("edges_of_fault", torch.from_numpy(of_fault), persistent=False)

    def from_faults(self, fault_log_odds: Tensor) -> Tensor:
        """[n_edges, batch] from [n_faults, batch]."""
        found: Tensor = self(fault_log_odds)
        return found

    def labels(self, faults: Tensor) -> Tensor:
        """[n_edges, batch]: which edges flipped, from which faults happened [n_faults, batch]."""
        flips = self.by_set.sum(faults.float()[self.fault][None])[0]
        return torch.remainder(flips, 2.0).bool()


def phi(x: Tensor) -> Tensor:
    """-log tanh(x / 2) of positive numbers, its own inverse, for arguments kept within [2e-7, 25]: at most 16.1.

    Written in exp(x) - 1, it is exact to rounding at both ends, where 1 - exp(-x) or tanh(x / 2) have lost their digits. An
    exporter that spells out exp(x) - 1 never gets zero here.
    """
    return torch.log1p(2.0 / torch.expm1(x.clamp(2e-7, 25.0)))
