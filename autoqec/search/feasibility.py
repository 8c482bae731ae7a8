"""What a config would cost, before anything is trained, and whether it is worth a round at all.

FLOPs and parameters are counted on the environment's problem, memory is the runner's own estimate, and time is work times
the seconds that earlier rounds of the run took for theirs. A census takes about a tenth of a second, or some seconds for
a config with code, which runs in the sandbox only.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from autoqec.decoders.dsl_schema import PredecoderDSL, canonical_dict
from autoqec.envs.problem import DecodingProblem
from autoqec.errors import AutoQECError
from autoqec.runner.profiles import PROFILES
from autoqec.runner.safety import MOST_NUMBERS, estimated_memory_gb
from autoqec.search.distance import config_of
from autoqec.search.proposal import EnvFacts, RoundContext, Row

COST_SLACK = 2.0
"""The budgets are soft: a round beyond them runs and is marked. Offline proposers look no further than so many times the budget."""

STAGE_SLACK = 100.0
"""So many times more for one stage of a cascade, which few shots may reach: what is larger is not even compiled."""

TIME_SLACK = 1.5
"""Training that is expected to need so many times the profile's limit would be cut off long before its end, and a round whose
model alone needs that long for validation would be killed in it."""

START_S = 5.0
"""A round's process and its imports."""

SECONDS_PER_FLOP = 1e-10
"""Of one CPU core, until the run has timings of its own."""

_MINIMUM_PER_MESSAGE = 32  # about 60 are counted, with either check rule
_COUNTABLE = 10_000_000  # counted in seconds; a million iterations would take hours
_BACKWARD = 3.0  # forward and backward, in forward passes
_SELECTIONS = 13  # how often a training scores its state on the selection shots


@dataclass(frozen=True)
class Estimate:
    """n_params: None for a config with code, and flops_per_syndrome as well where no sandbox works.

    reasons: why it is not worth a round; none if it is. violation: the decades by which the worst limit is missed, 0 within
    all of them; 1 for a config that does not compile. over_budget: what goes beyond the soft budgets; that is a reason in a
    run that refuses it. budget_share: the larger cost as a multiple of its budget.
    """

    flops_per_syndrome: int | None
    n_params: int | None
    memory_gb: float
    train_s: float
    eval_s: float
    reasons: tuple[str, ...] = ()
    violation: float = 0.0
    over_budget: tuple[str, ...] = ()
    budget_share: float = 0.0

    @property
    def is_feasible(self) -> bool:
        return not self.reasons

    @property
    def seconds(self) -> float:
        return START_S + self.train_s + self.eval_s


def _wants_edges(env: EnvFacts) -> bool:
    from autoqec.decoders.backends import backend_entry

    return backend_entry(env.backend).wants_edges


def estimate(dsl: PredecoderDSL, context: RoundContext) -> Estimate:
    """Costs of a config and what rules it out in this environment and with what is left of the run's budget."""
    env, budgets = context.env, context.env.constraints
    memory = estimated_memory_gb(dsl, env.problem)
    flops: int | None = None
    params: int | None = None
    countable = max(COST_SLACK * budgets.latency_flops_budget, _COUNTABLE)
    largest = max(_minimum_flops(part, env.problem) for part in dsl.parts)
    wants_edges = _wants_edges(env)
    if dsl.stages is not None and largest > STAGE_SLACK * countable:
        reason = f"one of its stages takes at least {largest:.3g} FLOPs for a shot"
        return Estimate(None, None, memory, 0.0, 0.0, (reason,), 1.0)
    if dsl.tier == "1" and (minimum := _minimum_flops(dsl, env.problem)) > countable:
        flops = minimum
    elif dsl.tier == "1":
        from autoqec.decoders.compiler import compile_predecoder
        from autoqec.decoders.cost import measure

        try:
            module = compile_predecoder(dsl, env.problem)
            cost = measure(module, env.problem, roughly=True, wants_edges=wants_edges)
        except (AutoQECError, RuntimeError, MemoryError) as error:
            what = error.what if isinstance(error, AutoQECError) else str(error)
            return Estimate(None, None, memory, 0.0, 0.0, (f"does not compile: {what}",), 1.0)
        flops, params = cost.flops_per_syndrome, cost.n_params
    else:
        from autoqec.sandbox.census import confined_flops

        try:
            flops = confined_flops(
                canonical_dict(dsl), env.problem, output_mode=dsl.output_mode, wants_edges=wants_edges
            )
        except AutoQECError as error:
            return Estimate(None, None, memory, 0.0, 0.0, (f"does not run: {error.what}",), 1.0)
    train_s, eval_s = _seconds(dsl, flops, env, context.history)
    limit_s = PROFILES[env.profile].train_seconds
    limits = [
        ("GB for a training batch", memory, context.memory_gb),
        ("numbers to search by failures", params if dsl.training.loss == "failures" else None, MOST_NUMBERS),
        ("s of training", train_s, TIME_SLACK * limit_s),
        ("s of validation", _least_eval_s(dsl, flops, env, eval_s), TIME_SLACK * limit_s),
        ("s of the budget left", START_S + min(train_s, limit_s) + eval_s, context.budget_left_s),
    ]
    over = budgets.over_budget(flops, params)
    share = max(budgets.budget_shares(flops, params).values(), default=0.0)
    reasons, violation = [], 0.0
    if over and context.refuse_over_budget:
        reasons, violation = [f"over budget: {line}" for line in over], math.log10(share)
    for what, needed, allowed in limits:
        if needed is not None and allowed is not None and needed > allowed:
            reasons.append(f"needs {needed:.3g} {what}, and the maximum is {max(allowed, 0.0):.3g}")
            violation = max(violation, math.log10(needed / max(allowed, 1e-9)))
    return Estimate(
        flops, params, memory, min(train_s, limit_s), eval_s, tuple(reasons), violation, tuple(over), share
    )


def _minimum_flops(dsl: PredecoderDSL, problem: DecodingProblem) -> int:
    """Fewer than a config needs, without compiling it: some operations for every message and every feature of one. Of a cascade the
    first stage counts, and the others by the shots that are to reach them."""
    minimum = 0.0
    shares = [1.0] + [stage.share or 0.0 for stage in (dsl.stages or [])[1:]]
    for part, share in zip(dsl.parts, shares, strict=True):
        if part.neural_bp is not None:
            minimum += share * _MINIMUM_PER_MESSAGE * part.neural_bp.iterations * problem.h.nnz
        if part.gnn is not None:
            edges = problem.graph.n_edges if problem.graph is not None else problem.h.nnz
            minimum += share * part.gnn.layers * part.gnn.hidden_dim * edges
    return int(minimum)


def _seconds(
    dsl: PredecoderDSL, flops: int | None, env: EnvFacts, history: Sequence[Row]
) -> tuple[float, float]:
    """Training and validation, from the work and the run's own timings."""
    if flops is None:
        known = [row for row in history if row.get("status") == "ok"]
        return (
            median([float(row.get("train_wallclock_s") or 0.0) for row in known] or [0.0]),
            median([float(row.get("eval_wallclock_s") or 0.0) for row in known] or [0.0]),
        )
    train_work, eval_work = _work(dsl, flops, env)
    rates = [_rates(row, env) for row in history if row.get("status") == "ok"]
    alike = [each for each in rates if each is not None and each[0] == dsl.type]
    usable = alike or [each for each in rates if each is not None]
    train_rates = [train for _, train, _ in usable if train > 0]
    eval_rates = [validation for _, _, validation in usable if validation > 0]
    return (
        train_work * median(train_rates or [SECONDS_PER_FLOP]),
        eval_work * median(eval_rates or [SECONDS_PER_FLOP]),
    )


def _least_eval_s(dsl: PredecoderDSL, flops: int | None, env: EnvFacts, expected_s: float) -> float | None:
    """Of the model alone: where earlier rounds spent their time in the backend, their rate says too much about it."""
    return None if flops is None else min(expected_s, SECONDS_PER_FLOP * _work(dsl, flops, env)[1])


def _work(
    dsl: PredecoderDSL, flops: int, env: EnvFacts, trained_shots: float | None = None
) -> tuple[float, float]:
    """FLOPs of the training and of the validation of a round."""
    profile, protocol = PROFILES[env.profile], env.spec.eval_protocol
    shots = trained_shots
    if shots is None:
        shots = float(dsl.training.epochs * profile.train_shots(protocol))
    passes = _BACKWARD * shots + _SELECTIONS * profile.selection_shots(protocol) if shots else 0.0
    return flops * passes, float(flops * profile.val_shots(protocol) * len(env.spec.noise.p))


def _rates(row: Row, env: EnvFacts) -> tuple[str, float, float] | None:
    """Type, and seconds per FLOP of training and validation, of an earlier round; 0 for a part that it did not have."""
    dsl, flops = config_of(row), row.get("flops_per_syndrome")
    if dsl is None or not flops:
        return None
    shots = float((row.get("train_batches_total") or 0) * dsl.training.batch_size)
    train_work, eval_work = _work(dsl, int(flops), env, shots)
    train = float(row.get("train_wallclock_s") or 0.0)
    return (
        dsl.type,
        (train / train_work if train_work else 0.0),
        float(row.get("eval_wallclock_s") or 0.0) / eval_work,
    )
