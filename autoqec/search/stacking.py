"""Stacking: two rounds as the stages of one cascade. The cheaper one answers most shots, the better one those that it leaves open.

The second stage is the better round as it is, with its weights and not trained again: it took longer to train. The first trains as its round did,
from what fits of the same checkpoint: the propagation of a `hybrid` is a good start. A `gnn` in second place is another network than by itself,
one that corrects what the first stage says; there the first keeps its weights and the second trains. Where the two branches can be merged the
round has both for parents; else it continues the cheaper one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from autoqec.decoders.dsl_schema import PredecoderDSL, canonical_dict
from autoqec.search.earlier_rounds import Round, branch_of
from autoqec.search.merging import compositions
from autoqec.search.proposal import RoundContext

SHARES = {"mwpm": 0.02, "osd": 0.1}
"""Shots that go on. Measured at d = 5, p = 5e-3: one in fifty carries all that a larger network adds; on BB72 one in fourteen is left
unexplained."""


@dataclass(frozen=True)
class Stack:
    """first: the cheaper round. fork_from: one branch, or both."""

    dsl: PredecoderDSL
    first: Round
    second: Round
    fork_from: str | list[str]


def stacks(rounds: Sequence[Round], context: RoundContext) -> Iterator[Stack]:
    """Pairs of verified rounds of which one costs less and the other fails less, in the order of the rounds given."""
    verified = [one for one in rounds if one.row.get("verdict") == "VERIFIED" and one.dsl.stages is None]
    for first in verified:
        for second in verified:
            if first.costs[0] < second.costs[0] and first.delta < second.delta:
                dsl = stacked(first, second, context.env.backend)
                if dsl is not None:
                    yield Stack(dsl, first, second, _parents(first, second, context))


def stacked(first: Round, second: Round, backend: str) -> PredecoderDSL | None:
    """The cascade of two configs; None where they make none, as with hard flips."""
    one, other = canonical_dict(first.dsl), canonical_dict(second.dsl)
    if one["output_mode"] != other["output_mode"]:
        return None
    corrects = second.dsl.type == "gnn"
    start = (first if corrects else second).row.get("checkpoint_sha256")
    training = {name: value for name, value in other["training"].items() if name != "init_from"}
    epochs = [first.dsl.training.epochs, second.dsl.training.epochs]
    if start is not None:
        training["init_from"] = start
        epochs[0 if corrects else 1] = 0
    try:
        return PredecoderDSL.model_validate(
            {
                "type": "cascade",
                "output_mode": one["output_mode"],
                "stages": [
                    {**_stage(one), "epochs": epochs[0]},
                    {**_stage(other), "epochs": epochs[1], "share": SHARES[backend]},
                ],
                "training": training,
            }
        )
    except ValueError:
        return None


def _stage(config: dict[str, Any]) -> dict[str, Any]:
    return {name: config[name] for name in ("type", "gnn", "neural_bp", "head") if name in config}


def _parents(first: Round, second: Round, context: RoundContext) -> str | list[str]:
    """Both branches, where git merges them; the merge is edited into the cascade."""
    if any(True for _ in compositions([first, second], context)):
        return [str(first.row["branch"]), str(second.row["branch"])]
    return branch_of(first.row, context)
