"""Rounds of a run that never ran: what the roles are told about them is real."""

from __future__ import annotations

from functools import cache
from typing import Any

from autoqec.decoders.dsl_schema import PredecoderDSL, canonical_dict
from autoqec.envs.environment import Environment
from autoqec.envs.load import load_env
from autoqec.search.proposal import Branch, EnvFacts, RoundContext

RUN_ID = "20261115-083000"

IDEA = {
    "hypothesis": "Weights per check trained on the outcome lower the LER of the untrained BP by a tenth",
    "expected_delta_ler": 0.004,
    "expected_cost_s": 120,
    "rationale": "Round 1 shows that the untrained BP gains; boundary checks differ from the bulk.",
    "dsl_hint": {"neural_bp": {"weight_sharing": "per_check"}},
    "fork_from": "baseline",
    "compose_mode": None,
}
CODE = {
    "dsl_config": {
        "type": "neural_bp",
        "output_mode": "soft_priors",
        "neural_bp": {"iterations": 6, "weight_sharing": "per_check"},
        "training": {"epochs": 1, "loss": "backend_gap", "batch_size": 256},
    },
    "tier": "1",
    "rationale": "Weights per check, everything else as it was.",
    "commit_message": "Weights per check",
}
WORDS = {
    "summary_1line": "The per_check BP lowers the LER; the interval excludes zero",
    "verdict": "candidate",
    "next_hypothesis_seed": "Add a one-layer residual network to this branch",
}


@cache
def environment(name: str = "surface_d3_depol") -> Environment:
    return load_env(name)


def facts(env: Environment, p: float = 0.005) -> EnvFacts:
    return EnvFacts(env.spec, p, "dev", env.problem(p))


def config(iterations: int, **more: Any) -> dict[str, Any]:
    dsl = {"type": "neural_bp", "output_mode": "soft_priors", "neural_bp": {"iterations": iterations}, **more}
    return canonical_dict(PredecoderDSL.model_validate(dsl))


def row(number: int, **facts_of_it: Any) -> dict[str, Any]:
    delta = 0.001 + 0.0001 * (number % 7)
    return {
        "round": number,
        "branch": f"exp/{RUN_ID}/{number:02d}-try",
        "commit_sha": f"{number:040x}",
        "fork_from": "baseline" if number == 1 else f"exp/{RUN_ID}/{number // 2:02d}-try",
        "status": "ok",
        "verdict": "candidate" if number % 3 else "ignore",
        "hypothesis": f"Try number {number}: change the damping and see whether the period-two oscillation goes away",
        "ler_plain_classical": 0.014,
        "ler_predecoder": 0.014 - delta,
        "delta_ler": delta,
        "delta_ler_ci_low": delta - 0.0004,
        "delta_ler_ci_high": delta + 0.0004,
        "flops_per_syndrome": 1_000_000 + number,
        "n_params": 100 * number,
        "train_wallclock_s": 20.0 + number,
        "eval_wallclock_s": 8.0,
        "dsl_config": config(number + 1),
        **facts_of_it,
    }


def context(
    rounds: int = 0, *, rows: list[dict[str, Any]] | None = None, env: Environment | None = None
) -> RoundContext:
    rows = [row(number) for number in range(1, rounds + 1)] if rows is None else rows
    branches = [Branch("baseline", (), config(8))]
    branches += [
        Branch(r["branch"], (str(r["fork_from"]),), r["dsl_config"]) for r in rows if r.get("branch")
    ]
    front = [
        {"commit_sha": r["commit_sha"], "branch": r["branch"], "delta_vs_baseline_holdout": r["delta_ler"]}
        | {"flops_per_syndrome": r["flops_per_syndrome"], "n_params": r["n_params"]}
        for r in rows
        if r.get("verdict") == "VERIFIED"
    ]
    return RoundContext(
        env=facts(env or environment()),
        seed=1,
        round=len(rows) + 1,
        rounds_planned=len(rows) + 12,
        history=tuple(rows),
        pareto=tuple(front),
        branches=tuple(branches),
    )
