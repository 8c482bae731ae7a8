"""What the loop asks of a role's answer before git or a training hears of it.

Raised as InputError, these go back to the model, or to whoever speaks in its place.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from autoqec.decoders.custom.allowed import SLOTS
from autoqec.decoders.custom.lint import lint
from autoqec.decoders.dsl_schema import PredecoderDSL, canonical_dict
from autoqec.errors import InputError
from autoqec.io.validate import validate_model
from autoqec.runner.schema import ComposeMode, canonical_fork
from autoqec.search.ancestry import ancestors
from autoqec.search.distance import find_repeat
from autoqec.search.feasibility import estimate
from autoqec.search.proposal import BASELINE, BASELINE_CONFIG, Branch, RoundContext, short_name


def resolve(fork_from: str | list[str], context: RoundContext) -> str | list[str]:
    """Full branch names for the short ones that the roles use."""
    names = {branch.name: branch.name for branch in context.branches} | {BASELINE: BASELINE}
    names |= {short_name(name): name for name in names}
    wanted = [fork_from] if isinstance(fork_from, str) else fork_from
    unknown = [name for name in wanted if name not in names]
    if unknown:
        known = ", ".join(sorted({short_name(name) for name in names}))
        raise InputError(
            f"there is no branch {unknown[0][:100]!r}", where="fork_from", hint=f"branches: {known}"
        )
    found = [names[name] for name in wanted]
    return found[0] if isinstance(fork_from, str) else found


def parent_config(fork_from: str | list[str], context: RoundContext) -> dict[str, Any]:
    """What is on the branch that the round starts from. Of several parents, the first with what the others changed."""
    by_name = {branch.name: branch for branch in context.branches}
    base = by_name[BASELINE].config if BASELINE in by_name else canonical_dict(BASELINE_CONFIG)
    if isinstance(fork_from, str):
        return dict(by_name[fork_from].config) if fork_from in by_name else dict(base)
    return _merged(base, [by_name[name] for name in fork_from])


def _merged(base: Mapping[str, Any], parents: list[Branch]) -> dict[str, Any]:
    merged = {
        name: dict(value) if isinstance(value, dict) else value for name, value in parents[0].config.items()
    }
    for parent in parents[1:]:
        for name, value in parent.config.items():
            before = base.get(name)
            if isinstance(value, dict) and isinstance(before, dict) and isinstance(merged.get(name), dict):
                merged[name] |= {key: item for key, item in value.items() if before.get(key) != item}
            elif value != before:
                merged[name] = value
    try:
        return canonical_dict(PredecoderDSL.model_validate(merged))
    except ValueError:  # the parents exclude each other: git will say so, too
        return dict(parents[0].config)


def check_fork(fork_from: str | list[str], compose_mode: ComposeMode | None, context: RoundContext) -> None:
    """What can be checked about a fork before git is asked."""
    fork = resolve(fork_from, context)
    if isinstance(fork, str):
        if compose_mode is not None:
            raise InputError(
                "compose_mode needs a list of branches",
                where="compose_mode",
                hint="give null, or a list in fork_from",
            )
        return
    if len(set(fork)) < len(fork):
        raise InputError("a branch is named twice", where="fork_from", hint="compose different branches")
    if canonical_fork(fork) in {row.get("fork_from_canonical") for row in context.tried}:
        raise InputError("these branches were composed before", where="fork_from", hint="compose others")
    parents = {branch.name: branch.parents for branch in context.branches}
    for name in fork:
        above = ancestors([name], lambda branch: parents.get(branch, ()))
        inside = [other for other in fork if other != name and other in above]
        if inside:
            raise InputError(
                f"{short_name(name)} contains {short_name(inside[0])} already",
                where="fork_from",
                hint="compose branches of which none is an ancestor of another",
            )


class ConfigCheck:
    """What the Coder is told about a config before a round is spent on it. A repeat is sent back once: the second time
    the loop gets to see it, and records it.

    sends_back: False where the loop is asked about repeats from the first time on.
    """

    def __init__(self, context: RoundContext, *, sends_back: bool = True) -> None:
        self._context = context
        self._sent_back = not sends_back

    def __call__(self, dsl_config: Mapping[str, Any], tier: str) -> None:
        dsl = validate_model(dsl_config, PredecoderDSL, where="dsl_config")
        for path, function in dsl.custom_functions.items():
            lint(function, SLOTS[path], where=f"dsl_config.{path}")
        if tier != dsl.tier:
            raise InputError(
                f"tier is {tier!r}, and the config is of tier {dsl.tier!r}",
                where="tier",
                hint=f"say {dsl.tier!r}",
            )
        costs = estimate(dsl, self._context)
        if not costs.is_feasible:
            raise InputError("; ".join(costs.reasons), where="dsl_config", hint="make it smaller or cheaper")
        repeat = find_repeat(canonical_dict(dsl), self._context.tried)
        if repeat is not None and not self._sent_back:
            self._sent_back = True
            raise InputError(
                repeat, where="dsl_config", hint="change what the hypothesis is about, or more of it"
            )
