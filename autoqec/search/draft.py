"""From a config to a proposal: what it is in words, what it is expected to cost and gain."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from autoqec.decoders.dsl_schema import PredecoderDSL, canonical_dict
from autoqec.errors import AutoQECError
from autoqec.runner.schema import ComposeMode
from autoqec.search.distance import counted, find_repeat
from autoqec.search.earlier_rounds import Round
from autoqec.search.feasibility import COST_SLACK, Estimate, estimate
from autoqec.search.proposal import BASELINE, Proposal, RoundContext
from autoqec.search.prospect import expected_delta

TRIES = 200
"""Candidates that a proposer looks at before it gives up."""


@dataclass(frozen=True)
class Rejection:
    """Why a config is not worth a round. violation: decades beyond the worst limit; None for a repeat."""

    reason: str
    violation: float | None = None


def screen(dsl: PredecoderDSL, context: RoundContext) -> Estimate | Rejection:
    """The costs of a config that is new, feasible and not far beyond the soft budgets, else why it is not. Repeats are found
    before anything is counted."""
    repeat = find_repeat(canonical_dict(dsl), context.tried)
    if repeat is not None:
        return Rejection(repeat)
    costs = estimate(dsl, context)
    if not costs.is_feasible:
        return Rejection("; ".join(costs.reasons), costs.violation)
    if costs.budget_share > COST_SLACK:
        too_much = f"more than {COST_SLACK:g} times a budget: {'; '.join(costs.over_budget)}"
        return Rejection(too_much, math.log10(costs.budget_share / COST_SLACK))
    return costs


class NothingLeft(AutoQECError):
    """The proposer found no config that is new and within the limits: the run is at its end."""


def nothing_left(proposer: str) -> NothingLeft:
    return NothingLeft(
        f"{TRIES} candidates were repeats or beyond the limits",
        where=f"proposer {proposer}",
        hint="raise the budgets of the environment, or end the run",
    )


def draft(
    dsl: PredecoderDSL,
    costs: Estimate,
    rounds: Sequence[Round],
    *,
    proposer: str,
    why: str,
    hypothesis: str | None = None,
    fork_from: str | list[str] = BASELINE,
    compose_mode: ComposeMode | None = None,
    expected: float | None = None,
    **facts: Any,
) -> Proposal:
    """facts: kept in `origin`, and through it in the history row."""
    what = describe(dsl)
    return Proposal(
        hypothesis=hypothesis or f"{what} lowers the logical error rate or its cost",
        rationale=why,
        dsl_config=canonical_dict(dsl),
        fork_from=fork_from,
        compose_mode=compose_mode,
        expected_delta_ler=expected_delta(dsl, rounds) if expected is None else expected,
        expected_cost_s=round(costs.seconds),
        commit_message=f"{proposer}: {what}",
        origin={
            "proposer": proposer,
            "flops_per_syndrome": costs.flops_per_syndrome,
            "n_params": costs.n_params,
            **facts,
        },
    )


def describe(dsl: PredecoderDSL) -> str:
    """A config in a few words."""
    stages = " then ".join(
        part.type + (f" ({', '.join(sizes)})" if (sizes := _sizes(part)) else "") for part in dsl.parts
    )
    parts = [dsl.type, *_sizes(dsl)] if dsl.stages is None else [f"cascade of {stages}"]
    if dsl.output_mode == "hard_flip":
        parts.append(f"hard flips above {dsl.confidence:g}")
    training = dsl.training
    started = training.init_from is not None
    not_trained = "not trained further" if started else "untrained"
    parts.append(f"{training.loss} for {training.epochs} epochs" if training.epochs else not_trained)
    parts += [f"started from {str(training.init_from)[:12]}"] if started else []
    return ", ".join(parts)


def _sizes(dsl: PredecoderDSL) -> list[str]:
    found = []
    if dsl.neural_bp is not None:
        found.append(f"{dsl.neural_bp.iterations} {dsl.neural_bp.check_rule} iterations")
        if (turbo := dsl.neural_bp.turbo) is not None:
            found.append(
                f"turbo with {turbo.exchanges} exchanges" + (f" and {turbo.legs} legs" if turbo.legs else "")
            )
    if dsl.gnn is not None:
        message = dsl.gnn.message_fn if isinstance(dsl.gnn.message_fn, str) else "custom"
        found.append(f"{dsl.gnn.layers}x{dsl.gnn.hidden_dim} {message}")
    return found


def changes(before: PredecoderDSL, after: PredecoderDSL) -> str:
    """The options that differ, as `option old -> new`."""
    old, new = counted(before), counted(after)
    names = sorted(name for name in old.keys() | new.keys() if old.get(name) != new.get(name))
    return ", ".join(f"{name} {_show(old, name)} -> {_show(new, name)}" for name in names)


def _show(options: Mapping[str, Any], name: str) -> str:
    value = options.get(name, "-")
    return "custom" if isinstance(value, dict) else str(value)
