"""The index tensors of a decoding problem, as a module's non-persistent buffers.

Everything here follows from H and the matching graph, so it is rebuilt with the model and never stored in a checkpoint.
Messages live on the ones of H ("links", sorted by check) in the layout [links, batch]: rows are contiguous over the
batch, so gathering them is a copy of whole rows on a CPU and coalesced on a GPU. Sums over the links of a check or of
a fault are gathers into padded rows, which is deterministic where scattered additions are not.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from autoqec.envs.problem import BOUNDARY, DecodingProblem, log_odds

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
    `n_links`, one row beyond the messages.
    """

    check: Tensor
    fault: Tensor
    links_of_check: Tensor
    links_of_fault: Tensor

    def __init__(self, problem: DecodingProblem) -> None:
        super().__init__()
        self.n_checks, self.n_faults = problem.n_checks, problem.n_faults
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

    @property
    def tanner_edges(self) -> Tensor:
        """[2, n_links]: row 0 the check and row 1 the fault of each one of H."""
        return torch.stack([self.check, self.fault])


class GraphEdges(nn.Module):
    """The matching graph: edges, the faults of each edge and the edges of each fault.

    ends: [n_edges, 2], the boundary as node `n_checks`. faults_of_edge: padded with `n_faults`; edges_of_fault: padded
    with `n_edges`. An edge without faults keeps its prior: `untouched`.
    """

    ends: Tensor
    faults_of_edge: Tensor
    edges_of_fault: Tensor
    untouched: Tensor

    def __init__(self, problem: DecodingProblem) -> None:
        super().__init__()
        if problem.graph is None:
            raise ValueError("the problem has no matching graph")
        graph = problem.graph
        self.n_edges, self.n_faults, self.n_checks = graph.n_edges, problem.n_faults, problem.n_checks
        columns = graph.fault_edges.tocsc()
        ends = np.where(graph.ends == BOUNDARY, problem.n_checks, graph.ends).astype(np.int64)
        tables = {
            "ends": ends,
            "faults_of_edge": padded_rows(
                graph.fault_edges.indptr.astype(np.int64),
                graph.fault_edges.indices.astype(np.int64),
                self.n_faults,
            ),
            "edges_of_fault": padded_rows(
                columns.indptr.astype(np.int64), columns.indices.astype(np.int64), self.n_edges
            ),
        }
        for name, table in tables.items():
            self.register_buffer(name, torch.from_numpy(table), persistent=False)
        touched = np.diff(graph.fault_edges.indptr) > 0
        untouched = np.where(touched, 0.0, log_odds(graph.priors)).astype(np.float32)
        self.register_buffer("untouched", torch.from_numpy(untouched), persistent=False)

    def from_faults(self, fault_log_odds: Tensor) -> Tensor:
        """Edge log-odds [n_edges, batch] from fault log-odds [n_faults, batch]: odd parity of the edge's faults.

        Signs and magnitudes are kept apart, and the parity is folded with the less likely value of each fault, so that
        faults that are nearly certain lose no precision.
        """
        magnitude = fault_log_odds.abs().clamp(max=30.0)
        minority = torch.sigmoid(-magnitude)
        sign = torch.where(fault_log_odds < 0, -1.0, 1.0).to(minority.dtype)
        pad = minority.new_zeros(1, minority.shape[1])
        minority = torch.cat([minority, pad])
        sign = torch.cat([sign, pad + 1.0])
        odd = minority[self.faults_of_edge[:, 0]]
        total = sign[self.faults_of_edge[:, 0]]
        for k in range(1, self.faults_of_edge.shape[1]):
            a = minority[self.faults_of_edge[:, k]]
            odd = odd + a - 2 * odd * a
            total = total * sign[self.faults_of_edge[:, k]]
        odd = odd.clamp(1e-9, 0.5)
        return (
            total * (torch.log1p(-odd) - torch.log(odd)) * (self.untouched[:, None] == 0)
            + self.untouched[:, None]
        )
