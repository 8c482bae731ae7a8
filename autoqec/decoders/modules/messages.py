"""Message functions: what a node tells a neighbour along a directed edge.

Nodes are outnumbered eight to one by edges: every matrix acts on nodes before they are gathered to edges, and
the matrix that an MLP would have after its activation is the node update's (a sum or mean of messages
commutes with it). Where features of the edge are only added, its bits are added at the nodes, and what both
directions share is computed once.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from autoqec.decoders.custom.build import CustomCall
from autoqec.decoders.modules.edge_features import EdgeFeatures, Shots
from autoqec.decoders.modules.graph_view import STATIC_FEATURES, GraphView

_GEOMETRY = [STATIC_FEATURES.index(name) for name in ("round_idx", "stabilizer_type", "distance")]


class Message(nn.Module):
    """forward: x [batch, n_nodes, hidden] and the features of the edges -> [batch, n_directed, hidden].

    edge_parts: `edges` projects to that many times `hidden`, one part per use.
    """

    edge_parts = 1

    def __init__(self, hidden: int) -> None:
        super().__init__()
        self.hidden = hidden
        self.src = nn.Linear(hidden, self.edge_parts * hidden, bias=False)
        self.dst = nn.Linear(hidden, self.edge_parts * hidden, bias=False)

    def mixed(self, x: Tensor, edges: EdgeFeatures, shots: Shots, view: GraphView) -> Tensor:
        """A x_src + B x_dst + e, the first layer of an MLP on (x_src, x_dst, e_ij)."""
        terms = edges.terms(view)
        src, dst = self.src.weight, self.dst.weight
        if terms.bits is not None:
            x = with_bits(x, shots)
            src, dst = (
                torch.cat([src, terms.bits[0, :, None]], 1),
                torch.cat([dst, terms.bits[1, :, None]], 1),
            )
        mixed = view.by_source.spread(functional.linear(x, src))
        # In place: on a CPU, fresh memory costs more than the sums, and no gradient needs the terms.
        mixed.add_(view.by_target.spread(functional.linear(x, dst)))
        both = mixed.view(mixed.shape[0], 2, view.n_edges, mixed.shape[2])
        both.add_(edges.shared(shots, terms, view)[:, None])
        return mixed

    def forward(self, x: Tensor, edges: EdgeFeatures, shots: Shots, view: GraphView) -> Tensor:
        raise NotImplementedError


class SiluMessage(Message):
    """A message that `fused_layer` can make and add up on a CPU, and `device_messages` on a GPU."""

    rule: str

    def summed(self, x: Tensor, edges: EdgeFeatures, shots: Shots, view: GraphView) -> Tensor:
        """The sum of the messages that enter each node, by the kernels for a GPU: [batch, n_nodes, hidden]."""
        from autoqec.decoders.modules.device_messages import sum_of_messages

        terms = edges.terms(view)
        weight = torch.cat([self.src.weight, self.dst.weight])
        inputs = x
        if terms.bits is not None:
            inputs = with_bits(x, shots)
            weight = torch.cat([weight, terms.bits.reshape(-1, 1)], dim=1)
        ends = functional.linear(inputs, weight)
        if self.rule == "residual_mlp":
            ends = torch.cat([ends, x.to(ends.dtype)], dim=-1)
        return sum_of_messages(self.rule, view, ends, shots.values, terms.values, terms.static, self.hidden)


class Mlp(SiluMessage):
    """silu(A x_src + B x_dst + e)."""

    rule = "mlp"

    def forward(self, x: Tensor, edges: EdgeFeatures, shots: Shots, view: GraphView) -> Tensor:
        return functional.silu(self.mixed(x, edges, shots, view))


class GatedMlp(SiluMessage):
    """silu(content) * sigmoid(gate), each an MLP of its own."""

    edge_parts = 2
    rule = "gated_mlp"

    def forward(self, x: Tensor, edges: EdgeFeatures, shots: Shots, view: GraphView) -> Tensor:
        content, gate = self.mixed(x, edges, shots, view).chunk(2, dim=-1)
        return functional.silu(content) * torch.sigmoid(gate)


class ResidualMlp(SiluMessage):
    """x_src + silu(A x_src + B x_dst + e)."""

    rule = "residual_mlp"

    def forward(self, x: Tensor, edges: EdgeFeatures, shots: Shots, view: GraphView) -> Tensor:
        return view.by_source.spread(x) + functional.silu(self.mixed(x, edges, shots, view))


class NormalizedMlp(Message):
    """silu(LayerNorm(A x_src + B x_dst + e)): no message can grow with its inputs."""

    def __init__(self, hidden: int) -> None:
        super().__init__(hidden)
        self.norm = nn.LayerNorm(hidden)

    def forward(self, x: Tensor, edges: EdgeFeatures, shots: Shots, view: GraphView) -> Tensor:
        return functional.silu(self.norm(self.mixed(x, edges, shots, view)))


class GruCell(Message):
    """A GRU step whose state is x_src and whose input is (x_dst, e_ij); reset after the matrix, as in
    cuDNN.
    """

    edge_parts = 3

    def forward(self, x: Tensor, edges: EdgeFeatures, shots: Shots, view: GraphView) -> Tensor:
        state = view.by_source.spread(self.src(x))
        given = view.by_target.spread(self.dst(x)) + edges(shots, view)
        state_rz, state_n = torch.split(state, [2 * self.hidden, self.hidden], dim=-1)
        given_rz, given_n = torch.split(given, [2 * self.hidden, self.hidden], dim=-1)
        reset, keep = torch.sigmoid(state_rz + given_rz).chunk(2, dim=-1)
        fresh = torch.tanh(given_n + reset * state_n)
        return fresh + keep * (view.by_source.spread(x) - fresh)


class Attention(Message):
    """Dot-product attention over the edges that enter a node: alpha_ij (V x_src + e_ij)."""

    def __init__(self, hidden: int) -> None:
        super().__init__(hidden)
        self.value = nn.Linear(hidden, hidden, bias=False)

    def scores(self, x: Tensor, view: GraphView) -> Tensor:
        query, key = view.by_target.spread(self.dst(x)), view.by_source.spread(self.src(x))
        scores: Tensor = (query * key).sum(dim=-1, keepdim=True) * self.hidden**-0.5
        return scores

    def forward(self, x: Tensor, edges: EdgeFeatures, shots: Shots, view: GraphView) -> Tensor:
        weight = view.by_target.softmax(self.scores(x, view))
        value: Tensor = view.by_source.spread(self.value(x)) + edges(shots, view)
        return weight * value


class GeometricAttention(Attention):
    """Attention whose scores also depend on where the edge lies: its round, basis and length, through a
    small MLP.
    """

    def __init__(self, hidden: int) -> None:
        super().__init__(hidden)
        self.geometry = nn.Sequential(nn.Linear(len(_GEOMETRY), 8), nn.Tanh(), nn.Linear(8, 1))

    def scores(self, x: Tensor, view: GraphView) -> Tensor:
        place: Tensor = self.geometry(view.static[:, _GEOMETRY])
        return super().scores(x, view) + place


class EdgeAttention(Message):
    """Scores from the edge as much as from its ends (GATv2): alpha = softmax(a . leaky_relu(A x_src + B
    x_dst + e)).
    """

    edge_parts = 2

    def __init__(self, hidden: int) -> None:
        super().__init__(hidden)
        self.score = nn.Linear(hidden, 1, bias=False)

    def forward(self, x: Tensor, edges: EdgeFeatures, shots: Shots, view: GraphView) -> Tensor:
        content, mark = self.mixed(x, edges, shots, view).chunk(2, dim=-1)
        return view.by_target.softmax(self.score(functional.leaky_relu(mark, 0.2))) * content


class CustomMessage(nn.Module):
    edge_parts = 1

    def __init__(self, call: CustomCall) -> None:
        super().__init__()
        self.call = call

    def forward(self, x: Tensor, edges: EdgeFeatures, shots: Shots, view: GraphView) -> Tensor:
        out: Tensor = self.call(view.by_source.spread(x), view.by_target.spread(x), edges(shots, view))
        return out


def with_bits(x: Tensor, shots: Shots) -> Tensor:
    """[batch, n_nodes, hidden + 1]: the syndrome as one more feature of the nodes."""
    return torch.cat([x, shots.bits[..., None]], dim=-1)


MESSAGES: dict[str, type[Message]] = {
    "mlp": Mlp,
    "gated_mlp": GatedMlp,
    "attention": Attention,
    "gru_cell": GruCell,
    "edge_attention": EdgeAttention,
    "geometric_attention": GeometricAttention,
    "residual_mlp": ResidualMlp,
    "normalized_mlp": NormalizedMlp,
}
