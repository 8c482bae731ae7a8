"""Multi-objective TPE (Ozaki et al. 2020) over the DSL, with halving on shots and warm starts.

The study is built anew for every proposal: the history is told again row by row, in memory, and the sampler's seed is the
round's. A config is told once, at its longest training, with (delta, decades of FLOPs, decades of parameters). A gain that
is not significant, a cost beyond the environment's budgets and a failed round are told as violated constraints; so are the
candidates that were rejected before training, in this round and, from `origin.rejected` of their rows, in earlier ones. Rounds in
flight are running trials, with Optuna's constant liar.

Order of a proposal: one time in five, once there are a few results, verified rounds as the stages of a cascade (see `stacking`),
which is not a point of the space; a promotion if one is due (see `halving`); an example config that was not tried yet (in at most a
third of the planned rounds); the most promising of a pool (see `prospect`): one half are suggestions, the other half
one step away from good rounds, since a sampler knows little after ten results. A candidate that repeats an earlier round
goes some steps away from it.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import optuna
from optuna.distributions import BaseDistribution, CategoricalDistribution, IntDistribution
from optuna.study import Study
from optuna.trial import TrialState, create_trial

from autoqec.decoders.dsl_schema import canonical_dict
from autoqec.search.distance import config_of, find_repeat
from autoqec.search.draft import TRIES, Rejection, draft, nothing_left, screen
from autoqec.search.earlier_rounds import EPOCHS, Round, branch_of, examples, ranked, rounds_in
from autoqec.search.feasibility import Estimate
from autoqec.search.halving import promotions
from autoqec.search.parameters import RUNGS, Flat, Grid, Parameter
from autoqec.search.proposal import Proposal, RoundContext, Row
from autoqec.search.prospect import promise
from autoqec.search.space import Rng, Space
from autoqec.search.stacking import next_stack

STACK_SHARE = 0.2
"""Of the proposals, those for which a cascade of verified rounds is tried first."""

STARTUP = 4
"""Results before the sampler models them; until then it draws at random."""

WARM_SHARE = 3
"""At most one in so many of the planned rounds is an example config."""

POOL = 8
"""Candidates of which the most promising becomes the round."""

CANDIDATES = 6
"""Draws of which the sampler suggests the best. Few, so that the suggestions of a pool differ."""

REMEMBERED = 4
"""Rejected candidates that a row carries."""


@dataclass(frozen=True)
class OptunaTpe:
    name: str = "optuna"

    def propose(self, context: RoundContext) -> Proposal:
        space = Space(context.env)
        rounds = rounds_in(space, context)
        return (
            self._stacked(rounds, context)
            or self._promoted(space, rounds, context)
            or self._suggested(space, rounds, context)
        )

    def _stacked(self, rounds: list[Round], context: RoundContext) -> Proposal | None:
        is_due = np.random.default_rng([context.seed, 1]).random() < STACK_SHARE
        return next_stack(self.name, rounds, context) if is_due and len(rounds) >= STARTUP else None

    def _promoted(self, space: Space, rounds: list[Round], context: RoundContext) -> Proposal | None:
        for chosen in promotions(rounds):
            dsl = space.decode(chosen.flat)
            costs = screen(dsl, context)
            if isinstance(costs, Rejection):
                continue
            parent = chosen.parent
            return draft(
                dsl,
                costs,
                rounds,
                proposer=self.name,
                hypothesis=f"round {parent.number} gains more with {dsl.training.epochs} epochs",
                why=f"it is {chosen.place} of {chosen.among} rounds trained for {parent.dsl.training.epochs} epochs",
                fork_from=branch_of(parent.row, context),
                expected=parent.delta,
                rung=chosen.rung,
                promoted_from=parent.number,
            )
        return None

    def _suggested(self, space: Space, rounds: list[Round], context: RoundContext) -> Proposal:
        """An example that waits, else the most promising of a pool."""
        rng = np.random.default_rng(context.seed)
        turned_down: list[dict[str, Any]] = []
        pool: list[tuple[float, Flat, Estimate]] = []
        example: str | None = None
        with _quiet():
            study = _told(space, rounds, context)
            waiting = _enqueue(study, space, context)
            candidates = _candidates(study, space, len(waiting), rounds, rng)
            for attempt, flat in zip(range(TRIES), candidates, strict=False):
                costs = screen(space.decode(flat), context)
                if isinstance(costs, Rejection) and costs.violation is None:
                    flat = _fresh(space.mutate(flat, rng, steps=1 + attempt % 4))
                    costs = screen(space.decode(flat), context)
                if isinstance(costs, Rejection):
                    if costs.violation is not None:
                        _tell_infeasible(study, space, flat, costs.violation)
                        facts = {"violation": costs.violation, "reason": costs.reason}
                        turned_down.append({"dsl_config": canonical_dict(space.decode(flat)), **facts})
                    continue
                pool.append((promise(space.decode(flat), costs, rounds), flat, costs))
                example = waiting[attempt] if attempt < len(waiting) else None
                if example is not None or len(pool) == POOL:
                    break
        if not pool:
            raise nothing_left(self.name)
        promised, flat, costs = max(pool, key=lambda each: each[0])
        why = f"the most promising of {len(pool)} candidates after {len(rounds)} results"
        return draft(
            space.decode(flat),
            costs,
            rounds,
            proposer=self.name,
            why=f"example config {example}" if example else why,
            rung=RUNGS.index(flat[EPOCHS]) if EPOCHS in flat else None,
            example=example,
            promise=promised,
            rejected=turned_down[-REMEMBERED:],
        )


def make() -> OptunaTpe:
    return OptunaTpe()


def _told(space: Space, rounds: list[Round], context: RoundContext) -> Study:
    sampler = optuna.samplers.TPESampler(
        multivariate=True,
        group=True,
        n_startup_trials=STARTUP,
        n_ei_candidates=CANDIDATES,
        constant_liar=bool(context.in_flight),
        seed=context.seed % 2**32,
    )
    study = optuna.create_study(directions=["maximize", "minimize", "minimize"], sampler=sampler)
    longest = {one.mechanism: one for one in sorted(rounds, key=lambda one: one.rung or 0)}
    for one in rounds:
        if longest[one.mechanism] is one:
            flops, params = one.costs
            shares = context.env.constraints.budget_shares(flops, params)
            plain = float(one.row.get("ler_plain_classical") or 0.0) or 1.0
            constraints = {
                "gain": -one.delta_low / plain,
                **{name: math.log10(max(share, 1e-9)) for name, share in shares.items()},
            }
            values = (one.delta, math.log10(max(flops, 1)), math.log10(max(params, 1)))
            _tell(study, space, one.flat, values, constraints)
    for row in context.history:
        if row.get("status") != "ok":
            _retell(study, space, row, 1.0)
        for each in (row.get("origin") or {}).get("rejected") or ():
            _retell(study, space, each, each["violation"])
    for row in context.in_flight:
        _tell_running(study, space, row)
    return study


def _tell_running(study: Study, space: Space, row: Row) -> None:
    """A round in flight: the sampler takes it for a bad one (constant liar) and looks elsewhere."""
    dsl = config_of(row)
    flat = None if dsl is None else space.encode(dsl)
    if flat is not None:
        study.add_trial(create_trial(state=TrialState.RUNNING, **_point(space, flat)))


def _retell(study: Study, space: Space, row: Row, violation: float) -> None:
    dsl = config_of(row)
    flat = None if dsl is None else space.encode(dsl)
    if flat is not None:
        _tell_infeasible(study, space, flat, violation)


def _tell_infeasible(study: Study, space: Space, flat: Mapping[str, Any], violation: float) -> None:
    worst = (0.0, 9.0, 7.0)  # only the violation counts among infeasible ones
    _tell(study, space, flat, worst, {"feasible": max(violation, 1e-3)})


def _tell(
    study: Study,
    space: Space,
    flat: Mapping[str, Any],
    values: tuple[float, ...],
    constraints: dict[str, float],
) -> None:
    study.add_trial(create_trial(values=values, constraints=constraints, **_point(space, flat)))


def _point(space: Space, flat: Mapping[str, Any]) -> dict[str, Any]:
    """As a trial holds it; the length of training is not the sampler's choice."""
    told = [p for p in space.parameters if p.name in flat and p.name != EPOCHS]
    return {
        "params": {p.name: _outward(p, flat[p.name]) for p in told},
        "distributions": {p.name: _distribution(p) for p in told},
    }


def _enqueue(study: Study, space: Space, context: RoundContext) -> list[str]:
    """The example configs that are still to be tried, in the order in which the study will ask for them."""
    waiting = []
    for name, dsl in examples(space)[: max(2, context.rounds_planned // WARM_SHARE)]:
        flat = space.encode(dsl) or {}
        if find_repeat(canonical_dict(space.decode(_fresh(flat))), context.tried) is None:
            study.enqueue_trial(
                {p.name: _outward(p, flat[p.name]) for p in space.parameters if p.name in flat}
            )
            waiting.append(name)
    return waiting


def _candidates(study: Study, space: Space, waiting: int, rounds: list[Round], rng: Rng) -> Iterator[Flat]:
    """The enqueued points; then, by turns, a suggestion and a step away from one of the best third of the rounds."""
    for _ in range(waiting):
        yield _ask(study, space)
    good = [one for one in ranked(rounds) if one.delta > 0][: 1 + len(rounds) // 3]
    while True:
        yield _ask(study, space)
        if good:
            yield _fresh(space.mutate(good[int(rng.integers(len(good)))].flat, rng))


def _fresh(flat: Flat) -> Flat:
    """The point at the first rung, where every config begins."""
    return {**flat, EPOCHS: RUNGS[0]} if EPOCHS in flat else flat


def _ask(study: Study, space: Space) -> Flat:
    """The next point. Its trial is dropped: what is known about it enters the study when it is told."""
    trial = study.ask()

    def choose(parameter: Parameter) -> Any:
        if parameter.name == EPOCHS:
            return RUNGS[0]
        if isinstance(parameter.domain, Grid):
            return parameter.domain.values[
                trial.suggest_int(parameter.name, 0, len(parameter.domain.values) - 1)
            ]
        return trial.suggest_categorical(parameter.name, parameter.domain.values)

    flat = space.walk(choose)
    study.tell(trial, state=TrialState.FAIL)
    return flat


def _distribution(parameter: Parameter) -> BaseDistribution:
    if isinstance(parameter.domain, Grid):
        return IntDistribution(0, len(parameter.domain.values) - 1)
    return CategoricalDistribution(parameter.domain.values)


def _outward(parameter: Parameter, value: Any) -> Any:
    """The value as the sampler sees it: its place on a grid, or the option."""
    return parameter.domain.values.index(value) if isinstance(parameter.domain, Grid) else value


@contextmanager
def _quiet() -> Iterator[None]:
    """Without Optuna's notices about new studies and experimental arguments."""
    level = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
            yield
    finally:
        optuna.logging.set_verbosity(level)
