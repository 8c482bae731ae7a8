"""What each search does with its history: halving, learning, offspring, and merges that git makes the same way."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from autoqec.decoders.dsl_schema import NeuralBpSpec, PredecoderDSL, canonical_dict, canonical_hash
from autoqec.envs.load import load_env
from autoqec.runs.mechanisms import from_files, to_files
from autoqec.search import merging, proposers
from autoqec.search.earlier_rounds import Round, ranked, rounds_in
from autoqec.search.evolution import Evolution
from autoqec.search.halving import promotions
from autoqec.search.parameters import RUNGS
from autoqec.search.proposal import BASELINE, Branch, EnvFacts, RoundContext
from autoqec.search.space import Space

pytestmark = pytest.mark.slow

START = PredecoderDSL(type="neural_bp", output_mode="soft_priors", neural_bp=NeuralBpSpec())
GAP = {"loss": "backend_gap", "epochs": RUNGS[0], "learning_rate": 3e-3}


@cache
def facts() -> EnvFacts:
    env = load_env("surface_d3_depol")
    return EnvFacts(env.spec, 0.01, "dev", env.problem(0.01))


def bp(training: Mapping[str, Any] = GAP, **options: Any) -> dict[str, Any]:
    data = {
        "type": "neural_bp",
        "output_mode": "soft_priors",
        "neural_bp": options,
        "training": dict(training),
    }
    return canonical_dict(PredecoderDSL.model_validate(data))


def row(
    number: int, config: dict[str, Any], delta: float, *, fork: str = BASELINE, **more: Any
) -> dict[str, Any]:
    return {
        "round": number,
        "status": "ok",
        "branch": f"exp/{number}",
        "fork_from": fork,
        "fork_from_canonical": fork,
        "dsl_config": config,
        "delta_ler": delta,
        "delta_ler_ci_low": delta - 0.001,
        "ler_plain_classical": 0.06,
        "flops_per_syndrome": 100_000 * config.get("neural_bp", {}).get("iterations", 5),
        "n_params": 100,
        "train_batches_total": 39 * config["training"]["epochs"],
        "train_wallclock_s": 3.0,
        "eval_wallclock_s": 2.0,
        "training_kept_step": 7,
        **more,
    }


def context(rows: list[dict[str, Any]], seed: int = 0, **more: Any) -> RoundContext:
    branches = [Branch(BASELINE, (), canonical_dict(START))]
    branches += [Branch(r["branch"], (r["fork_from"],), r["dsl_config"]) for r in rows]
    return RoundContext(
        env=facts(),
        seed=seed,
        round=len(rows) + 1,
        rounds_planned=12,
        history=tuple(rows),
        branches=tuple(branches),
        memory_gb=8.0,
        **more,
    )


def rounds(rows: list[dict[str, Any]]) -> list[Round]:
    return rounds_in(Space(facts()), context(rows))


def promotable(rows: list[dict[str, Any]]) -> list[tuple[int, int]]:
    return [(each.parent.number, RUNGS[each.rung]) for each in promotions(rounds(rows))]


FIRST = [
    row(1, bp(iterations=2), 0.002),
    row(2, bp(iterations=8), 0.006),
    row(3, bp(iterations=8, weight_sharing="none"), 0.001, n_params=5000),
]


def test_one_in_three_is_promoted_and_only_once():
    assert promotable(FIRST[:2]) == []
    assert promotable(FIRST) == [(2, RUNGS[1])]
    longer = bp({**GAP, "epochs": RUNGS[1]}, iterations=8)
    assert promotable([*FIRST, row(4, longer, 0.007)]) == []
    several = [*FIRST, *(row(n, bp(iterations=n, damping="fixed"), 0.001) for n in (4, 6, 12))]
    assert promotable(several) == [(2, RUNGS[1]), (1, RUNGS[1])]


def test_the_higher_rung_is_served_first():
    third = {**GAP, "epochs": RUNGS[1]}
    done = [*FIRST, *(row(n, bp(third, iterations=n), 0.001 * n) for n in (3, 4, 6))]
    assert promotable(done) == [(6, RUNGS[2]), (2, RUNGS[1])]


@pytest.mark.parametrize("change", [{"delta_ler": -0.002}, {"training_kept_step": 0}])
def test_what_did_not_gain_by_training_is_not_promoted(change):
    assert promotable([FIRST[0], FIRST[1] | change, FIRST[2]]) == (
        [] if "training_kept_step" in change else [(1, 3)]
    )


def test_a_promotion_forks_from_the_parents_branch_and_changes_nothing_but_the_epochs():
    untrained = row(4, bp({"epochs": 0}, iterations=8, damping="fixed"), 0.005)
    proposal = proposers.make("optuna").propose(context([*FIRST, untrained]))
    assert proposal.fork_from == "exp/2"
    wanted = {
        **FIRST[1]["dsl_config"],
        "training": {**FIRST[1]["dsl_config"]["training"], "epochs": RUNGS[1]},
    }
    assert proposal.dsl_config == wanted
    assert proposal.origin["promoted_from"] == 2
    assert proposal.expected_delta_ler == 0.006


def test_ranking_goes_front_by_front():
    rows = [
        row(1, bp(iterations=8), 0.004),
        row(2, bp(iterations=8, damping="fixed"), 0.003),  # as dear as 1 and worse
        row(3, bp(iterations=2), 0.002),  # cheap
        row(4, bp(iterations=16), 0.006),
        row(5, bp(iterations=1), -0.001),  # cheapest of all, and no gain
    ]
    assert [one.number for one in ranked(rounds(rows))] == [4, 1, 3, 2, 5]


def test_the_sampler_learns_what_gains():
    """Belief propagation with soft priors gains, nothing else does: suggestions follow, random draws do not."""
    space, rng = Space(facts()), np.random.default_rng(5)
    rows = []
    for number in range(1, 25):
        dsl = space.decode(space.sample(rng))
        is_good = dsl.type == "neural_bp" and dsl.output_mode == "soft_priors"
        delta = 0.005 if is_good else -0.005
        rows.append(row(number, canonical_dict(dsl), delta, training_kept_step=0))  # nothing to promote
    rows += [row(25 + i, dsl, 0.0, status="train_error") for i, dsl in enumerate(_examples())]

    def share(name: str) -> float:
        found = [proposers.make(name).propose(context(rows, seed=seed)).dsl for seed in range(5)]
        return float(np.mean([d.type == "neural_bp" and d.output_mode == "soft_priors" for d in found]))

    assert share("templates") <= 0.4
    assert share("optuna") >= 0.6


def _examples() -> list[dict[str, Any]]:
    """The warm starts as they would be proposed."""
    from autoqec.search.earlier_rounds import examples

    space = Space(facts())
    points = [space.encode(dsl) or {} for _, dsl in examples(space)]
    return [
        canonical_dict(
            space.decode(flat | {"training.epochs": RUNGS[0]} if "training.epochs" in flat else flat)
        )
        for flat in points
    ]


def test_rejected_candidates_are_kept_in_the_proposal_and_told_again(monkeypatch):
    """A parameter budget that nearly everything misses: what was turned down is on record, with its reason."""
    tight = facts().spec.constraints.model_copy(update={"param_budget": 20})
    env = EnvFacts(facts().spec.model_copy(update={"constraints": tight}), 0.01, "dev", facts().problem)
    failed = [row(1 + i, config, 0.0, status="train_error") for i, config in enumerate(_examples())]
    plain = context(failed)
    given = {**plain.__dict__, "env": env, "refuse_over_budget": True}
    proposal = proposers.make("optuna").propose(RoundContext(**given))
    turned_down = proposal.origin["rejected"]
    assert turned_down
    assert all(each["violation"] > 0 and "over budget: n_params" in each["reason"] for each in turned_down)
    from autoqec.search import optuna_tpe

    told: list[float] = []
    original = optuna_tpe._tell_infeasible
    monkeypatch.setattr(
        optuna_tpe, "_tell_infeasible", lambda *args: (told.append(args[3]), original(*args))[1]
    )
    later = [*failed, row(9, proposal.dsl_config, 0.001, origin=proposal.origin)]
    proposers.make("optuna").propose(RoundContext(**{**context(later).__dict__, "env": env}))
    assert [each["violation"] for each in turned_down] == told[len(failed) : len(failed) + len(turned_down)]


PARENT = bp(iterations=8, weight_sharing="per_check")
LEFT = bp(iterations=8, weight_sharing="per_check", memory="learnable")
RIGHT = bp({**GAP, "learning_rate": 1e-2}, iterations=8, weight_sharing="per_check")


def family(left: dict[str, Any] = LEFT, right: dict[str, Any] = RIGHT) -> list[dict[str, Any]]:
    return [
        row(1, PARENT, 0.004),
        row(2, left, 0.005, fork="exp/1"),
        row(3, right, 0.0045, fork="exp/1"),
        row(4, bp({"epochs": 0}, iterations=1), -0.001),
    ]


def composed(rows: list[dict[str, Any]]) -> list[merging.Composition]:
    return list(merging.compositions(ranked(rounds(rows)), context(rows)))


def test_siblings_that_changed_different_options_compose_to_both_changes():
    (found,) = composed(family())
    assert canonical_hash(found.dsl) == canonical_hash(
        PredecoderDSL.model_validate(
            bp(
                {**GAP, "learning_rate": 1e-2},
                iterations=8,
                weight_sharing="per_check",
                memory="learnable",
            )
        )
    )
    assert {parent.number for parent in found.parents} == {2, 3}
    assert set(found.changed) == {"neural_bp.memory", "training.learning_rate"}


def test_pairs_that_git_could_not_merge_or_that_were_tried_are_left_out():
    same_option = bp({**GAP, "learning_rate": 2e-2}, iterations=8, weight_sharing="per_check")
    assert composed(family(left=same_option)) == []
    hybrid = PredecoderDSL.model_validate(PARENT | {"type": "hybrid", "gnn": {}})
    assert composed(family(left=canonical_dict(hybrid))) == []
    tried = {"round": 5, "status": "compose_conflict", "fork_from_canonical": "exp/2|exp/3"}
    rows = family()
    given = context(rows)
    again = RoundContext(**{**given.__dict__, "history": (*rows, tried)})
    assert list(merging.compositions(ranked(rounds(rows)), again)) == []
    assert [found.parents for found in composed([r | {"delta_ler": -0.001} for r in rows])] == []


def test_a_composition_is_what_git_makes_of_the_branches(tmp_path):
    """The mechanism files of both branches, merged by git itself, say the config that was predicted."""
    features = {"edge_features": ["syndrome_bit", "distance"], "hidden_dim": 16, "layers": 2}
    base = PredecoderDSL.model_validate(PARENT | {"type": "hybrid", "gnn": features})
    left = canonical_dict(base) | {
        "gnn": {**features, "edge_features": ["syndrome_bit"], "message_fn": "mlp"}
    }
    right = canonical_dict(base) | {
        "gnn": {**features, "edge_features": ["syndrome_bit", "distance", "round_idx"], "aggregation": "mean"}
    }
    rows = family(left, right)
    rows[0] |= {"dsl_config": canonical_dict(base)}
    (found,) = composed(rows)
    parent = to_files(base, to_files(START))
    sides = [to_files(PredecoderDSL.model_validate(config), parent) for config in (left, right)]
    merged = {name: _merge(tmp_path, sides[0][name], parent[name], sides[1][name]) for name in parent}
    assert from_files(merged) == found.dsl
    assert found.dsl.gnn is not None
    assert found.dsl.gnn.edge_features == ["syndrome_bit", "round_idx"]


def _merge(folder: Path, ours: bytes, base: bytes, theirs: bytes) -> bytes:
    for name, content in (("ours", ours), ("base", base), ("theirs", theirs)):
        (folder / name).write_bytes(content)
    names = [str(folder / name) for name in ("ours", "base", "theirs")]
    return subprocess.run(["git", "merge-file", "-p", *names], check=True, capture_output=True).stdout


def test_evolution_composes_mutates_and_crosses():
    rows = family()
    found = [Evolution().propose(context(rows, seed=seed)) for seed in range(16)]
    pure = [proposal for proposal in found if proposal.compose_mode == "pure"]
    assert pure
    assert all(sorted(proposal.fork_from) == ["exp/2", "exp/3"] for proposal in pure)
    others = [proposal for proposal in found if proposal.compose_mode is None]
    kinds = {proposal.rationale.split()[0] for proposal in others}
    assert kinds == {"mutation", "crossover"}
    for proposal in others:
        first = proposal.origin["parents"][0]
        assert proposal.fork_from == f"exp/{first}"
        assert first != 4  # the worst half has no children


def test_a_branch_that_is_gone_is_not_forked_from():
    rows = family()
    given = context(rows)
    bare = RoundContext(**{**given.__dict__, "branches": given.branches[:1]})
    for seed in range(6):
        proposal = Evolution().propose(RoundContext(**{**bare.__dict__, "seed": seed}))
        assert proposal.fork_from == BASELINE
