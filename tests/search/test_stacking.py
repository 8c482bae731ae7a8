"""Two verified rounds as the stages of a cascade, and cascades wherever configs go."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from autoqec.decoders.dsl_schema import NeuralBpSpec, PredecoderDSL, canonical_dict
from autoqec.envs.load import load_env
from autoqec.runs.mechanisms import from_files, to_files
from autoqec.search import proposers
from autoqec.search.distance import distance, find_repeat
from autoqec.search.draft import describe, screen
from autoqec.search.evolution import make
from autoqec.search.feasibility import Estimate
from autoqec.search.optuna_tpe import STACK_SHARE
from autoqec.search.proposal import BASELINE, Branch, EnvFacts, RoundContext
from autoqec.search.space import Space
from autoqec.search.stacking import JOINT_LEGS, SHARES, SWEEP, Stack, stacks
from tests.decoders.both_halves import with_both_halves

START = PredecoderDSL(type="neural_bp", output_mode="soft_priors", neural_bp=NeuralBpSpec())
TRAINING = {"loss": "backend_gap", "epochs": 3, "learning_rate": 3e-3}
SMALL = {
    "type": "neural_bp",
    "output_mode": "soft_priors",
    "neural_bp": {"iterations": 4},
    "training": TRAINING,
}
LARGE = {
    "type": "hybrid",
    "output_mode": "soft_priors",
    "neural_bp": {"iterations": 8},
    "gnn": {"layers": 2, "hidden_dim": 8},
    "head": "mlp_small",
    "training": {**TRAINING, "epochs": 9},
}
WIDER = {**SMALL, "neural_bp": {"iterations": 4, "prior_mix": True}}


def row(number: int, config: dict[str, Any], delta: float, flops: int, **more: Any) -> dict[str, Any]:
    return {
        "round": number,
        "status": "ok",
        "verdict": "VERIFIED",
        "branch": f"exp/{number}",
        "fork_from": BASELINE,
        "fork_from_canonical": BASELINE,
        "dsl_config": canonical_dict(PredecoderDSL.model_validate(config)),
        "delta_ler": delta,
        "delta_ler_ci_low": delta - 0.001,
        "flops_per_syndrome": flops,
        "n_params": 100,
        "checkpoint_sha256": f"{number:064x}",
        **more,
    }


@pytest.fixture(scope="module")
def env() -> EnvFacts:
    found = load_env("surface_d3_depol")
    return EnvFacts(found.spec, 0.01, "dev", found.problem(0.01))


def context(env: EnvFacts, *rows: dict[str, Any]) -> RoundContext:
    branches = [Branch(BASELINE, (), canonical_dict(START))]
    branches += [Branch(each["branch"], (each["fork_from"],), each["dsl_config"]) for each in rows]
    return RoundContext(
        env=env, seed=0, round=9, rounds_planned=12, history=rows, branches=tuple(branches), memory_gb=8.0
    )


def pairs(known: RoundContext) -> list[Stack]:
    """Without the sweep behind the best round."""
    return [found for found in _found(known) if found.second is not None]


def _found(known: RoundContext) -> list[Stack]:
    return list(stacks(known))


def test_the_cheaper_round_comes_first_and_the_better_one_keeps_its_weights(env: EnvFacts) -> None:
    known = context(env, row(1, SMALL, 0.01, 100_000), row(2, LARGE, 0.02, 900_000))
    (found,) = pairs(known)
    assert (found.first.number, found.second.number) == (1, 2)
    assert found.fork_from == "exp/1"  # one is of another type: git would not merge them
    first, later = found.dsl.stages
    assert (first.neural_bp.iterations, first.epochs) == (4, 3)
    assert (later.epochs, found.dsl.training.init_from) == (0, f"{2:064x}")
    assert (later.type, later.gnn.layers, later.head) == ("hybrid", 2, "mlp_small")
    assert later.share == SHARES["mwpm"]
    costs = screen(found.dsl, known)
    assert isinstance(costs, Estimate)
    assert costs.flops_per_syndrome < 900_000


def test_a_graph_network_trains_behind_what_it_corrects(env: EnvFacts) -> None:
    network = {name: value for name, value in LARGE.items() if name != "neural_bp"} | {"type": "gnn"}
    known = context(env, row(1, SMALL, 0.01, 100_000), row(2, network, 0.02, 900_000))
    (found,) = pairs(known)
    first, later = found.dsl.stages
    assert (first.epochs, found.dsl.training.init_from) == (0, f"{1:064x}")
    assert (later.type, later.epochs) == ("gnn", 9)


def test_rounds_without_a_known_checkpoint_train_both_stages(env: EnvFacts) -> None:
    rows = row(1, SMALL, 0.01, 100_000), row(2, LARGE, 0.02, 900_000, checkpoint_sha256=None)
    known = context(env, *rows)
    (found,) = pairs(known)
    assert [stage.epochs for stage in found.dsl.stages] == [3, 9]
    assert found.dsl.training.init_from is None


def test_branches_that_merge_are_both_parents(env: EnvFacts) -> None:
    start = {**SMALL, "neural_bp": {"iterations": 8}}
    one = row(1, {**start, "neural_bp": {"iterations": 4}}, 0.01, 100_000)
    other = row(2, {**start, "neural_bp": {"iterations": 8, "prior_mix": True}}, 0.02, 900_000)
    known = context(env, one, other)
    merged = known.branches[0].__class__(BASELINE, (), canonical_dict(PredecoderDSL.model_validate(start)))
    known = RoundContext(**{**known.__dict__, "branches": (merged, *known.branches[1:])})
    (found,) = pairs(known)
    assert found.fork_from == ["exp/1", "exp/2"]
    assert found.dsl.stages[1].neural_bp.prior_mix


def test_only_verified_rounds_are_stacked(env: EnvFacts) -> None:
    for change in ({"verdict": "candidate"}, {"flops_per_syndrome": 50_000}, {"delta_ler": 0.005}):
        known = context(env, row(1, SMALL, 0.01, 100_000), row(2, LARGE, 0.02, 900_000) | change)
        assert pairs(known) == []


def test_a_sweep_decides_what_the_best_round_is_least_sure_of(env: EnvFacts) -> None:
    known = context(env, row(1, LARGE, 0.02, 900_000), row(2, SMALL, 0.01, 100_000))
    found = _found(known)[0]
    assert (found.first.number, found.second, found.fork_from) == (1, None, "exp/1")
    first, last = found.dsl.stages
    assert (first.type, first.gnn.layers, found.dsl.training.epochs) == ("hybrid", 2, 0)
    assert found.dsl.training.init_from == f"{1:064x}"
    assert (last.type, last.states, last.share) == tuple(SWEEP.values())
    assert isinstance(screen(found.dsl, known), Estimate)
    hard = {**SMALL, "output_mode": "hard_flip"}
    for other in (row(1, hard, 0.02, 100), row(1, SMALL, 0.02, 100, checkpoint_sha256=None)):
        assert _found(context(env, other)) == []


def test_a_sweep_goes_behind_a_cascade_as_well(env: EnvFacts) -> None:
    stages = [
        {"type": "neural_bp", "neural_bp": {"iterations": 2}},
        {"type": "hybrid", "neural_bp": {"iterations": 8}, "gnn": {"layers": 2, "hidden_dim": 8}, "share": 0.04, "epochs": 3},
    ]  # fmt: skip
    cascade = {"type": "cascade", "output_mode": "soft_priors", "stages": stages, "training": TRAINING}
    known = context(env, row(1, SMALL, 0.01, 100_000), row(2, cascade, 0.02, 90_000))
    found = _found(known)[0]
    assert (found.first.number, found.second) == (2, None)
    assert [stage.type for stage in found.dsl.stages] == ["neural_bp", "hybrid", "sweep"]
    assert [stage.epochs for stage in found.dsl.stages[:2]] == [0, 0]
    assert found.dsl.stages[2].share == 0.02, "fewer than reach the stage before"
    assert found.dsl.training.init_from == f"{2:064x}"
    assert isinstance(screen(found.dsl, known), Estimate)
    done = row(3, canonical_dict(found.dsl), 0.03, 80_000)
    again = _found(context(env, *known.history, done))
    assert [each.dsl for each in again if each.second is None] == [found.dsl], "no sweep behind a sweep"


def test_joint_legs_decide_what_the_best_round_is_least_sure_of_behind_ordered_statistics() -> None:
    both = with_both_halves()
    env = EnvFacts(both.spec, 0.02, "dev", both.problem(0.02))
    turbo = {**SMALL, "neural_bp": {"iterations": 4, "turbo": {}}}
    found = _found(known := context(env, row(1, turbo, 0.01, 100_000)))[0]
    assert (found.first.number, found.second) == (1, None)
    last = found.dsl.stages[-1]
    assert (last.type, last.legs, last.takes, last.share) == tuple(JOINT_LEGS.values())
    assert isinstance(screen(found.dsl, known), Estimate)
    half = with_both_halves("observable")
    assert (
        _found(context(replace(env, spec=half.spec, problem=half.problem(0.02)), row(1, SMALL, 0.01, 100)))
        == []
    )


def test_optuna_proposes_them_now_and_then(env: EnvFacts) -> None:
    rows = [
        row(n, {**SMALL, "neural_bp": {"iterations": 3 + n}}, 0.01 + n / 1000, 100_000 + n)
        for n in range(1, 4)
    ]
    known = context(env, *rows, row(4, LARGE, 0.02, 900_000))
    proposer = proposers.make("optuna")
    chosen = [seed for seed in range(20) if np.random.default_rng([seed, 1]).random() < STACK_SHARE]
    assert 0 < len(chosen) < 10
    found = proposer.propose(replace(known, seed=chosen[0]))
    assert found.dsl.stages[-1].type == "sweep"
    assert (found.origin["proposer"], found.origin["parents"]) == ("optuna", [4])
    few = replace(known, seed=chosen[0], history=known.history[1:])
    assert proposer.propose(few).dsl.stages is None, "not before there are some results"


def test_evolution_proposes_them(env: EnvFacts) -> None:
    rows = [
        row(n, {**SMALL, "neural_bp": {"iterations": 3 + n}}, 0.01 + n / 1000, 100_000 + n)
        for n in range(1, 4)
    ]
    known = context(env, *rows, row(4, LARGE, 0.02, 900_000))
    proposed = [make().propose(replace(known, seed=seed)) for seed in range(12)]
    cascades = [each for each in proposed if each.dsl.stages is not None]
    assert 0 < len(cascades) < 12
    assert {(each.fork_from, *each.origin["parents"]) for each in cascades} == {("exp/4", 4)}
    assert "a sweep over the detectors" in cascades[0].hypothesis
    tried = known.history + (
        {**row(5, SMALL, 0.03, 5), "verdict": "ignore", "dsl_config": cascades[0].dsl_config},
    )
    (pair,) = {
        tuple(each.origin["parents"])
        for seed in range(12)
        if (each := make().propose(replace(known, seed=seed, history=tried))).dsl.stages is not None
    }
    assert pair[1] == 4


def test_a_config_is_told_in_a_few_words() -> None:
    turbo = {"exchanges": 8, "context_iterations": 2, "legs": 16, "leg_exchanges": 13, "solutions": 3}
    data = {"type": "neural_bp", "output_mode": "soft_priors", "neural_bp": {"iterations": 4, "turbo": turbo}}
    told = describe(PredecoderDSL.model_validate({**data, "training": {"epochs": 0}}))
    assert told == "neural_bp, 4 sum_product iterations, turbo with 8 exchanges and 16 legs, untrained"


def test_a_sweep_is_not_proposed_in_front_of_other_backends() -> None:
    code = load_env("bb72_capacity")
    env = EnvFacts(code.spec, 0.03, "dev", code.problem(0.03))
    assert (
        _found(context(env, row(1, {**SMALL, "training": {**TRAINING, "loss": "bce"}}, 0.02, 100_000))) == []
    )


def test_a_cascade_goes_wherever_configs_go(env: EnvFacts) -> None:
    data = {
        "type": "cascade",
        "output_mode": "soft_priors",
        "stages": [
            {"type": "neural_bp", "neural_bp": {"iterations": 4}},
            {"type": "gnn", "gnn": {"layers": 2, "hidden_dim": 8}, "share": 0.02},
        ],
        "training": TRAINING,
    }
    dsl = PredecoderDSL.model_validate(data)
    assert from_files(to_files(dsl)) == dsl
    assert from_files(to_files(dsl, to_files(START))) == dsl
    assert "neural_bp (4 sum_product iterations) then gnn (2x8 mlp)" in describe(dsl)
    data["stages"][1]["share"] = 0.04
    other = PredecoderDSL.model_validate(data)
    assert 0 < distance(dsl, other) < 0.1
    assert distance(dsl, START) == 1.0
    assert Space(env).encode(dsl) is None
    earlier = [{"round": 3, "status": "ok", "dsl_config": canonical_dict(dsl)}]
    assert find_repeat(canonical_dict(dsl), earlier) == "the same config as round 3"
