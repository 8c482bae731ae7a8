"""Message passing on the graph of a problem, read out as one number per output.

Each of `layers` layers, with P a projection of the raw edge features:

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
from autoqec.decoders.modules import device_kernels
from autoqec.decoders.modules.aggregations import AGGREGATIONS, Aggregate, CustomAggregate, Mean, Sum
from autoqec.decoders.modules.edge_features import EdgeFeatures, Shots
from autoqec.decoders.modules.graph_view import GraphView
from autoqec.decoders.modules.heads import HEADS, CustomHead
from autoqec.decoders.modules.messages import MESSAGES, CustomMessage, Message, SiluMessage
from autoqec.decoders.modules.normalizations import NORMALIZATIONS
from autoqec.decoders.modules.normalizations import Layer as LayerNormalization

ENDS_AND_EDGE = 3
# On a CPU, messages come in parts of this: larger blocks of memory are fetched from the system anew each time.
_EDGE_BYTES = 2**24


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
        # `rounds` is what saved weights call the layers.
        self.rounds = nn.ModuleList(Layer(spec, edge_inputs) for _ in range(spec.layers))
        self.edges = EdgeFeatures(spec, edge_inputs, hidden)
        width = ENDS_AND_EDGE * hidden
        self.head = (
            CustomHead(compile_custom(head, "head", hidden=width, where="head"))
            if isinstance(head, CustomFunction)
            else HEADS[head](width)
        )

    def forward(self, syndrome: Tensor, edge_values: Tensor) -> Tensor:
        """syndrome: [batch, n_checks] of 0 and 1; edge_values: [batch, n_outputs, edge_inputs] -> [batch,
        n_answers].
        """
        view = self.view
        batch, others = syndrome.shape[0], view.n_nodes - view.n_checks
        checks = self.check(syndrome[..., None])
        x = torch.cat([checks, self.other.to(checks.dtype).expand(batch, others, -1)], dim=1)
        shots = Shots(functional.pad(syndrome, (0, others)), edge_values)
        for layer in self.rounds:
            x = layer(x, shots, view)
        return self._read_out(x, shots).squeeze(-1)

    def _read_out(self, x: Tensor, shots: Shots) -> Tensor:
        """head([x_u, x_v, edge]); its first matrix acts on each part where that is smallest."""
        asked = self.view.n_answers
        u, v = self.view.nodes_of_output[:asked].unbind(dim=1)
        values, weight, static = self.edges.mean_terms(shots, self.view)
        values, static = values[:, :asked], static[:, :asked]
        if isinstance(self.head, CustomHead):
            edge = functional.linear(values, weight) + static
            out: Tensor = self.head(torch.cat([x.index_select(1, u), x.index_select(1, v), edge], dim=-1))
            return out
        by_u, by_v, by_edge = self.head.first.weight.chunk(ENDS_AND_EDGE, dim=1)
        mixed = functional.linear(values, by_edge @ weight, self.head.first.bias)
        mixed.add_(functional.linear(static, by_edge))
        mixed.add_(functional.linear(x, by_u).index_select(1, u))
        mixed.add_(functional.linear(x, by_v).index_select(1, v))
        return self.head.after(mixed)


class Layer(nn.Module):
    """One exchange of messages. Nothing is shared between layers.

    fused: let `fused_layer` (CPU) or `device_messages` (GPU) do the work where they can. Export and operation counts, which see torch operations only,
    turn it off.
    """

    fused: bool = True

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

    def forward(self, x: Tensor, shots: Shots, view: GraphView) -> Tensor:
        if isinstance(self.message, SiluMessage) and x.device.type == "cpu" and self._fusible(x, shots):
            return self._in_one_pass(self.message, x, shots, view)
        update = self.take(self._heard(x, shots, view))
        update = x + functional.silu(update) if self.keep is None else functional.silu(update + self.keep(x))
        return update if self.norm.per == "edges" else self.norm(update)

    def _in_one_pass(self, message: SiluMessage, x: Tensor, shots: Shots, view: GraphView) -> Tensor:
        from autoqec.decoders.modules.fused_layer import LayerWeights, fused_layer

        terms = self.edges.terms(view)
        layer_norm = self.norm.norm if isinstance(self.norm, LayerNormalization) else None
        weights = LayerWeights(
            mix=torch.cat([message.src.weight, message.dst.weight]),
            bits=None if terms.bits is None else terms.bits.flatten(),
            values=terms.values,
            static=terms.static,
            take=self.take.weight,
            bias=self.take.bias,
            keep=None if self.keep is None else self.keep.weight,
            gain=None if layer_norm is None else layer_norm.weight,
            shift=None if layer_norm is None else layer_norm.bias,
        )
        mean = isinstance(self.aggregate, Mean)
        out = fused_layer(message.rule, view, x, shots.bits, shots.values, weights, mean=mean)
        return out if layer_norm is not None else self.norm(out)

    def _heard(self, x: Tensor, shots: Shots, view: GraphView) -> Tensor:
        """What the neighbours of each node tell it: [batch, n_nodes, hidden]."""
        if isinstance(self.message, SiluMessage) and self._fusible_on_device(x):
            total = self.message.summed(x, self.edges, shots, view)
            return total / view.by_target.count.clamp(min=1.0) if isinstance(self.aggregate, Mean) else total
        if x.device.type != "cpu" or torch.compiler.is_compiling():
            return self._aggregated(x, shots, view)
        per_shot = view.n_directed * self.message.edge_parts * x.shape[2] * x.element_size()
        size = max(_EDGE_BYTES // max(per_shot, 1), 1)
        parts = [
            self._aggregated(x[start : start + size], shots.take(start, start + size), view)
            for start in range(0, max(len(x), 1), size)
        ]
        return torch.cat(parts) if len(parts) > 1 else parts[0]

    def _aggregated(self, x: Tensor, shots: Shots, view: GraphView) -> Tensor:
        messages = self.message(x, self.edges, shots, view)
        if self.norm.per == "edges":
            messages = self.norm(messages)
        out: Tensor = self.aggregate(messages, view)
        return out

    @property
    def adds_up(self) -> bool:
        """Whether kernels know the layer: messages are added up or averaged, and nothing is done to them before."""
        return (
            self.fused
            and isinstance(self.aggregate, Sum | Mean)
            and self.norm.per == "nodes"
            and not torch.compiler.is_compiling()
        )

    def _fusible(self, x: Tensor, shots: Shots) -> bool:
        return (
            self.adds_up
            and not torch.is_autocast_enabled("cpu")
            and x.dtype == shots.values.dtype == self.take.weight.dtype == torch.float32
        )

    def _fusible_on_device(self, x: Tensor) -> bool:
        return (
            self.adds_up
            and device_kernels.runs_on(x.device)
            and x.dtype != torch.float64
            and self.take.weight.dtype == torch.float32
        )
