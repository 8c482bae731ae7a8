"""What a message knows of its edge: the syndrome at both ends, the caller's values, and static features."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from autoqec.decoders.dsl_schema import GnnSpec
from autoqec.decoders.modules.graph_view import STATIC_FEATURES, GraphView
from autoqec.errors import InputError


@dataclass(frozen=True)
class Shots:
    """bits: [batch, n_nodes] the syndrome, zero beyond the checks; values: [batch, n_outputs, k], of order one."""

    bits: Tensor
    values: Tensor

    def take(self, start: int, stop: int) -> Shots:
        return Shots(self.bits[start:stop], self.values[start:stop])


@dataclass(frozen=True)
class Terms:
    """The projection of edge features, taken apart by what each part depends on.

    bits: [2, width] times the bit of the source and of the target, or None where the syndrome is not a feature; values:
    [width, k]; static: [n_edges, width], the bias included. The last two are the same in both directions.
    """

    bits: Tensor | None
    values: Tensor
    static: Tensor


class EdgeFeatures(nn.Module):
    """The chosen features of every directed edge and the caller's values, projected: [batch, n_directed,
    width].
    """

    columns: Tensor

    def __init__(self, spec: GnnSpec, edge_inputs: int, width: int) -> None:
        super().__init__()
        chosen = [i for i, name in enumerate(STATIC_FEATURES) if name in spec.edge_features]
        self.register_buffer("columns", torch.tensor(chosen, dtype=torch.long), persistent=False)
        self.syndrome_bit = "syndrome_bit" in spec.edge_features
        self.width = width
        shot_inputs = edge_inputs + (2 if self.syndrome_bit else 0)
        self.per_shot = nn.Linear(shot_inputs, width, bias=not chosen) if shot_inputs else None
        self.static = nn.Linear(len(chosen), width) if chosen else None

    def terms(self, view: GraphView) -> Terms:
        weight, bias = view.static.new_empty(self.width, 0), None
        if self.per_shot is not None:
            weight, bias = self.per_shot.weight, self.per_shot.bias
        if self.static is not None:
            static = self.static(view.static[: view.n_edges].index_select(1, self.columns))
        elif bias is not None:
            static = bias.expand(view.n_edges, -1)
        else:
            raise InputError("no edge features", where="gnn.edge_features", hint="choose at least one")
        if not self.syndrome_bit:
            return Terms(None, weight, static)
        return Terms(weight[:, :2].T, weight[:, 2:], static)

    def shared(self, shots: Shots, terms: Terms, view: GraphView) -> Tensor:
        """What both directions of an edge have in common: [batch, n_edges, width]."""
        if not shots.values.shape[-1]:
            return terms.static.expand(shots.bits.shape[0], -1, -1)
        return view.to_edges(functional.linear(shots.values, terms.values)) + terms.static

    def mean_terms(self, shots: Shots, view: GraphView) -> tuple[Tensor, Tensor, Tensor]:
        """(v, w, s) such that v w^T + s is the mean over the directed edges of each output: [batch, n_outputs, k],
        [width, k] and [1, n_outputs, width].
        """
        terms = self.terms(view)
        values, weight = view.to_edges(shots.values), terms.values
        if terms.bits is not None:
            # Each end is the source in one direction and the target in the other.
            ends = [shots.bits.index_select(1, nodes[: view.n_edges]) for nodes in (view.source, view.target)]
            values = torch.cat([values, 0.5 * (ends[0] + ends[1])[..., None]], dim=-1)
            weight = torch.cat([weight, terms.bits.sum(dim=0)[:, None]], dim=1)
        return view.to_outputs(values), weight, view.to_outputs(terms.static[None])

    def forward(self, shots: Shots, view: GraphView) -> Tensor:
        terms = self.terms(view)
        static = torch.cat([terms.static, terms.static])
        parts = [shots.values.index_select(1, view.output_of)] if shots.values.shape[-1] else []
        if terms.bits is not None:
            ends = [shots.bits.index_select(1, nodes)[..., None] for nodes in (view.source, view.target)]
            parts = ends + parts
        if self.per_shot is None:
            return static.expand(shots.bits.shape[0], -1, -1)
        return functional.linear(torch.cat(parts, dim=-1), self.per_shot.weight) + static
