"""What all offline proposers promise: valid, new, feasible, a function of the context and of nothing else."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys
from functools import cache
from typing import Any

import pytest

from autoqec.decoders.dsl_schema import NeuralBpSpec, PredecoderDSL, canonical_dict
from autoqec.envs.load import load_env
from autoqec.errors import InputError
from autoqec.runner.schema import canonical_fork
from autoqec.search import proposers
from autoqec.search.distance import find_repeat
from autoqec.search.feasibility import COST_SLACK, estimate
from autoqec.search.parameters import RUNGS
from autoqec.search.proposal import BASELINE, Branch, EnvFacts, Proposal, RoundContext

pytestmark = pytest.mark.slow

START = PredecoderDSL(type="neural_bp", output_mode="soft_priors", neural_bp=NeuralBpSpec())


@cache
def facts(name: str = "surface_d3_depol", profile: str = "dev") -> EnvFacts:
    env = load_env(name)
    p = env.spec.noise.p[-1]
    return EnvFacts(env.spec, p, profile, env.problem(p))


def context(
    rows: list[dict[str, Any]], *, env: EnvFacts | None = None, run: int = 0, **more: Any
) -> RoundContext:
    number = len(rows) + 1
    branches = [Branch(BASELINE, (), canonical_dict(START))]
    for row in rows:
        fork = row["fork_from"]
        branches.append(
            Branch(row["branch"], (fork,) if isinstance(fork, str) else tuple(fork), row["dsl_config"])
        )
    given = {
        "env": env or facts(),
        "seed": 1_000_003 * run + number,
        "round": number,
        "rounds_planned": 12,
        "history": tuple(rows),
        "branches": tuple(branches),
        "memory_gb": 8.0,
    }
    return RoundContext(**(given | more))


def outcome(proposal: Proposal, number: int) -> dict[str, Any]:
    """A history row as the loop would write it, with figures like those of science: soft belief propagation gains."""
    dsl = proposal.dsl
    iterations = dsl.neural_bp.iterations if dsl.neural_bp else 0
    gain = 0.006 * (1 - 2 ** (-iterations / 2)) + 0.0004 * dsl.training.epochs**0.5
    delta = gain if iterations and dsl.output_mode == "soft_priors" else -0.0005
    return {
        "round": number,
        "status": "ok",
        "hypothesis": proposal.hypothesis,
        "verdict": "candidate" if delta > 0 else "ignore",
        "branch": f"exp/20260101-000000/{number:02d}-x",
        "fork_from": proposal.fork_from,
        "fork_from_canonical": canonical_fork(proposal.fork_from),
        "compose_mode": proposal.compose_mode,
        "dsl_config": proposal.dsl_config,
        "config_hash": proposal.config_hash,
        "origin": proposal.origin,
        "ler_plain_classical": 0.06,
        "ler_predecoder": 0.06 - delta,
        "delta_ler": delta,
        "delta_ler_ci_low": delta - 0.001,
        "delta_ler_ci_high": delta + 0.001,
        "flops_per_syndrome": proposal.origin["flops_per_syndrome"],
        "n_params": proposal.origin["n_params"],
        "train_wallclock_s": 4.0 * dsl.training.epochs,
        "eval_wallclock_s": 2.0,
        "train_batches_total": 200 * dsl.training.epochs,
        "training_kept_step": 7,
    }


@cache
def run_of(name: str, rounds: int = 8, run: int = 0) -> tuple[dict[str, Any], ...]:
    rows: list[dict[str, Any]] = []
    for number in range(1, rounds + 1):
        proposal = proposers.make(name).propose(context(rows, run=run))
        rows.append(outcome(proposal, number))
    return tuple(rows)


@pytest.mark.parametrize("name", proposers.OFFLINE)
def test_every_proposal_is_valid_new_feasible_and_says_why(name):
    rows = run_of(name)
    for number, row in enumerate(rows):
        assert find_repeat(row["dsl_config"], rows[:number]) is None
        assert estimate(
            PredecoderDSL.model_validate(row["dsl_config"]), context(list(rows[:number]))
        ).is_feasible
        assert row["origin"]["proposer"] == name
        assert row["dsl_config"]["training"]["profile"] == "dev"
        known = {BASELINE, *(earlier["branch"] for earlier in rows[:number])}
        parents = [row["fork_from"]] if isinstance(row["fork_from"], str) else row["fork_from"]
        assert set(parents) <= known


@pytest.mark.parametrize("name", proposers.OFFLINE)
def test_a_resumed_run_gets_the_proposals_of_an_undisturbed_one(name):
    rows = run_of(name)
    proposer = proposers.make(name)
    for number in (7, 0, 5):  # in any order: nothing is kept from call to call
        told = json.loads(json.dumps(rows[:number]))
        again = proposer.propose(context(told))
        assert outcome(again, number + 1) == rows[number]
    assert dataclasses.asdict(proposer) == {"name": name}


def test_another_process_with_another_hash_seed_proposes_the_same(tmp_path):
    """Of the three, Optuna is the one whose inside could depend on the order of sets."""
    rows = run_of("optuna")[:5]
    wanted = proposers.make("optuna").propose(context(list(rows)))
    assert "promoted_from" not in wanted.origin
    (tmp_path / "rows.json").write_text(json.dumps(rows))
    script = (
        "import importlib.util, json, sys\n"
        "spec = importlib.util.spec_from_file_location('helpers', sys.argv[1])\n"
        "helpers = importlib.util.module_from_spec(spec); spec.loader.exec_module(helpers)\n"
        "rows = json.load(open(sys.argv[2]))\n"
        "proposal = helpers.proposers.make('optuna').propose(helpers.context(rows))\n"
        "print(proposal.model_dump_json())\n"
    )
    said = subprocess.run(
        [sys.executable, "-c", script, __file__, str(tmp_path / "rows.json")],
        env=os.environ | {"PYTHONHASHSEED": "12345"},
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert Proposal.model_validate_json(said) == wanted


@pytest.mark.parametrize("name", proposers.OFFLINE)
def test_runs_with_other_seeds_go_other_ways(name):
    rows = list(run_of(name)[:5])
    first, second = (proposers.make(name).propose(context(rows, run=run)) for run in (1, 2))
    assert first.config_hash != second.config_hash


@pytest.mark.parametrize("name", proposers.OFFLINE)
def test_rounds_that_failed_or_came_from_elsewhere_do_not_disturb(name):
    rows = [dict(row) for row in run_of(name)[:6]]
    rows[1] |= {"status": "train_error", "delta_ler": None, "delta_ler_ci_low": None}
    rows[2] |= {"status": "compile_error", "dsl_config": {"type": "?"}, "n_params": None}
    custom = {"type": "custom", "code": "def head(h, params):\n    return h\n"}
    rows[3] |= {"dsl_config": rows[0]["dsl_config"] | {"head": custom}, "origin": None}
    rows[4] = {
        "round": 5, "status": "compose_conflict", "fork_from": rows[0]["branch"], "branch": "gone", "dsl_config": None
    }  # fmt: skip
    planned = context([row for row in rows if row.get("dsl_config") and row["status"] == "ok"])
    proposal = proposers.make(name).propose(dataclasses.replace(planned, history=tuple(rows), round=7))
    assert find_repeat(proposal.dsl_config, rows) is None


@pytest.mark.parametrize("name", proposers.OFFLINE)
def test_no_candidate_goes_beyond_the_budgets(name):
    env = facts()
    tight = env.spec.constraints.model_copy(update={"latency_flops_budget": 120_000, "param_budget": 2_000})
    small = dataclasses.replace(env, spec=env.spec.model_copy(update={"constraints": tight}))
    rows: list[dict[str, Any]] = []
    for number in (1, 2):
        proposal = proposers.make(name).propose(context(rows, env=small))
        assert proposal.origin["flops_per_syndrome"] <= COST_SLACK * 120_000
        assert proposal.origin["n_params"] <= COST_SLACK * 2_000
        rows.append(outcome(proposal, number))


@pytest.mark.parametrize("results", [0, 6])
@pytest.mark.parametrize("name", proposers.OFFLINE)
def test_what_is_in_flight_is_not_proposed_again(name, results):
    rows = list(run_of(name)[:results])
    alone = proposers.make(name).propose(context(rows))
    flying = {"round": results + 1, "hypothesis": alone.hypothesis, "dsl_config": alone.dsl_config}
    flying["fork_from_canonical"] = canonical_fork(alone.fork_from)
    other = proposers.make(name).propose(context(rows, in_flight=(flying,)))
    assert find_repeat(other.dsl_config, [*rows, flying]) is None
    assert canonical_fork(other.fork_from) != flying["fork_from_canonical"] or alone.compose_mode is None


def test_prod_rounds_are_proposed_for_prod():
    proposal = proposers.make("optuna").propose(context([], env=facts(profile="prod")))
    assert proposal.dsl.training.profile == "prod"


def test_the_registry_imports_what_is_used_and_names_what_there_is():
    with pytest.raises(InputError, match="optuna, evolution, templates"):
        proposers.make("tpe")
    script = (
        "import sys; from autoqec.search import proposers; proposers.make('templates'); "
        "sys.exit('optuna' in sys.modules or 'torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0


def test_a_proposal_writes_its_config_out_and_refuses_what_does_not_fit():
    given = {"hypothesis": "h", "rationale": "", "commit_message": "m"}
    config = {"type": "neural_bp", "output_mode": "soft_priors", "neural_bp": {}}
    proposal = Proposal.model_validate(given | {"dsl_config": config})
    assert proposal.dsl_config["training"]["epochs"] == 3
    assert (proposal.tier, proposal.fork_from) == ("1", BASELINE)
    for wrong in (
        {"dsl_config": config | {"layers": 3}},
        {"dsl_config": config, "fork_from": ["a", "b"]},
        {"dsl_config": config, "compose_mode": "pure"},
        {"dsl_config": config, "fork_from": ["a"], "compose_mode": "pure"},
    ):
        with pytest.raises(ValueError):
            Proposal.model_validate(given | wrong)


def test_optuna_starts_from_the_examples_and_from_short_training():
    rows = run_of("optuna")
    assert [row["origin"]["example"] for row in rows[:4]] == [
        "neural_bp_untrained",
        "neural_bp_gap",
        "hybrid_gap",
        "neural_bp_hard_flip",
    ]
    assert all(row["origin"]["example"] is None for row in rows[4:] if "example" in row["origin"])
    fresh = [row for row in rows if "promoted_from" not in row["origin"]]
    assert {row["dsl_config"]["training"]["epochs"] for row in fresh} <= {0, RUNGS[0]}
