"""What a run would do: its budgets, the next proposal, and what the answers of a language model may cost."""

from __future__ import annotations

from tempfile import TemporaryDirectory
from typing import Any

from autoqec.agents.accounting import Caps
from autoqec.agents.roles import Roles
from autoqec.decoders.dsl_schema import canonical_dict
from autoqec.decoders.reference_p import reference_p
from autoqec.envs.load import load_env
from autoqec.envs.seeds import derive_seed
from autoqec.layout import RunDir
from autoqec.runs.plan import Plan
from autoqec.runs.proposer_adapters import LLM
from autoqec.runs.run import Run
from autoqec.runs.snapshot import Snapshots
from autoqec.search.draft import NothingLeft
from autoqec.search.proposal import BASELINE, BASELINE_CONFIG, Branch, EnvFacts, RoundContext
from autoqec.search.proposers import make as make_offline


def preview(env_name: str, plan: Plan, run_id: str | None = None) -> dict[str, Any]:
    """Of a run that does not exist yet. Its proposals follow from its id: without one, the first is one of many."""
    env = load_env(env_name)
    p = reference_p(env)
    context = RoundContext(
        env=EnvFacts(env.spec, p, plan.profile, env.problem(p)),
        seed=0 if run_id is None else derive_seed("propose", run_id, 1),
        round=1,
        rounds_planned=plan.rounds,
        branches=(Branch(BASELINE, (), canonical_dict(BASELINE_CONFIG)),),
        budget_left_s=None if plan.budget_minutes is None else 60.0 * plan.budget_minutes,
        memory_gb=plan.memory_gb / plan.parallel,
        refuse_over_budget=plan.refuse_over_budget,
    )
    return _about(plan, context.env) | _ahead(plan, context, "first", plan.rounds)


def preview_resumed(run: Run, plan: Plan) -> dict[str, Any]:
    """Of a run that exists. A round in flight comes next, and what is proposed after it depends on its result."""
    now = Snapshots(run, plan)
    context, done = now.context(), now.rounds_done()
    found = _about(plan, context.env) | {"rounds_done": done}
    if in_flight := [file.journal for file in run.journals()]:
        first = in_flight[0]
        return found | {
            "next_round": first.round,
            "next_hypothesis": first.proposal.hypothesis,
            "next_config": first.config,
        }
    return found | _ahead(plan, context, "next", max(plan.rounds - done, 0))


def _about(plan: Plan, env: EnvFacts) -> dict[str, Any]:
    return {
        "env": env.name,
        "reference_p": env.reference_p,
        "proposer": plan.proposer,
        "profile": plan.profile,
        "rounds": plan.rounds,
        "parallel": plan.parallel,
        "verify_shots": None if plan.is_smoke else plan.shots_verify(env.spec.eval_protocol),
        "budget_minutes": plan.budget_minutes,
        "round_minutes": plan.round_s / 60,
        "budget_usd": None if plan.budget_usd is None else str(plan.budget_usd),
        "refuse_over_budget": plan.refuse_over_budget,
    }


def _ahead(plan: Plan, context: RoundContext, which: str, rounds: int) -> dict[str, Any]:
    """The proposal that comes next, or what those of a language model may cost. rounds: that are left."""
    if plan.proposer == LLM:
        with TemporaryDirectory() as folder:
            return _money(Roles(RunDir(folder), caps=Caps.for_budget(plan.budget_usd)), rounds)
    if rounds == 0:
        return {}
    try:
        proposal = make_offline(plan.proposer).propose(context)
    except NothingLeft as error:
        return {"stopped": error.what}
    return {
        f"{which}_round": context.round,
        f"{which}_hypothesis": proposal.hypothesis,
        f"{which}_config": proposal.dsl_config,
        f"{which}_round_s": proposal.expected_cost_s,
    }


def _money(roles: Roles, rounds: int) -> dict[str, Any]:
    per_role = roles.estimate()
    likely = [role["likely_usd"] for role in per_role.values()]
    known = [usd for usd in likely if usd is not None]
    return {
        "roles": per_role,
        "likely_usd": round(rounds * sum(known), 4) if len(known) == len(likely) else None,
    }
