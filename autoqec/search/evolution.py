"""Evolution on the DSL: mutation, crossover and compose rounds, each forked from the branches of its parents.

The first rounds are example configs, then random ones, until there are parents. From then on a round is, by a draw from
its seed: a compose round (when two good branches can be merged), a crossover, or else a mutation. Parents are drawn from
the better half of the rounds: front by front of those that no other beats, the higher delta first.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from autoqec.decoders.dsl_schema import PredecoderDSL
from autoqec.search.draft import TRIES, Rejection, changes, draft, nothing_left, screen
from autoqec.search.earlier_rounds import Round, branch_of, examples, ranked, rounds_in
from autoqec.search.merging import compositions
from autoqec.search.proposal import BASELINE, Proposal, RoundContext
from autoqec.search.space import Rng, Space
from autoqec.search.stacking import next_stack

FOUNDERS = 4
"""Results before evolution begins."""

COMPOSE_SHARE = 0.3
CROSSOVER_SHARE = 0.3


@dataclass(frozen=True)
class _Child:
    dsl: PredecoderDSL
    why: str
    fork_from: str = BASELINE
    parents: tuple[Round, ...] = ()


@dataclass(frozen=True)
class Evolution:
    name: str = "evolution"

    def propose(self, context: RoundContext) -> Proposal:
        space, rng = Space(context.env), np.random.default_rng(context.seed)
        rounds = rounds_in(space, context)
        if len(rounds) >= FOUNDERS and rng.random() < COMPOSE_SHARE:
            composed = next_stack(self.name, rounds, context) or self._composed(rounds, context)
            if composed is not None:
                return composed
        children = _founders(space, rng)
        if len(rounds) >= FOUNDERS:
            children = _offspring(space, rounds, rng, context)
        for _, child in zip(range(TRIES), children, strict=False):
            costs = screen(child.dsl, context)
            if not isinstance(costs, Rejection):
                return draft(
                    child.dsl,
                    costs,
                    rounds,
                    proposer=self.name,
                    why=child.why,
                    fork_from=child.fork_from,
                    parents=[parent.number for parent in child.parents],
                )
        raise nothing_left(self.name)

    def _composed(self, rounds: list[Round], context: RoundContext) -> Proposal | None:
        """The first composition of two good rounds that is new and feasible, the best pair first."""
        for found in compositions(_good(rounds), context):
            costs = screen(found.dsl, context)
            if isinstance(costs, Rejection):
                continue
            first, second = found.parents
            return draft(
                found.dsl,
                costs,
                rounds,
                proposer=self.name,
                hypothesis=f"what rounds {first.number} and {second.number} changed gains more together",
                why=f"round {first.number}: {found.changed[0]}; round {second.number}: {found.changed[1]}",
                fork_from=[str(first.row["branch"]), str(second.row["branch"])],
                compose_mode="pure",
                expected=max(first.delta, second.delta),
                parents=[first.number, second.number],
            )
        return None


def make() -> Evolution:
    return Evolution()


def _founders(space: Space, rng: Rng) -> Iterator[_Child]:
    for name, dsl in examples(space):
        yield _Child(dsl, f"example config {name}")
    while True:
        yield _Child(space.decode(space.sample(rng)), "drawn at random")


def _good(rounds: list[Round]) -> list[Round]:
    return ranked(rounds)[: max(2, len(rounds) // 2)]


def _offspring(space: Space, rounds: list[Round], rng: Rng, context: RoundContext) -> Iterator[_Child]:
    """Children without end; steps grow with the tries, so that a crowded neighbourhood is left."""
    good = _good(rounds)
    crossing = rng.random() < CROSSOVER_SHARE / (1 - COMPOSE_SHARE)
    tries = 0
    while True:
        tries += 1
        first, second = (good[int(i)] for i in rng.choice(len(good), 2, replace=False))
        parents: tuple[Round, ...] = (first,)
        point, operation = first.flat, "mutation"
        if crossing:
            point, operation, parents = (
                space.crossover(first.flat, second.flat, rng),
                "crossover",
                (first, second),
            )
        if not crossing or tries > 1:
            point = space.mutate(point, rng, steps=1 + tries // 8)
        dsl = space.decode(point)
        numbers = " and ".join(str(parent.number) for parent in parents)
        why = f"{operation} of round {numbers}: {changes(first.dsl, dsl)}"
        yield _Child(dsl, why, branch_of(first.row, context), parents)
