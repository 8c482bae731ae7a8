"""What a run would do: its budgets, the first proposal, and what the answers of a language model may cost."""

from __future__ import annotations

from tempfile import TemporaryDirectory
from typing import Any

from autoqec.agents.accounting import Caps
from autoqec.agents.proposal import BASELINE, BASELINE_CONFIG, Branch, EnvFacts, RoundContext
from autoqec.agents.proposers import make as make_offline
from autoqec.agents.roles import Roles
from autoqec.decoders.dsl_schema import canonical_dict
from autoqec.decoders.reference import reference_p
from autoqec.envs.load import load_env
from autoqec.layout import RunDir
from autoqec.loop.authors import LLM
from autoqec.loop.plan import Plan


def preview(env_name: str, plan: Plan) -> dict[str, Any]:
    env = load_env(env_name)
    p = reference_p(env)
    found: dict[str, Any] = {
        "env": env.spec.name,
        "reference_p": p,
        "proposer": plan.proposer,
        "profile": plan.profile,
        "rounds": plan.rounds,
        "verify_shots": None if plan.is_smoke else plan.shots_verify(env.spec.eval_protocol),
        "budget_minutes": plan.budget_minutes,
        "budget_usd": None if plan.budget_usd is None else str(plan.budget_usd),
    }
    if plan.proposer == LLM:
        with TemporaryDirectory() as folder:
            return found | _money(Roles(RunDir(folder), caps=Caps.for_budget(plan.budget_usd)), plan.rounds)
    context = RoundContext(
        env=EnvFacts(env.spec, p, plan.profile, env.problem(p)),
        seed=0,
        round=1,
        rounds_planned=plan.rounds,
        branches=(Branch(BASELINE, (), canonical_dict(BASELINE_CONFIG)),),
        memory_gb=plan.memory_gb,
    )
    first = make_offline(plan.proposer).propose(context)
    return found | {
        "first_hypothesis": first.hypothesis,
        "first_config": first.dsl_config,
        "first_round_s": first.expected_cost_s,
    }


def _money(roles: Roles, rounds: int) -> dict[str, Any]:
    per_role = roles.estimate()
    likely = [role["likely_usd"] for role in per_role.values()]
    known = [usd for usd in likely if usd is not None]
    return {
        "roles": per_role,
        "likely_usd": round(rounds * sum(known), 4) if len(known) == len(likely) else None,
    }
