"""Stacking: two rounds as the stages of one cascade. The cheaper one answers most shots, the better one those that it leaves open.

The second stage is the better round as it is, with its weights and not trained again: it took longer to train. The first trains as its round did,
from what fits of the same checkpoint: the propagation of a `hybrid` is a good start. A `gnn` in second place is another network than by itself,
one that corrects what the first stage says; there the first keeps its weights and the second trains. Where the two branches can be merged the
round has both for parents; else it continues the cheaper one.

The best verified round, which may be a cascade, is also followed by a classical stage, for the shots that it is least sure of: in front of matching by
a sweep over the detectors, which does not compile with codes of more than 64 open detectors, and in front of ordered statistics, where predecoders see
both halves of the syndrome, by joint legs. There is nothing to train in these.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from autoqec.decoders.dsl_schema import CLASSICAL, USUAL_LEGS, PredecoderDSL, canonical_dict
from autoqec.search.distance import config_of
from autoqec.search.draft import Rejection, draft, screen
from autoqec.search.earlier_rounds import Round, branch_of, ranked
from autoqec.search.merging import compositions
from autoqec.search.proposal import EnvFacts, Proposal, RoundContext

SHARES = {"mwpm": 0.02, "osd": 0.1}
"""Shots that go on. Measured at d = 5, p = 5e-3: one in fifty carries all that a larger network adds; on BB72 one in fourteen is left
unexplained."""


SWEEP: dict[str, Any] = {"type": "sweep", "states": 64, "share": 0.03}
"""Measured at d = 5, p = 5e-3, behind a good hybrid: 64 patterns are as good as 256, and the least sure 1 to 3% of the shots have it all."""
JOINT_LEGS: dict[str, Any] = {"type": "joint_legs", "legs": USUAL_LEGS, "takes": "unsure", "share": 0.045}
"""Measured on BB72, p = 3e-3, behind turbo propagation: 2.5% of the shots are unexplained, and the 2% of the others with the smallest margins have
two thirds of their failures."""


def last_stage(env: EnvFacts) -> tuple[dict[str, Any], str] | None:
    """The classical stage for an environment, and what it is; None where there is none."""
    if env.backend == "mwpm":
        return SWEEP, "a sweep over the detectors"
    return (JOINT_LEGS, "joint legs on both halves") if env.problem.joint is not None else None


@dataclass(frozen=True)
class Stack:
    """first: the cheaper round. second: None for a classical stage, and `last` is what that is. fork_from: one branch, or both."""

    dsl: PredecoderDSL
    first: Round
    second: Round | None
    fork_from: str | list[str]
    last: str = ""


def next_stack(proposer: str, rounds: Sequence[Round], context: RoundContext) -> Proposal | None:
    """The first cascade of verified rounds that is new and feasible, of the best rounds first. rounds: by which its gain is foretold."""
    for found in stacks(context):
        costs = screen(found.dsl, context)
        if isinstance(costs, Rejection):
            continue
        first = found.first.number
        if found.second is None:
            hypothesis = f"{found.last} decides better what round {first} is least sure of"
            why = f"a cascade: round {first} as it is, and a better classical decoder for the few shots that need it"
        else:
            second = found.second.number
            hypothesis = f"round {second} behind round {first} gains as much as alone, on the shots that {first} leaves open"
            why = f"a cascade: round {first} is cheaper, round {second} fails less, and few shots need it"
        parents = [one for one in (found.first, found.second) if one is not None]
        return draft(
            found.dsl,
            costs,
            rounds,
            proposer=proposer,
            hypothesis=hypothesis,
            why=why,
            fork_from=found.fork_from,
            compose_mode="with_edit" if isinstance(found.fork_from, list) else None,
            expected=parents[-1].delta,
            parents=[one.number for one in parents],
        )
    return None


def stacks(context: RoundContext) -> Iterator[Stack]:
    """A classical stage behind the best verified round that has none; then pairs of those that are not cascades of which one costs less and the other fails
    less, the best rounds first. They need not be points of a proposer's space."""
    verified = ranked(_verified(context))
    if (classical := last_stage(context.env)) is not None:
        for first in [one for one in verified if not _ends_classically(one.dsl)][:1]:
            if (dsl := followed(first, classical[0])) is not None:
                yield Stack(dsl, first, None, branch_of(first.row, context), classical[1])
    single = [one for one in verified if one.dsl.stages is None]
    for first in single:
        for second in single:
            if first.costs[0] < second.costs[0] and first.delta < second.delta:
                dsl = stacked(first, second, context.env.backend)
                if dsl is not None:
                    yield Stack(dsl, first, second, _parents(first, second, context))


def _verified(context: RoundContext) -> Iterator[Round]:
    """Those without code of their own, which is not for stages."""
    for row in context.history:
        dsl = config_of(row) if row.get("verdict") == "VERIFIED" else None
        if dsl is not None and dsl.tier == "1":
            yield Round(row, dsl, {})


def _ends_classically(dsl: PredecoderDSL) -> bool:
    return dsl.stages is not None and dsl.stages[-1].type in CLASSICAL


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


def followed(first: Round, last: Mapping[str, Any]) -> PredecoderDSL | None:
    """A round as it is with a classical stage behind it; None where its weights are not known, or that cannot take over."""
    config, start = canonical_dict(first.dsl), first.row.get("checkpoint_sha256")
    if start is None or config["output_mode"] != "soft_priors" or config.get("mean_flops"):
        return None
    stages = [{**stage, "epochs": 0} for stage in config.get("stages") or [_stage(config)]]
    share = min(last["share"], stages[-1].get("share", 1.0) / 2)
    try:
        return PredecoderDSL.model_validate(
            {
                "type": "cascade",
                "output_mode": "soft_priors",
                "stages": [*stages, {**last, "share": share}],
                "training": {**config["training"], "epochs": 0, "init_from": start},
            }
        )
    except ValueError:  # as many stages as a cascade may have, say
        return None


def _stage(config: dict[str, Any]) -> dict[str, Any]:
    return {name: config[name] for name in ("type", "gnn", "neural_bp", "head") if name in config}


def _parents(first: Round, second: Round, context: RoundContext) -> str | list[str]:
    """Both branches, where git merges them; the merge is edited into the cascade."""
    if any(True for _ in compositions([first, second], context)):
        return [str(first.row["branch"]), str(second.row["branch"])]
    return branch_of(first.row, context)
