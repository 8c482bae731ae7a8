"""Earlier rounds as points of the search space, and which of them are good.

Costs and gain are compared as on the Pareto front: delta (higher), FLOPs and parameters (lower).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from autoqec.decoders.dsl_schema import PredecoderDSL
from autoqec.io.validate import load_model
from autoqec.layout import example_configs
from autoqec.search.distance import config_of
from autoqec.search.parameters import RUNGS, Flat
from autoqec.search.proposal import BASELINE, RoundContext, Row
from autoqec.search.space import Space
from autoqec.stats.pareto import Axes, non_dominated

EPOCHS = "training.epochs"


@dataclass(frozen=True)
class Round:
    """A round that ended ok, at its point of the space."""

    row: Row
    dsl: PredecoderDSL
    flat: Flat

    @property
    def number(self) -> int:
        return int(self.row.get("round") or 0)

    @property
    def delta(self) -> float:
        return float(self.row.get("delta_ler") or 0.0)

    @property
    def delta_low(self) -> float:
        low = self.row.get("delta_ler_ci_low")
        return self.delta if low is None else float(low)

    @property
    def costs(self) -> tuple[int, int]:
        return int(self.row.get("flops_per_syndrome") or 0), int(self.row.get("n_params") or 0)

    @property
    def rung(self) -> int | None:
        """How far up the ladder of epochs it was trained; None for an untrained model."""
        return RUNGS.index(self.flat[EPOCHS]) if EPOCHS in self.flat else None

    @property
    def mechanism(self) -> tuple[tuple[str, object], ...]:
        """The point without the length of its training."""
        return tuple((name, value) for name, value in self.flat.items() if name != EPOCHS)

    @property
    def axes(self) -> Axes:
        return self.delta, *self.costs


def rounds_in(space: Space, context: RoundContext) -> list[Round]:
    """The rounds with a result whose config is in the space, in order."""
    found = []
    for row in context.history:
        dsl = config_of(row)
        flat = space.encode(dsl) if dsl is not None else None
        if dsl is not None and flat is not None and row.get("status") == "ok":
            found.append(Round(row, dsl, flat))
    return found


def ranked(rounds: Iterable[Round]) -> list[Round]:
    """Front by front of those that no other dominates; within a front the higher delta first, then the earlier round.

    Rounds without a gain come last, however cheap they are.
    """
    rounds = list(rounds)
    left = [one for one in rounds if one.delta > 0]
    order: list[Round] = []
    while left:
        front = non_dominated(left, lambda one: one.axes)
        order += sorted(front, key=lambda one: (-one.delta, one.number))
        left = [one for one in left if one not in front]
    return order + sorted((one for one in rounds if one.delta <= 0), key=lambda one: (-one.delta, one.number))


def branch_of(row: Row, context: RoundContext) -> str:
    """Where to fork from to continue a round: its branch if it still exists."""
    branch = row.get("branch")
    return branch if branch in {known.name for known in context.branches} else BASELINE


def examples(space: Space) -> list[tuple[str, PredecoderDSL]]:
    """The shipped example configs that are points of the space: those that use both halves of the syndrome first, then soft priors,
    then the shortest training."""
    found = []
    for name, path in example_configs().items():
        dsl = load_model(path, PredecoderDSL)
        if dsl.tier == "1" and space.holds(dsl):
            found.append((name, dsl))
    return sorted(
        found,
        key=lambda each: (
            each[1].neural_bp is None or each[1].neural_bp.turbo is None,
            each[1].output_mode != "soft_priors",
            each[1].training.epochs,
        ),
    )
