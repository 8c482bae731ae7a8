"""The graph that a GNN runs on: nodes, directed edges, static features, and where its outputs sit."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor, nn

from autoqec.decoders.dsl_schema import Neighbours
from autoqec.decoders.modules.segments import Segments
from autoqec.decoders.modules.structure import I64, FaultFold
from autoqec.envs.problem import BOUNDARY, F64, DecodingProblem, log_odds
from autoqec.errors import InputError

STATIC_FEATURES = ("round_idx", "stabilizer_type", "distance", "prior_weight")
_TYPE = {"X": 1.0, "Z": -1.0, "?": 0.0}


class GraphView(nn.Module):
    """Where a problem has a matching graph: its detectors and boundary, two directions per edge, one output
    per edge. Elsewhere the Tanner graph: checks and faults, two directions per one of H, one output per
    fault.

    neighbours: on a matching graph, who hears whom. Its edges join detectors of one basis alone; with "faults" any two detectors that a
    fault flips together are joined, too. Those pairs come behind the edges and are not asked for an answer: n_answers.

    n_nodes: the first `n_checks` are the checks. source, target: [n_directed]. output_of: [n_directed] the
    output that each directed edge belongs to. nodes_of_output: [n_outputs, 2] the two end nodes of an output
    (a fault node twice on the Tanner graph). static: [n_directed, len(STATIC_FEATURES)]. by_source,
    by_target: the directed edges that leave and that enter a node.

    The second half of the directed edges is the first half reversed: what both directions share is computed
    for the first `n_edges` only. by_output: those of each output, one on a matching graph.
    """

    source: Tensor
    target: Tensor
    output_of: Tensor
    nodes_of_output: Tensor
    static: Tensor

    def __init__(self, problem: DecodingProblem, neighbours: Neighbours = "edges") -> None:
        super().__init__()
        self.n_checks = problem.n_checks
        self.on_matching_graph = problem.graph is not None
        self.pairs: FaultFold | None = None
        if problem.graph is not None:
            ends = np.where(problem.graph.ends == BOUNDARY, problem.n_checks, problem.graph.ends).astype(
                np.int64
            )
            priors = problem.graph.priors
            self.n_answers = len(ends)
            if neighbours == "faults":
                pairs, members = fault_pairs(problem, ends)
                of_pairs = xor_of(members, problem.priors)
                self.pairs = FaultFold(members, of_pairs)
                ends, priors = np.concatenate([ends, pairs]), np.concatenate([priors, of_pairs])
            outputs = np.arange(len(ends))
            self.n_nodes, self.n_outputs = problem.n_checks + 1, len(ends)
            nodes_of_output = ends
        elif neighbours == "faults":
            raise InputError(
                "there is no matching graph: checks and faults hear each other anyway",
                where="gnn.neighbours",
                hint="leave it out",
            )
        else:
            coo = problem.h.tocoo()
            ends = np.stack([coo.row, coo.col + problem.n_checks], axis=1).astype(np.int64)
            outputs, priors = coo.col.astype(np.int64), problem.priors[coo.col]
            self.n_nodes, self.n_outputs = problem.n_checks + problem.n_faults, problem.n_faults
            self.n_answers = self.n_outputs
            nodes_of_output = np.arange(problem.n_faults)[:, None].repeat(2, axis=1) + problem.n_checks
        static = self._static(problem, ends, priors)
        tables = {
            "source": np.concatenate([ends[:, 0], ends[:, 1]]),
            "target": np.concatenate([ends[:, 1], ends[:, 0]]),
            "output_of": np.concatenate([outputs, outputs]),
            "nodes_of_output": nodes_of_output,
            "static": np.concatenate([static, static]).astype(np.float32),
        }
        for name, table in tables.items():
            self.register_buffer(name, torch.from_numpy(np.ascontiguousarray(table)), persistent=False)
        self.n_directed, self.n_edges = len(tables["source"]), len(ends)
        self.by_source = Segments(tables["source"], self.n_nodes)
        self.by_target = Segments(tables["target"], self.n_nodes)
        self.by_output = Segments(outputs, self.n_outputs)

    def with_pairs(self, answers: Tensor, faults: Tensor) -> Tensor:
        """[n_outputs, batch] log-odds from those of the answers [n_answers, batch] and of the faults [n_faults, batch], of which pairs have theirs."""
        return answers if self.pairs is None else torch.cat([answers, self.pairs(faults)])

    def to_edges(self, values: Tensor) -> Tensor:
        """[batch, n_outputs, width] -> [batch, n_edges, width]: each edge gets what its output has."""
        return values if self.on_matching_graph else self.by_output.spread(values)

    def to_outputs(self, values: Tensor) -> Tensor:
        """[batch, n_edges, width] -> [batch, n_outputs, width]: the mean over the edges of each output."""
        return values if self.on_matching_graph else self.by_output.mean(values)

    def _static(self, problem: DecodingProblem, ends: I64, priors: F64) -> F64:
        """[n_edges, features], each of order one: the round of the check (0 to 1), its basis (0 between the
        two), how far apart the ends are in the coordinates (a fault sits in the middle of its checks; the boundary is at no
        distance), and the log-odds of the prior.
        """
        check = ends[:, 0]
        coords = np.nan_to_num(problem.detector_coords)
        if coords.shape[1] == 0:
            coords = np.zeros((problem.n_checks, 1))
        time = coords[:, -1] / max(float(coords[:, -1].max(initial=0.0)), 1.0)
        if problem.graph is not None:
            other = np.minimum(ends[:, 1], problem.n_checks - 1)
            apart = np.linalg.norm(coords[check] - coords[other], axis=1) * (ends[:, 1] < problem.n_checks)
        else:
            fault = ends[:, 1] - problem.n_checks
            degree = np.maximum(np.bincount(fault, minlength=problem.n_faults), 1)[:, None]
            middle = np.asarray(problem.h.T @ coords) / degree
            apart = np.linalg.norm(coords[check] - middle[fault], axis=1)
        basis = np.array([_TYPE[b] for b in problem.detector_basis.tolist()])
        kind = basis[check]
        if self.pairs is not None:
            kind[self.n_answers :] = basis[ends[self.n_answers :]].mean(axis=1)
        return np.stack(
            [
                time[check],
                kind,
                apart / max(float(apart.max(initial=0.0)), 1.0),
                log_odds(priors) / 10.0,
            ],
            axis=1,
        )


def fault_pairs(problem: DecodingProblem, known: I64) -> tuple[I64, sp.csr_array[Any]]:
    """Any two detectors that a fault flips together and that are not among the `known` pairs: [pairs, 2] in order, and which faults flip both."""
    together = sp.csr_array(problem.h.astype(np.int64) @ problem.h.T.astype(np.int64))
    first, second = sp.triu(together, k=1).nonzero()
    n = problem.n_checks + 1
    is_new = ~np.isin(first * n + second, known.min(axis=1) * n + known.max(axis=1))
    pairs = np.stack([first, second], axis=1)[is_new].astype(np.int64)
    pairs = pairs[np.lexsort(pairs.T[::-1])]
    rows = problem.h.tocsr()
    return pairs, sp.csr_array(rows[pairs[:, 0]].multiply(rows[pairs[:, 1]]))


def xor_of(members: sp.csr_array[Any], priors: F64) -> F64:
    """[sets] the probability that an odd number of each set's faults happens."""
    even: F64 = np.exp(members.astype(np.float64) @ np.log1p(-2.0 * np.minimum(priors, 0.5 - 1e-12)))
    return (1.0 - even) / 2.0
