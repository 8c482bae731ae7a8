"""Random templates: every round is a random point of the search space that is new and feasible."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from autoqec.search.draft import TRIES, Rejection, draft, nothing_left, screen
from autoqec.search.earlier_rounds import rounds_in
from autoqec.search.proposal import Proposal, RoundContext
from autoqec.search.space import Space


@dataclass(frozen=True)
class Templates:
    name: str = "templates"

    def propose(self, context: RoundContext) -> Proposal:
        space, rng = Space(context.env), np.random.default_rng(context.seed)
        for _ in range(TRIES):
            dsl = space.decode(space.sample(rng))
            costs = screen(dsl, context)
            if not isinstance(costs, Rejection):
                rounds = rounds_in(space, context)
                return draft(dsl, costs, rounds, proposer=self.name, why="drawn at random")
        raise nothing_left(self.name)


def make() -> Templates:
    return Templates()
