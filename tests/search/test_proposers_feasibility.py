"""Candidates that are turned down before anything is trained."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import pytest

from autoqec.decoders.compiler import compile_predecoder
from autoqec.decoders.cost import measure
from autoqec.decoders.dsl_schema import PredecoderDSL, canonical_dict
from autoqec.envs.load import load_env
from autoqec.search.draft import Rejection, screen
from autoqec.search.feasibility import COST_SLACK, START_S, estimate
from autoqec.search.proposal import EnvFacts, RoundContext

DSL = PredecoderDSL.model_validate(
    {
        "type": "neural_bp",
        "output_mode": "soft_priors",
        "neural_bp": {"iterations": 4},
        "training": {"loss": "backend_gap", "epochs": 1},
    }
)


@cache
def facts() -> EnvFacts:
    env = load_env("surface_d3_depol")
    return EnvFacts(env.spec, 0.01, "dev", env.problem(0.01))


def context(**more: Any) -> RoundContext:
    return RoundContext(env=facts(), seed=0, round=1, rounds_planned=12, **more)


def with_budgets(flops: int, params: int) -> RoundContext:
    limits = facts().spec.constraints.model_copy(
        update={"latency_flops_budget": flops, "param_budget": params}
    )
    env = replace(facts(), spec=facts().spec.model_copy(update={"constraints": limits}))
    return replace(context(), env=env)


def with_epochs(epochs: int) -> PredecoderDSL:
    training = DSL.training.model_copy(update={"epochs": epochs})
    return DSL.model_copy(update={"training": training})


def row(dsl: PredecoderDSL, train_s: float, eval_s: float) -> dict[str, Any]:
    batches = dsl.training.epochs * 100_000 // dsl.training.batch_size
    costs = estimate(dsl, context())
    return {
        "round": 1,
        "status": "ok",
        "dsl_config": canonical_dict(dsl),
        "flops_per_syndrome": costs.flops_per_syndrome,
        "train_batches_total": batches,
        "train_wallclock_s": train_s,
        "eval_wallclock_s": eval_s,
    }


def test_costs_are_those_of_the_runner():
    cost = measure(compile_predecoder(DSL, facts().problem), facts().problem)
    found = estimate(DSL, context(memory_gb=4.0))
    assert (found.flops_per_syndrome, found.n_params) == (cost.flops_per_syndrome, cost.n_params)
    assert found.is_feasible
    assert found.violation == 0


def test_soft_budgets_are_no_reason_to_refuse_a_config_that_is_marked():
    cost = estimate(DSL, context())
    flops, params = cost.flops_per_syndrome or 0, cost.n_params or 0
    assert estimate(DSL, with_budgets(flops, params)).over_budget == ()
    far = estimate(DSL, with_budgets(flops // 200, params - 1))
    assert far.is_feasible
    assert far.over_budget == (
        f"flops_per_syndrome {flops} > {flops // 200}",
        f"n_params {params} > {params - 1}",
    )


def test_a_run_may_refuse_what_is_over_budget():
    cost = estimate(DSL, context())
    flops, params = cost.flops_per_syndrome or 0, cost.n_params or 0
    strict = replace(with_budgets(flops - 1, params), refuse_over_budget=True)
    assert estimate(DSL, strict).reasons == (f"over budget: flops_per_syndrome {flops} > {flops - 1}",)
    assert estimate(DSL, replace(with_budgets(flops, params), refuse_over_budget=True)).is_feasible
    far = replace(with_budgets(flops // 200, 1), refuse_over_budget=True)
    assert estimate(DSL, far).violation > estimate(DSL, strict).violation > 0


def test_offline_proposers_steer_away_from_more_than_the_slack():
    flops = estimate(DSL, context()).flops_per_syndrome or 0
    assert not isinstance(screen(DSL, with_budgets(int(flops / COST_SLACK) + 1, 10**6)), Rejection)
    near, far = (screen(DSL, with_budgets(int(flops / much) - 1, 10**6)) for much in (COST_SLACK, 200))
    assert isinstance(near, Rejection)
    assert isinstance(far, Rejection)
    assert "flops_per_syndrome" in near.reason
    assert (far.violation or 0) > (near.violation or 0) > 0


def test_a_batch_that_does_not_fit_is_turned_down():
    large = DSL.model_copy(update={"training": DSL.training.model_copy(update={"batch_size": 200_000})})
    assert "GB" in estimate(large, context(memory_gb=2.0)).reasons[0]
    assert estimate(large, context()).is_feasible  # no limit was given


def test_time_is_taken_from_the_run_s_own_rounds_and_grows_with_the_work():
    history = (row(with_epochs(1), train_s=40.0, eval_s=6.0),)
    once, thrice = (estimate(with_epochs(n), context(history=history)) for n in (1, 3))
    assert once.train_s == pytest.approx(40.0, rel=0.02)
    assert once.eval_s == pytest.approx(6.0)
    assert 60.0 < thrice.train_s < 120.0
    assert once.seconds == pytest.approx(START_S + once.train_s + once.eval_s)
    assert estimate(with_epochs(0), context(history=history)).train_s == 0
    failed = ({**history[0], "status": "train_error", "train_wallclock_s": 4000.0},)
    assert estimate(with_epochs(1), context(history=failed)).train_s == estimate(DSL, context()).train_s


def test_training_that_would_be_cut_off_and_rounds_beyond_the_budget_left_are_turned_down():
    slow = (row(with_epochs(1), train_s=470.0, eval_s=6.0),)
    assert estimate(with_epochs(1), context(history=slow)).is_feasible
    assert "s of training" in estimate(with_epochs(9), context(history=slow)).reasons[0]
    assert not estimate(with_epochs(1), context(history=slow, budget_left_s=60.0)).is_feasible
    assert estimate(with_epochs(0), context(history=slow, budget_left_s=60.0)).is_feasible


def with_message(body: str) -> PredecoderDSL:
    message = {
        "type": "custom",
        "code": f"def message(x_src, x_dst, e_ij, params):\n    {body}\n",
        "params_declared": {"W": "Linear(hidden, hidden)"},
    }
    gnn = {"layers": 1, "hidden_dim": 4, "message_fn": message}
    return PredecoderDSL.model_validate({"type": "gnn", "output_mode": "soft_priors", "gnn": gnn})


def test_a_config_with_code_is_counted_behind_the_wall():
    """Run here, the first would end the test; what it does there is a reason."""
    found = estimate(with_message("raise SystemExit"), context())
    assert "does not run" in found.reasons[0]
    good = with_message("return torch.tanh(params.W(x_src) + e_ij)")
    flops = estimate(good, context()).flops_per_syndrome
    assert flops == measure(compile_predecoder(good, facts().problem), facts().problem).flops_per_syndrome
    assert "flops_per_syndrome" in estimate(good, with_budgets(flops // 10, 10**6)).over_budget[0]
