"""Message passing on the graph of a problem, read out as one number per output.

Each of `layers` rounds, with P a projection of the raw edge features:

    m_ij = message(x_i, x_j, P e_ij)        on every directed edge i -> j
    a_j  = aggregate of m_ij over i
    x_j  = norm(x_j + silu(U a_j))          or norm(silu(U a_j + S x_j)) where `residual` is off

The answer is head([x_u, x_v, mean of the directed edge features]) at the two ends of each output. Heads
start at zero, so an untrained net adds nothing to the log-odds that it is meant to correct.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from autoqec.decoders.custom.build import compile_custom
from autoqec.decoders.dsl_schema import CustomFunction, GnnSpec, Head
from autoqec.decoders.modules.aggregations import AGGREGATIONS, Aggregate, CustomAggregate
from autoqec.decoders.modules.graph_view import STATIC_FEATURES, GraphView
from autoqec.decoders.modules.heads import HEADS, CustomHead
from autoqec.decoders.modules.messages import MESSAGES, CustomMessage, Message
from autoqec.decoders.modules.normalizations import NORMALIZATIONS
from autoqec.errors import InputError

ENDS_AND_EDGE = 3


class GraphNet(nn.Module):
    """One number per output of `view`, from a syndrome and `edge_inputs` numbers per output (of order one).

    Every shot is answered from its own row. Attention weights, sums and maxima are padded gathers: the same
    input gives the same bits on every run.
    """

    def __init__(
        self, spec: GnnSpec, view: GraphView, head: Head | CustomFunction, *, edge_inputs: int
    ) -> None:
        super().__init__()
        self.view = view
        hidden = spec.hidden_dim
        self.check = nn.Linear(1, hidden)
        self.other = nn.Parameter(torch.randn(hidden) * 0.5)
        self.rounds = nn.ModuleList(Round(spec, edge_inputs) for _ in range(spec.layers))
        self.edges = EdgeFeatures(spec, edge_inputs, hidden)
        width = ENDS_AND_EDGE * hidden
        self.head = (
            CustomHead(compile_custom(head, "head", hidden=width, where="head"))
            if isinstance(head, CustomFunction)
            else HEADS[head](width)
        )

    def forward(self, syndrome: Tensor, edge_values: Tensor) -> Tensor:
        """syndrome: [batch, n_checks] of 0 and 1; edge_values: [batch, n_outputs, edge_inputs] -> [batch,
        n_outputs].
        """
        view = self.view
        batch, others = syndrome.shape[0], view.n_nodes - view.n_checks
        checks = self.check(syndrome[..., None])
        x = torch.cat([checks, self.other.to(checks.dtype).expand(batch, others, -1)], dim=1)
        bits = functional.pad(syndrome, (0, others))
        ends = torch.stack([bits.index_select(1, view.source), bits.index_select(1, view.target)], dim=-1)
        values = edge_values.index_select(1, view.output_of)
        for round_ in self.rounds:
            x = round_(x, ends, values, view)
        edge = view.by_output.mean(self.edges(ends, values, view))
        u, v = view.nodes_of_output.unbind(dim=1)
        out: Tensor = self.head(torch.cat([x.index_select(1, u), x.index_select(1, v), edge], dim=-1))
        return out.squeeze(-1)


class Round(nn.Module):
    """One exchange of messages. Nothing is shared between rounds."""

    def __init__(self, spec: GnnSpec, edge_inputs: int) -> None:
        super().__init__()
        hidden = spec.hidden_dim
        self.message: Message | CustomMessage = (
            CustomMessage(compile_custom(spec.message_fn, "message", hidden=hidden, where="gnn.message_fn"))
            if isinstance(spec.message_fn, CustomFunction)
            else MESSAGES[spec.message_fn](hidden)
        )
        self.aggregate: Aggregate | CustomAggregate = (
            CustomAggregate(
                compile_custom(spec.aggregation, "aggregate", hidden=hidden, where="gnn.aggregation")
            )
            if isinstance(spec.aggregation, CustomFunction)
            else AGGREGATIONS[spec.aggregation](hidden)
        )
        self.edges = EdgeFeatures(spec, edge_inputs, self.message.edge_parts * hidden)
        self.norm = NORMALIZATIONS[spec.normalization](hidden)
        self.take = nn.Linear(hidden, hidden)
        self.keep = None if spec.residual else nn.Linear(hidden, hidden, bias=False)

    def forward(self, x: Tensor, ends: Tensor, values: Tensor, view: GraphView) -> Tensor:
        messages = self.message(x, self.edges(ends, values, view), view)
        if self.norm.per == "edges":
            messages = self.norm(messages)
        update = self.take(self.aggregate(messages, view))
        update = x + functional.silu(update) if self.keep is None else functional.silu(update + self.keep(x))
        return update if self.norm.per == "edges" else self.norm(update)


class EdgeFeatures(nn.Module):
    """The chosen features of every directed edge and the caller's values, projected: [batch, n_directed,
    width].

    What does not depend on the shot is projected once for the whole batch.
    """

    columns: Tensor

    def __init__(self, spec: GnnSpec, edge_inputs: int, width: int) -> None:
        super().__init__()
        chosen = [i for i, name in enumerate(STATIC_FEATURES) if name in spec.edge_features]
        self.register_buffer("columns", torch.tensor(chosen, dtype=torch.long), persistent=False)
        self.syndrome_bit = "syndrome_bit" in spec.edge_features
        shot_inputs = edge_inputs + (2 if self.syndrome_bit else 0)
        self.per_shot = nn.Linear(shot_inputs, width, bias=not chosen) if shot_inputs else None
        self.static = nn.Linear(len(chosen), width) if chosen else None

    def forward(self, ends: Tensor, values: Tensor, view: GraphView) -> Tensor:
        shot = torch.cat([ends, values], dim=-1) if self.syndrome_bit else values
        e = None if self.per_shot is None else self.per_shot(shot)
        if self.static is not None:
            # The second half of the edges is the first half reversed: one projection serves both.
            half = self.static(view.static[: view.n_directed // 2].index_select(1, self.columns))
            both = torch.cat([half, half])
            e = both.expand(ends.shape[0], -1, -1) if e is None else e + both
        if e is None:
            raise InputError("no edge features", where="gnn.edge_features", mend="choose at least one")
        out: Tensor = e
        return out
