"""Successive halving on shots, over rounds.

A new config trains for the first of `RUNGS` epochs. A later round may promote it: the same config, the next rung, forked
from its branch. At each rung the third of the rounds with the highest delta is promotable (more training changes nothing
else), so that three rounds at a rung pay for one at the next: asynchronous successive halving (Li et al. 2020). Not
promoted: a round without a gain, and one whose training left the untrained state in place, since more of what did not help
is not a hypothesis. An untrained model has no rung.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from autoqec.search.earlier_rounds import EPOCHS, Round
from autoqec.search.parameters import RUNGS, Flat

KEEP = 3
"""One in so many is promoted."""


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
        here = sorted((one for one in rounds if one.rung == rung), key=lambda one: (-one.delta, one.number))
        for place, one in enumerate(here[: len(here) // KEEP], start=1):
            if one.mechanism not in above and one.delta > 0 and one.row.get("training_kept_step") != 0:
                flat = {**one.flat, EPOCHS: RUNGS[rung + 1]}
                found.append(Promotion(one, flat, rung + 1, place, len(here)))
    return found
