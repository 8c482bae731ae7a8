"""Proposals that were not new experiments."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from autoqec.decoders.dsl_schema import canonical_hash
from autoqec.report.review.rounds import Reviewed
from autoqec.search.distance import REPEAT_DISTANCE, distance


@dataclass(frozen=True)
class Repeat:
    """kind: the same config by canonical hash, a config nearer than `REPEAT_DISTANCE`, or only the same words. distance: of the
    configs, where both have one."""

    round: int
    of: int
    kind: Literal["same config", "nearly the same config", "same hypothesis"]
    distance: float | None
    same_status: bool


def repeats(rounds: Sequence[Reviewed]) -> list[Repeat]:
    """Each round that repeats an earlier one, with the nearest such round. Compose rounds repeat nothing by their config: the
    merge is the experiment."""
    found = []
    for i, one in enumerate(rounds):
        earlier = [repeat for other in rounds[:i] if (repeat := _repeat(one, other)) is not None]
        if earlier:
            found.append(min(earlier, key=lambda repeat: (_KINDS.index(repeat.kind), repeat.distance or 0.0)))
    return found


_KINDS = ("same config", "nearly the same config", "same hypothesis")


def _repeat(one: Reviewed, other: Reviewed) -> Repeat | None:
    same_status = one.status == other.status
    if one.dsl is not None and other.dsl is not None and not isinstance(one.row.get("fork_from"), list):
        if canonical_hash(one.dsl) == canonical_hash(other.dsl):
            return Repeat(one.number, other.number, "same config", 0.0, same_status)
        apart = distance(one.dsl, other.dsl)
        if apart < REPEAT_DISTANCE:
            return Repeat(one.number, other.number, "nearly the same config", apart, same_status)
    words = [" ".join(each.hypothesis.lower().split()) for each in (one, other)]
    if words[0] and words[0] == words[1]:
        return Repeat(one.number, other.number, "same hypothesis", None, same_status)
    return None
