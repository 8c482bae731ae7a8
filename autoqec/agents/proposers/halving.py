"""Successive halving on shots, over rounds.

A new config trains for the first of `RUNGS` epochs. A later round may promote it: the same config, the next rung, forked
from its branch. At each rung the best third of the rounds is promotable (front by front of those that no other beats, the
higher delta first), so that three rounds at a rung pay for one at the next (Li et al. 2020, asynchronous successive
halving). Not promoted: a round without a gain, and one whose training left the untrained state in place, since more of
what did not help is no hypothesis. An untrained model has no rung.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from autoqec.agents.analyst import kept_step
from autoqec.agents.proposers.past import EPOCHS, Round, ranked
from autoqec.agents.space import RUNGS, Flat

KEEP = 3
"""One in so many goes on."""


@dataclass(frozen=True)
class Promotion:
    parent: Round
    flat: Flat
    rung: int
    place: int
    among: int


def promotions(rounds: Sequence[Round]) -> list[Promotion]:
    """What may be promoted now, from the highest rung down, best first."""
    found = []
    for rung in reversed(range(len(RUNGS) - 1)):
        above = {one.mechanism for one in rounds if one.rung is not None and one.rung > rung}
        here = ranked(one for one in rounds if one.rung == rung)
        for place, one in enumerate(here[: len(here) // KEEP], start=1):
            if one.mechanism not in above and one.delta > 0 and kept_step(one.row) != 0:
                flat = {**one.flat, EPOCHS: RUNGS[rung + 1]}
                found.append(Promotion(one, flat, rung + 1, place, len(here)))
    return found
