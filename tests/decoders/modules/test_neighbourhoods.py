"""Colour refinement: the classes are those of the definition, and their names depend on nothing but the surroundings."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from autoqec.decoders.compiler import compile_predecoder
from autoqec.decoders.dsl_schema import PredecoderDSL
from autoqec.decoders.modules.neighbourhoods import Colours, levels, refined
from autoqec.decoders.modules.sharing import class_names
from autoqec.envs.halves import context_half
from autoqec.envs.load import load_env
from autoqec.envs.problem import CheckMatrix, flip_rates
from tests.decoders.both_halves import with_both_halves


def ends(problem: CheckMatrix) -> tuple[np.ndarray, np.ndarray]:
    entries = problem.h.tocoo()
    return entries.row.astype(np.int64), entries.col.astype(np.int64)


def colours(problem: CheckMatrix, radius: int) -> Colours:
    return refined(*ends(problem), problem.h.shape, levels(problem.rates), radius)


def spelled_out(problem: CheckMatrix, radius: int) -> tuple[list, list]:
    """The definition, with what was seen instead of hashes of it."""
    check, fault = ends(problem)
    checks = [()] * problem.n_checks
    faults = [(int(level),) for level in levels(problem.rates)]
    for _ in range(radius):
        seen = [Counter() for _ in checks], [Counter() for _ in faults]
        for c, f in zip(check, fault, strict=True):
            seen[0][c][faults[f]] += 1
            seen[1][f][checks[c]] += 1
        checks = [(own, frozenset(near.items())) for own, near in zip(checks, seen[0], strict=True)]
        faults = [(own, frozenset(near.items())) for own, near in zip(faults, seen[1], strict=True)]
    return checks, faults


def partition(of: list | np.ndarray) -> list[int]:
    """Every member by the first that is like it."""
    first: dict = {}
    return [first.setdefault(one, at) for at, one in enumerate(of)]


@pytest.mark.parametrize("radius", [0, 1, 2, 3])
@pytest.mark.parametrize("name", ["surface_d3_depol", "steane_custom_dem"])
def test_classes_are_those_of_the_definition(name: str, radius: int) -> None:
    env = load_env(name)
    problem = env.problem(env.spec.noise.p[0])
    found, wanted = colours(problem, radius), spelled_out(problem, radius)
    assert partition(found.checks.tolist()) == partition(wanted[0])
    assert partition(found.faults.tolist()) == partition(wanted[1])


def test_numbering_does_not_matter() -> None:
    problem = load_env("surface_d3_depol").problem(0.01)
    rng = np.random.default_rng(0)
    new_check, new_fault = (rng.permutation(n) for n in problem.h.shape)
    check, fault = ends(problem)
    mixed = rng.permutation(len(check))
    first = np.empty(problem.n_faults, dtype=np.int64)
    first[new_fault] = levels(problem.rates)
    found = refined(new_check[check[mixed]], new_fault[fault[mixed]], problem.h.shape, first, 3)
    wanted = colours(problem, 3)
    assert (found.checks[new_check] == wanted.checks).all()
    assert (found.faults[new_fault] == wanted.faults).all()


def chain(length: int, radius: int) -> Colours:
    """A repetition code: check i between bits i and i + 1, all equally likely."""
    check = np.repeat(np.arange(length - 1), 2)
    fault = check + np.tile([0, 1], length - 1)
    return refined(check, fault, (length - 1, length), np.ones(length, dtype=np.int64), radius)


def test_a_longer_chain_has_the_same_names_near_its_ends_and_in_its_bulk() -> None:
    for radius in range(5):
        short, long = chain(15, radius), chain(40, radius)
        assert set(short.faults.tolist()) == set(long.faults.tolist())
        assert set(short.checks.tolist()) == set(long.checks.tolist())
        assert len(set(long.faults.tolist())) == radius // 2 + 1 + (radius % 2)
    assert set(chain(15, 2).faults.tolist()).isdisjoint(chain(15, 3).faults.tolist())


def test_on_bb72_all_translations_of_a_fault_are_alike() -> None:
    problem = load_env("bb72_depol").problem(0.003)
    assert problem.joint is not None
    for half in (problem, context_half(problem.joint)):
        for radius in (1, 3):
            _, sizes = np.unique(colours(half, radius).faults, return_counts=True)
            assert (sizes % 36 == 0).all()
            assert 8 < len(sizes) <= half.n_faults // 36


def test_levels_tell_multiples_apart_and_forgive_corrections_of_second_order() -> None:
    multiples = np.arange(1, 10) / 15
    assert len(set(levels(multiples).tolist())) == 9
    for p in (1e-4, 1e-3, 1e-2):
        # n faults of p / 15 with one symptom, merged
        merged = np.array([(1 - (1 - 2 * p / 15) ** n) / 2 for n in range(1, 60)])
        assert (levels(flip_rates(merged, p)) == levels(np.arange(1, 60) / 15)).all()
    assert (np.diff(levels(np.geomspace(1e-6, 1e3, 500))) >= 0).all()


CONFIG = {
    "type": "neural_bp",
    "output_mode": "soft_priors",
    "neural_bp": {
        "iterations": 2,
        "weight_sharing": "neighbourhood",
        "prior_mix": True,
        "memory": "learnable",
    },
}


@pytest.mark.parametrize("name", ["surface_d3_depol", "surface_d5_leakage", "bb72_capacity"])
def test_a_model_has_the_same_classes_at_every_p(name: str) -> None:
    """Otherwise a checkpoint would fit at one p of the sweep only."""
    env = load_env(name)
    dsl = PredecoderDSL.model_validate(CONFIG)
    found = [class_names(compile_predecoder(dsl, env.problem(p))) for p in env.spec.noise.p]
    assert found[0].keys() == {"bp.weight", "bp.memory", "mix.posterior", "mix.prior"}
    assert all(names == found[0] for names in found)
    assert class_names(compile_predecoder(dsl, env.built_problem(env.spec.noise.p[-1]))) == found[0]


def test_both_halves_have_classes_of_their_own() -> None:
    spec = {"iterations": 2, "weight_sharing": "neighbourhood", "turbo": {}}
    dsl = PredecoderDSL.model_validate({**CONFIG, "neural_bp": spec})
    module = compile_predecoder(dsl, with_both_halves().problem(0.02))
    names = class_names(module)
    assert names.keys() == {"bp.own.weight", "bp.context.weight"}
    state = module.state_dict()
    assert all(state[name].shape[-1] == len(set(classes)) for name, classes in names.items())
