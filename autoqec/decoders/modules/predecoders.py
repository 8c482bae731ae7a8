"""The three predecoders of the DSL: learned belief propagation, a graph network, and the two in sequence."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from autoqec.decoders.custom.build import compile_custom
from autoqec.decoders.dsl_schema import CustomFunction, PredecoderDSL
from autoqec.decoders.modules.base import PredecoderModule
from autoqec.decoders.modules.gnn import GraphNet
from autoqec.decoders.modules.graph_view import GraphView
from autoqec.decoders.modules.heads import CustomHead
from autoqec.decoders.modules.neural_bp import LearnedBP, log_odds, prior_rows
from autoqec.decoders.modules.sharing import Rows, edge_rows, fault_rows
from autoqec.decoders.modules.structure import FaultFold, GraphEdges, TannerLinks
from autoqec.decoders.modules.turbo import TurboBP
from autoqec.envs.problem import DecodingProblem

_SCALE = 10.0
"""Log-odds are handed to networks in units of this."""


class BeliefHead(nn.Module):
    """What is made of a fault's posterior and prior log-odds; starts as the posterior itself."""

    def __init__(self, head: str | CustomFunction) -> None:
        super().__init__()
        self.linear = nn.Parameter(torch.tensor([1.0, 0.0, 0.0]))
        self.net: nn.Module | None = None
        if isinstance(head, CustomFunction):
            self.net = CustomHead(compile_custom(head, "head", hidden=2, where="head"))
        elif head == "mlp_small":
            last = nn.Linear(8, 1)
            nn.init.zeros_(last.weight)
            nn.init.zeros_(last.bias)
            self.net = nn.Sequential(nn.Linear(2, 8), nn.SiLU(), last)

    def forward(self, posterior: Tensor, prior: Tensor) -> Tensor:
        a, b, c = self.linear
        out: Tensor = a * posterior + b * prior + c
        if self.net is not None:
            features = (
                torch.stack([posterior.T, prior.T], dim=-1) / _SCALE
            )  # one shot per row, as heads are checked
            out = out + _SCALE * self.net(features).squeeze(-1).T
        return out


class PriorMix(nn.Module):
    """weights = a posterior + b prior, with a and b learned for each row; starts at the posterior."""

    def __init__(self, rows: Rows) -> None:
        super().__init__()
        self.posterior_rows = self.prior_rows = rows
        self.posterior = nn.Parameter(torch.ones(rows.count))
        self.prior = nn.Parameter(torch.zeros(rows.count))

    def forward(self, posterior: Tensor, prior: Tensor) -> Tensor:
        a, b = self.posterior_rows(self.posterior), self.prior_rows(self.prior)
        out: Tensor = a[:, None] * posterior + b[:, None] * prior
        return out


class ProblemPredecoder(PredecoderModule):
    """What all three share: the problem's prior, its matching graph if it has one, and the output mode."""

    prior: Tensor

    def __init__(self, dsl: PredecoderDSL, problem: DecodingProblem) -> None:
        super().__init__()
        self.output_mode = dsl.output_mode
        self.confidence = dsl.confidence
        self.edges = GraphEdges(problem) if problem.graph is not None else None
        prior = log_odds(torch.from_numpy(problem.priors)).float()
        self.register_buffer("prior", prior, persistent=False)

    def fault_log_odds(self, syndrome: Tensor, ctx: dict[str, Any]) -> Tensor:
        """syndrome [batch, n_checks] -> [n_faults, batch]."""
        raise NotImplementedError

    def fault_probabilities(self, syndrome: Tensor, ctx: dict[str, Any]) -> Tensor:
        return torch.sigmoid(-self.fault_log_odds(syndrome, ctx)).T

    def compile_network(self, backend: str = "inductor") -> None:
        """Compiles the graph network in place, for training; weights and their names stay.

        Belief propagation is left out: a compiler that computes its forward pass once more, rounded differently, gives
        gradients that are wrong by orders of magnitude where messages are close to zero.
        """
        for part in self.children():
            if isinstance(part, GraphNet):
                part.compile(dynamic=False, backend=backend)

    def backend_weights(self, syndrome: Tensor, ctx: dict[str, Any]) -> Tensor:
        """The log-odds that the backend decodes with: [batch, n_edges] of a matching graph, else [batch, n_faults]."""
        weights = self.edge_log_odds(syndrome, ctx)
        return self.fault_log_odds(syndrome, ctx).T if weights is None else weights

    def _prior(self, syndrome: Tensor, ctx: dict[str, Any]) -> Tensor:
        return prior_rows(ctx, self.prior, syndrome.shape[0])  # not len(): export would fix the batch

    def _edge_prior(self, fold: FaultFold, syndrome: Tensor, ctx: dict[str, Any]) -> Tensor:
        """[n_edges, batch]; a prior that is common to all shots is folded once."""
        given = ctx.get("prior_p")
        if given is None or given.ndim == 1:
            found: Tensor = fold(prior_rows(ctx, self.prior, 1))
            return found.expand(-1, syndrome.shape[0])
        folded: Tensor = fold(self._prior(syndrome, ctx))
        return folded

    def _with_pairs(
        self, view: GraphView, edge_prior: Tensor, syndrome: Tensor, ctx: dict[str, Any]
    ) -> Tensor:
        """The prior of all that a network passes messages along: [n_outputs, batch]."""
        if view.pairs is None:
            return edge_prior
        return torch.cat([edge_prior, self._edge_prior(view.pairs, syndrome, ctx)])


class NeuralBpPredecoder(ProblemPredecoder):
    def __init__(self, dsl: PredecoderDSL, problem: DecodingProblem) -> None:
        super().__init__(dsl, problem)
        if dsl.neural_bp is None:
            raise ValueError("the config has no neural_bp block")
        self.links = TannerLinks(problem)
        self.bp: LearnedBP | TurboBP
        if dsl.neural_bp.turbo is None:
            self.bp = LearnedBP(dsl.neural_bp, self.links)
        else:
            self.bp = TurboBP(dsl.neural_bp, problem, self.links)
            # Few of them go on after the first exchange, and fewer still to the legs.
            self.cpu_batch = 2048 if dsl.neural_bp.turbo.legs else 512
        self.head = BeliefHead(dsl.head)
        # What is mixed is what acts: the weights of a matching backend, else the faults.
        self.mixes_edges = self.edges is not None and dsl.output_mode == "soft_priors"
        self.mix: PriorMix | None = None
        if dsl.neural_bp.prior_mix:
            on_edges = problem.graph if self.mixes_edges else None
            rows = (
                fault_rows(dsl.neural_bp, self.links)
                if on_edges is None
                else edge_rows(dsl.neural_bp, self.links, on_edges)
            )
            self.mix = PriorMix(rows)

    def fault_log_odds(self, syndrome: Tensor, ctx: dict[str, Any]) -> Tensor:
        prior = self._prior(syndrome, ctx)
        beliefs: Tensor = self.head(self._posterior(syndrome, prior, ctx), prior)
        if self.mix is not None and not self.mixes_edges:
            beliefs = self.mix(beliefs, prior)
        return beliefs

    def _posterior(self, syndrome: Tensor, prior: Tensor, ctx: dict[str, Any]) -> Tensor:
        posterior: Tensor = self.bp(syndrome.T, ctx if isinstance(self.bp, TurboBP) else prior)
        return posterior

    def edge_log_odds(self, syndrome: Tensor, ctx: dict[str, Any]) -> Tensor | None:
        if self.edges is None:
            return None
        return self._on_edges(self.edges, self.fault_log_odds(syndrome, ctx), syndrome, ctx).T

    def propagated_edges(self, syndrome: Tensor, ctx: dict[str, Any]) -> Tensor | None:
        """What belief propagation says of the edges by itself, whatever a network adds to it."""
        if self.edges is None:
            return None
        beliefs = NeuralBpPredecoder.fault_log_odds(self, syndrome, ctx)
        return self._on_edges(self.edges, beliefs, syndrome, ctx).T

    def _on_edges(self, edges: GraphEdges, beliefs: Tensor, syndrome: Tensor, ctx: dict[str, Any]) -> Tensor:
        found: Tensor = edges.from_faults(beliefs)
        if self.mix is not None and self.mixes_edges:
            found = self.mix(found, self._edge_prior(edges, syndrome, ctx))
        return found


class GnnPredecoder(ProblemPredecoder):
    """A graph network that corrects the prior. On a matching graph a fault is moved by all the edges it flips."""

    edge_inputs = 1

    def __init__(self, dsl: PredecoderDSL, problem: DecodingProblem) -> None:
        super().__init__(dsl, problem)
        if dsl.gnn is None:
            raise ValueError("the config has no gnn block")
        self.view = GraphView(problem, dsl.gnn.neighbours)
        self.net = GraphNet(dsl.gnn, self.view, dsl.head, edge_inputs=self.edge_inputs)

    def _start(self, syndrome: Tensor, ctx: dict[str, Any]) -> Tensor:
        """[n_faults, batch] the log-odds that are corrected."""
        return self._prior(syndrome, ctx)

    def _base(self, syndrome: Tensor, ctx: dict[str, Any]) -> Tensor:
        if self.edges is None:
            return self._prior(syndrome, ctx)
        return self._edge_prior(self.edges, syndrome, ctx)

    def _seen(self, syndrome: Tensor, base: Tensor, ctx: dict[str, Any]) -> Tensor:
        """[batch, outputs, edge_inputs] log-odds that the network sees beside the syndrome."""
        return self._with_pairs(self.view, base, syndrome, ctx).T[..., None]

    def _residual(self, syndrome: Tensor, base: Tensor, ctx: dict[str, Any]) -> Tensor:
        residual: Tensor = self.net(syndrome, self._seen(syndrome, base, ctx) / _SCALE)
        return _SCALE * residual.T

    def fault_log_odds(self, syndrome: Tensor, ctx: dict[str, Any]) -> Tensor:
        residual = self._residual(syndrome, self._base(syndrome, ctx), ctx)
        if self.edges is not None:
            residual = torch.cat([residual, residual.new_zeros(1, residual.shape[1])])
            residual = residual[self.edges.edges_of_fault].sum(dim=1)
        return self._start(syndrome, ctx) + residual

    def edge_log_odds(self, syndrome: Tensor, ctx: dict[str, Any]) -> Tensor | None:
        if self.edges is None:
            return None
        base = self._base(syndrome, ctx)
        return (base + self._residual(syndrome, base, ctx)).T


class HybridPredecoder(NeuralBpPredecoder):
    """Learned belief propagation whose log-odds feed a graph network; the network adds a residual to them."""

    def __init__(self, dsl: PredecoderDSL, problem: DecodingProblem) -> None:
        super().__init__(dsl.model_copy(update={"head": "linear"}), problem)
        if dsl.gnn is None:
            raise ValueError("the config has no gnn block")
        self.view = GraphView(problem, dsl.gnn.neighbours)
        self.net = GraphNet(dsl.gnn, self.view, dsl.head, edge_inputs=2)

    def _shift(self, syndrome: Tensor, beliefs: Tensor, prior: Tensor) -> Tensor:
        """[n_answers, batch] what the network adds, from log-odds of all that it passes messages along."""
        values = torch.stack([beliefs.T, prior.T], dim=-1) / _SCALE
        residual: Tensor = self.net(syndrome, values)
        return _SCALE * residual.T

    def _edge_shift(
        self, syndrome: Tensor, on_edges: Tensor, faults: Tensor, edge_prior: Tensor, ctx: dict[str, Any]
    ) -> Tensor:
        prior = self._with_pairs(self.view, edge_prior, syndrome, ctx)
        return self._shift(syndrome, self.view.with_pairs(on_edges, faults), prior)

    def fault_log_odds(self, syndrome: Tensor, ctx: dict[str, Any]) -> Tensor:
        beliefs = super().fault_log_odds(syndrome, ctx)
        if self.edges is None:
            return beliefs + self._shift(syndrome, beliefs, self._prior(syndrome, ctx))
        on_edges, edge_prior = self.edges.from_faults(beliefs), self._edge_prior(self.edges, syndrome, ctx)
        shift = self._edge_shift(syndrome, on_edges, beliefs, edge_prior, ctx)
        shift = torch.cat([shift, shift.new_zeros(1, shift.shape[1])])
        return beliefs + shift[self.edges.edges_of_fault].sum(dim=1)

    def edge_log_odds(self, syndrome: Tensor, ctx: dict[str, Any]) -> Tensor | None:
        if self.edges is None:
            return None
        faults = NeuralBpPredecoder.fault_log_odds(self, syndrome, ctx)
        on_edges, edge_prior = self.edges.from_faults(faults), self._edge_prior(self.edges, syndrome, ctx)
        if self.mix is not None and self.mixes_edges:
            on_edges = self.mix(on_edges, edge_prior)
        return (on_edges + self._edge_shift(syndrome, on_edges, faults, edge_prior, ctx)).T


PREDECODERS: dict[str, type[ProblemPredecoder]] = {
    "neural_bp": NeuralBpPredecoder,
    "gnn": GnnPredecoder,
    "hybrid": HybridPredecoder,
}
