"""Several predecoders in sequence: each is asked about the shots that those before it leave open (`decoders.gates`).

Which shots go on is not decided here but by the backend, on the trusted side; this module holds the stages and the thresholds. Called as a
whole it gives what its last stage says, whatever the gates say: this is how the last stage is trained.

A `gnn` behind another stage sees that stage's log-odds beside the priors, and adds a shift to them: propagation is not repeated, and untrained
it changes nothing. Turbo propagation with legs behind turbo propagation goes on with the legs: the attempt that failed is not made again. Other
types begin anew from the syndrome.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn

from autoqec.decoders.dsl_schema import CLASSICAL, PredecoderDSL
from autoqec.decoders.gates import ONE_STAGE, START, Gates, planned_shares
from autoqec.decoders.modules.base import PredecoderModule
from autoqec.decoders.modules.neural_bp import log_odds
from autoqec.decoders.modules.predecoders import (
    PREDECODERS,
    GnnPredecoder,
    NeuralBpPredecoder,
    ProblemPredecoder,
)
from autoqec.decoders.modules.turbo import TurboBP
from autoqec.envs.problem import DecodingProblem

EARLIER_EDGES, EARLIER_PRIORS = "earlier_edges", "earlier_priors"
"""In a stage's context: what the stage before answered, [batch, n_edges] log-odds or [batch, n_faults] probabilities."""
EARLIER = {"edges": EARLIER_EDGES, "priors": EARLIER_PRIORS}
"""The same by the kind of answer (`decoders.answers.Kind`)."""


class ShiftPredecoder(GnnPredecoder):
    """A graph network that corrects the log-odds of the stage before it."""

    edge_inputs = 2

    def _start(self, syndrome: Tensor, ctx: dict[str, Any]) -> Tensor:
        return log_odds(ctx[EARLIER_PRIORS]).T

    def _base(self, syndrome: Tensor, ctx: dict[str, Any]) -> Tensor:
        if EARLIER_EDGES in ctx:
            return ctx[EARLIER_EDGES].T  # type: ignore[no-any-return]
        beliefs = self._start(syndrome, ctx)
        return beliefs if self.edges is None else self.edges.from_faults(beliefs)

    def _seen(self, syndrome: Tensor, base: Tensor, ctx: dict[str, Any]) -> Tensor:
        prior = self._with_pairs(self.view, super()._base(syndrome, ctx), syndrome, ctx)
        # Of pairs the stage before says nothing.
        earlier = torch.cat([base, prior[len(base) :]]) if self.view.pairs is not None else base
        return torch.stack([earlier.T, prior.T], dim=-1)


class LegsPredecoder(NeuralBpPredecoder):
    """The legs of turbo propagation, behind a stage that has made the first attempt. In training it is made here: the legs use its numbers, too."""

    def _posterior(self, syndrome: Tensor, prior: Tensor, ctx: dict[str, Any]) -> Tensor:
        if self.training or not isinstance(self.bp, TurboBP) or EARLIER_PRIORS not in ctx:
            return super()._posterior(syndrome, prior, ctx)
        return self.bp.after(log_odds(ctx[EARLIER_PRIORS]).T, syndrome.T, ctx)


class ClassicalPlace(ProblemPredecoder):
    """Holds the place of a classical decoder, which the trusted side runs with the environment's priors: these are its answers."""

    def fault_log_odds(self, syndrome: Tensor, ctx: dict[str, Any]) -> Tensor:
        return self._prior(syndrome, ctx)

    def edge_log_odds(self, syndrome: Tensor, ctx: dict[str, Any]) -> Tensor | None:
        return None if self.edges is None else self._edge_prior(self.edges, syndrome, ctx).T


LATER: dict[str, type[ProblemPredecoder]] = {
    **PREDECODERS,
    "gnn": ShiftPredecoder,
    **dict.fromkeys(CLASSICAL, ClassicalPlace),
}
"""The predecoders of the stages behind the first."""


class CascadePredecoder(ProblemPredecoder):
    """stages: in order. thresholds: of the gates behind all stages but the last, learned from shots and not by gradients.

    active: how many stages are in use; fewer than all while the others wait for their training. started: those that begin with all numbers
    of a checkpoint.
    """

    thresholds: Tensor

    def __init__(self, dsl: PredecoderDSL, problem: DecodingProblem) -> None:
        super().__init__(dsl, problem)
        first = dsl.parts[0]
        made = [PREDECODERS[first.type](first, problem)]
        made += [_later(part, before)(part, problem) for before, part in pairwise(dsl.parts)]
        self.stages = nn.ModuleList(made)
        self.active = len(made)
        stages = dsl.stages or ()
        self.started: frozenset[int] = frozenset()
        self._behind: dict[str, tuple[Any, ...]] = {
            "orders": tuple(stage.order for stage in stages),
            "members": tuple(stage.members for stage in stages),
            "states": tuple(stage.states for stage in stages),
            "legs": tuple(stage.legs for stage in stages),
            "lets": (*(stage.takes for stage in stages[1:]), None),
        }
        self.shares_said = tuple(stage.share for stage in stages)
        self._mean_flops = dsl.mean_flops
        self.register_buffer("thresholds", torch.full((len(made) - 1,), START))

    @property
    def gates(self) -> Gates:
        return self.gates_of(self.active)

    def gates_of(self, stages: int) -> Gates:
        """Of the first stages, in use or not."""
        thresholds = tuple(self.thresholds[: stages - 1].tolist())
        return Gates(thresholds, **{name: each[:stages] for name, each in self._behind.items()})

    @property
    def in_use(self) -> list[ProblemPredecoder]:
        return [each for each in self.stages if isinstance(each, ProblemPredecoder)][: self.active]

    def planned_shares(self, flops: Sequence[int]) -> tuple[float, ...]:
        """The share of the shots that should reach each stage, where the stages cost so much."""
        return planned_shares(flops, self.shares_said, self._mean_flops)

    def fault_log_odds(self, syndrome: Tensor, ctx: dict[str, Any]) -> Tensor:
        *before, last = self.in_use
        with torch.no_grad():
            for stage in before:
                ctx = {**ctx, EARLIER_PRIORS: stage.fault_probabilities(syndrome, ctx)}
        return last.fault_log_odds(syndrome, ctx)

    def edge_log_odds(self, syndrome: Tensor, ctx: dict[str, Any]) -> Tensor | None:
        if self.edges is None:
            return None
        *before, last = self.in_use
        with torch.no_grad():
            for stage in before:
                ctx = {**ctx, EARLIER_EDGES: stage.edge_log_odds(syndrome, ctx)}
        return last.edge_log_odds(syndrome, ctx)

    def train(self, mode: bool = True) -> CascadePredecoder:
        """Only the last stage in use trains: the others answer as they will."""
        super().train(mode)
        for stage in self.in_use[:-1]:
            stage.eval()
        return self

    def train_stage(self, number: int) -> None:
        """From here on the stages up to `number` are in use, and it alone learns. Where it does not begin with a checkpoint, it takes
        what fits of the stage before, but for a `ShiftPredecoder`, which would do the same shift twice."""
        self.active = number + 1
        for at, stage in enumerate(self.stages):
            stage.requires_grad_(at == number)
        begins = number not in self.started and not isinstance(self.stages[number], ShiftPredecoder)
        if number and begins:
            _take_over(self.stages[number - 1], self.stages[number])

    def compile_network(self, backend: str = "inductor") -> None:
        for stage in self.in_use:
            stage.compile_network(backend)


def _later(part: PredecoderDSL, before: PredecoderDSL) -> type[ProblemPredecoder]:
    turbos = [each.neural_bp.turbo if each.neural_bp else None for each in (before, part)]
    if turbos[0] is not None and turbos[1] is not None and turbos[1].legs and part.type == "neural_bp":
        return LegsPredecoder
    return LATER[part.type]


def _take_over(earlier: nn.Module, later: nn.Module) -> None:
    """Numbers of the same name and shape."""
    known = earlier.state_dict()
    with torch.no_grad():
        for name, tensor in later.state_dict().items():
            if name in known and known[name].shape == tensor.shape:
                tensor.copy_(known[name])


def stages_of(module: PredecoderModule) -> list[PredecoderModule]:
    """The stages of a cascade that are in use; the module itself where it is none."""
    return [*module.in_use] if isinstance(module, CascadePredecoder) else [module]


def gates_of(module: PredecoderModule) -> Gates:
    return module.gates if isinstance(module, CascadePredecoder) else ONE_STAGE
