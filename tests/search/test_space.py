"""The search space: every point is a config, every config of the space is a point, and environments differ."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import get_args

import numpy as np
import pytest
import scipy.sparse as sp

from autoqec.decoders import dsl_schema
from autoqec.decoders.compiler import compile_predecoder
from autoqec.decoders.dsl_schema import PredecoderDSL, canonical_dict, canonical_hash
from autoqec.envs.load import load_env
from autoqec.search.earlier_rounds import examples
from autoqec.search.parameters import RUNGS
from autoqec.search.proposal import EnvFacts
from autoqec.search.space import Space
from tests.decoders.both_halves import with_both_halves

BOTH = "both halves of the syndrome"
ENVS = {"surface_d3_depol": 0.01, "bb72_capacity": 0.03, "steane_custom_dem": None, BOTH: None}


@cache
def facts(name: str, profile: str = "dev") -> EnvFacts:
    env = with_both_halves() if name == BOTH else load_env(name)
    p = ENVS[name] or env.spec.noise.p[0]
    return EnvFacts(env.spec, p, profile, env.problem(p))


def points(space: Space, count: int, seed: int = 0) -> list[dict]:
    rng = np.random.default_rng(seed)
    return [space.sample(rng) for _ in range(count)]


@pytest.mark.parametrize("profile", ["dev", "prod"])
@pytest.mark.parametrize("name", ENVS)
def test_samples_mutants_and_crossings_are_points_with_a_config_of_their_own(name, profile):
    space = Space(facts(name, profile))
    rng = np.random.default_rng(1)
    found = points(space, 60)
    found += [space.mutate(flat, rng, steps=3) for flat in found]
    found += [space.crossover(a, b, rng) for a, b in zip(found, reversed(found), strict=True)]
    for flat in found:
        dsl = space.decode(flat)
        assert space.encode(dsl) == flat
        assert space.holds(dsl)
        assert (dsl.tier, dsl.training.profile) == ("1", profile)
    assert len({canonical_hash(space.decode(flat)) for flat in found}) == len({str(flat) for flat in found})


def test_neighbours_differ_from_a_point_in_one_choice():
    space = Space(facts("surface_d3_depol"))
    for flat in points(space, 20):
        near = space.neighbours(flat)
        assert all(space.encode(space.decode(other)) == other for other in near)
        assert flat not in near
        grids = {p.name: p.domain.values for p in space.parameters}
        for other in near:
            kept = [name for name in flat if name in other and other[name] != flat[name]]
            assert len(kept) == 1
            values = grids[kept[0]]
            if isinstance(values[0], int | float) and not isinstance(values[0], bool):
                assert abs(values.index(flat[kept[0]]) - values.index(other[kept[0]])) == 1


def test_every_option_of_the_dsl_is_in_the_space():
    seen: dict[str, set] = {}
    seen_of_turbo: set = set()
    for name in ENVS:
        for flat in points(Space(facts(name)), 300):
            dsl = Space(facts(name)).decode(flat)
            for block, values in canonical_dict(dsl).items():
                for option, value in values.items() if isinstance(values, dict) else [("", values)]:
                    if isinstance(value, dict):
                        seen_of_turbo.update(value.items())
                        continue
                    chosen = value if isinstance(value, list) else [value]
                    seen.setdefault(f"{block}.{option}".strip("."), set()).update(chosen)
    wanted = {
        "type": dsl_schema.NetworkType,  # a cascade is stacked of two rounds
        "output_mode": dsl_schema.OutputMode,
        "gnn.message_fn": dsl_schema.MessageFn,
        "gnn.aggregation": dsl_schema.Aggregation,
        "gnn.normalization": dsl_schema.Normalization,
        "gnn.edge_features": dsl_schema.EdgeFeature,
        "gnn.neighbours": dsl_schema.Neighbours,
        "head": dsl_schema.Head,
        "training.loss": dsl_schema.Loss,
    }
    for option, literal in wanted.items():
        assert seen[option] == set(get_args(literal)), option
    assert seen["neural_bp.weight_sharing"] == {"none", "per_layer", "per_check", "neighbourhood"}
    for option in ("memory", "check_rule", "prior_mix", "attention_aug", "radius", "damping"):
        assert len(seen[f"neural_bp.{option}"]) > 1, option
    for option in dsl_schema.TurboSpec.model_fields:
        assert len([value for name, value in seen_of_turbo if name == option]) > 1, option


def test_turbo_propagation_is_proposed_where_both_halves_are_seen_and_first():
    assert [name for name, _ in examples(Space(facts(BOTH)))][:2] == ["turbo_legs_bb72", "turbo_untrained"]
    for name in ENVS:
        shares = [bool(flat.get("turbo")) for flat in points(Space(facts(name)), 100)]
        assert (sum(shares) > 20) == (name == BOTH)


def test_losses_follow_the_backend():
    def losses(name: str, mode: str) -> set[str]:
        space = Space(facts(name))
        dsls = [space.decode(flat) for flat in points(space, 300)]
        return {dsl.training.loss for dsl in dsls if dsl.output_mode == mode and dsl.training.epochs}

    assert losses("surface_d3_depol", "soft_priors") == {"backend_gap"}
    assert "backend_gap" not in losses("surface_d3_depol", "hard_flip")
    assert losses("bb72_capacity", "soft_priors") == {
        "bce",
        "focal",
        "weighted_bce",
        "backend_gap",
        "failures",
    }
    assert "failures" not in losses("bb72_capacity", "hard_flip")


def test_untrained_points_leave_out_what_has_no_effect_on_them():
    space = Space(facts("surface_d3_depol"))
    untrained = [flat for flat in points(space, 200) if not flat.get("trained", True)]
    assert untrained
    for flat in untrained:
        assert set(flat) <= {
            "type",
            "output_mode",
            "trained",
            "hard_flip.confidence",
            "neural_bp.iterations",
            "neural_bp.check_rule",
        }
        assert space.decode(flat).training.epochs == 0


def test_numbers_off_the_grid_go_to_the_nearest_and_foreign_options_are_outside():
    space = Space(facts("surface_d3_depol"))
    data = {"type": "neural_bp", "output_mode": "soft_priors", "neural_bp": {"iterations": 9}}
    dsl = PredecoderDSL.model_validate({**data, "training": {"loss": "backend_gap", "epochs": 4}})
    flat = space.encode(dsl)
    assert (flat["neural_bp.iterations"], flat["training.epochs"]) == (8, RUNGS[1])
    assert not space.holds(dsl)
    assert space.encode(PredecoderDSL.model_validate(data)) is None  # bce on soft priors in front of matching
    point = space.decode(flat)
    started = {**canonical_dict(point)["training"], "init_from": "f" * 64}
    assert space.holds(point)
    assert not space.holds(PredecoderDSL.model_validate({**canonical_dict(point), "training": started}))


@pytest.mark.parametrize(
    ("name", "first"), [("surface_d3_depol", "neural_bp_untrained"), ("bb72_capacity", "neural_bp_untrained")]
)
def test_examples_of_the_space_start_with_the_one_that_needs_no_training(name, first):
    found = dict(examples(Space(facts(name))))
    assert next(iter(found)) == first
    assert "hybrid_custom_message" not in found
    assert ("neural_bp_memory_bb72" in found) == (name == "bb72_capacity")
    assert "hybrid_gap_large" in dict(examples(Space(facts(name, "prod"))))


@pytest.mark.parametrize("name", ENVS)
def test_points_compile(name):
    env = facts(name)
    space = Space(env)
    for flat in points(space, 8, seed=3):
        assert compile_predecoder(space.decode(flat), env.problem).output_mode == flat["output_mode"]


def test_models_that_are_searched_by_failures_have_few_numbers():
    """A code of 72 faults may have numbers for each of them, BB72 under circuit noise may not."""
    large = facts("bb72_capacity")
    larger = replace(large, problem=replace(large.problem, h=sp.hstack([large.problem.h] * 31, format="csc")))

    def searched(env: EnvFacts) -> list:
        space = Space(env)
        found = [flat for flat in points(space, 6_000) if flat.get("loss_few") == "failures"]
        return [space.decode(flat).neural_bp for flat in found]

    assert any(block.prior_mix for block in searched(large))
    assert {(each.weight_sharing, each.memory, each.prior_mix) for each in searched(larger)} == {
        ("per_layer", "none", False)
    }
