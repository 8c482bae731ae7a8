"""Message functions: what a node tells a neighbour along a directed edge.

Nodes outnumbered eight to one by edges: every matrix acts on nodes before they are gathered to edges, and
the matrix that an MLP would have after its activation is the node update's (a sum or mean of messages
commutes with it). Edge features arrive projected: `edge_parts * hidden` numbers per directed edge, one part
per use.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from autoqec.decoders.custom.build import CustomCall
from autoqec.decoders.modules.graph_view import STATIC_FEATURES, GraphView

_GEOMETRY = [STATIC_FEATURES.index(name) for name in ("round_idx", "stabilizer_type", "distance")]


class Message(nn.Module):
    """forward: x [batch, n_nodes, hidden] and e [batch, n_directed, edge_parts * hidden]
    -> [batch, n_directed, hidden].
    """

    edge_parts = 1

    def __init__(self, hidden: int) -> None:
        super().__init__()
        self.hidden = hidden
        self.src = nn.Linear(hidden, self.edge_parts * hidden, bias=False)
        self.dst = nn.Linear(hidden, self.edge_parts * hidden, bias=False)

    def mixed(self, x: Tensor, e: Tensor, view: GraphView) -> Tensor:
        """A x_src + B x_dst + e, the first layer of an MLP on (x_src, x_dst, e_ij)."""
        mixed: Tensor = self.src(x).index_select(1, view.source)
        # In place: on a CPU, fresh memory costs more than the sums, and no gradient needs the terms.
        return mixed.add_(self.dst(x).index_select(1, view.target)).add_(e)

    def forward(self, x: Tensor, e: Tensor, view: GraphView) -> Tensor:
        raise NotImplementedError


class Mlp(Message):
    """silu(A x_src + B x_dst + e)."""

    def forward(self, x: Tensor, e: Tensor, view: GraphView) -> Tensor:
        return functional.silu(self.mixed(x, e, view))


class GatedMlp(Message):
    """silu(content) * sigmoid(gate), each an MLP of its own."""

    edge_parts = 2

    def forward(self, x: Tensor, e: Tensor, view: GraphView) -> Tensor:
        content, gate = self.mixed(x, e, view).chunk(2, dim=-1)
        return functional.silu(content) * torch.sigmoid(gate)


class ResidualMlp(Message):
    """x_src + silu(A x_src + B x_dst + e)."""

    def forward(self, x: Tensor, e: Tensor, view: GraphView) -> Tensor:
        return x.index_select(1, view.source) + functional.silu(self.mixed(x, e, view))


class NormalizedMlp(Message):
    """silu(LayerNorm(A x_src + B x_dst + e)): no message can grow with its inputs."""

    def __init__(self, hidden: int) -> None:
        super().__init__(hidden)
        self.norm = nn.LayerNorm(hidden)

    def forward(self, x: Tensor, e: Tensor, view: GraphView) -> Tensor:
        return functional.silu(self.norm(self.mixed(x, e, view)))


class GruCell(Message):
    """A GRU step whose state is x_src and whose input is (x_dst, e_ij); reset after the matrix, as in
    cuDNN.
    """

    edge_parts = 3

    def forward(self, x: Tensor, e: Tensor, view: GraphView) -> Tensor:
        state = self.src(x).index_select(1, view.source)
        given = self.dst(x).index_select(1, view.target) + e
        state_rz, state_n = state.split([2 * self.hidden, self.hidden], dim=-1)
        given_rz, given_n = given.split([2 * self.hidden, self.hidden], dim=-1)
        reset, keep = torch.sigmoid(state_rz + given_rz).chunk(2, dim=-1)
        fresh = torch.tanh(given_n + reset * state_n)
        return fresh + keep * (x.index_select(1, view.source) - fresh)


class Attention(Message):
    """Dot-product attention over the edges that enter a node: alpha_ij (V x_src + e_ij)."""

    def __init__(self, hidden: int) -> None:
        super().__init__(hidden)
        self.value = nn.Linear(hidden, hidden, bias=False)

    def scores(self, x: Tensor, view: GraphView) -> Tensor:
        query, key = self.dst(x).index_select(1, view.target), self.src(x).index_select(1, view.source)
        scores: Tensor = (query * key).sum(dim=-1, keepdim=True) * self.hidden**-0.5
        return scores

    def forward(self, x: Tensor, e: Tensor, view: GraphView) -> Tensor:
        weight = view.by_target.softmax(self.scores(x, view))
        value: Tensor = self.value(x).index_select(1, view.source) + e
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

    def forward(self, x: Tensor, e: Tensor, view: GraphView) -> Tensor:
        content, mark = self.mixed(x, e, view).chunk(2, dim=-1)
        return view.by_target.softmax(self.score(functional.leaky_relu(mark, 0.2))) * content


class CustomMessage(nn.Module):
    edge_parts = 1

    def __init__(self, call: CustomCall) -> None:
        super().__init__()
        self.call = call

    def forward(self, x: Tensor, e: Tensor, view: GraphView) -> Tensor:
        out: Tensor = self.call(x.index_select(1, view.source), x.index_select(1, view.target), e)
        return out


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
