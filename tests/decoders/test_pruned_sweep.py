"""The sweep that keeps the likeliest patterns: against all sets of faults, against the best decoder, and where it is refused."""

from __future__ import annotations

import numpy as np
import pytest
import stim

from autoqec.decoders.baselines.registry import DecoderChoice, choose, unavailable
from autoqec.decoders.detector_sweep import DetectorSweep
from autoqec.decoders.maximum_likelihood import outcome_probabilities
from autoqec.decoders.pruned_sweep import OPERATIONS, PrunedSweep
from autoqec.envs.build import problem_from_dem
from autoqec.envs.load import load_env
from autoqec.envs.packing import pack, unpack
from autoqec.envs.problem import DecodingProblem
from autoqec.errors import InputError


def all_syndromes(problem: DecodingProblem) -> np.ndarray:
    return ((np.arange(1 << problem.n_checks)[:, None] >> np.arange(problem.n_checks)) & 1).astype(np.uint8)


def random_model(seed: int, detectors: int, observables: int) -> DecodingProblem:
    rng = np.random.default_rng(seed)
    lines = [f"error(0.01) D{d} D{(d + 1) % detectors}" for d in range(detectors)]
    for _ in range(3 * detectors):
        flipped = [f"D{d}" for d in np.flatnonzero(rng.random(detectors) < 2 / detectors)]
        flipped += [f"L{o}" for o in np.flatnonzero(rng.random(observables) < 0.3)]
        if flipped:
            lines.append(f"error({rng.uniform(0.001, 0.6):.4f}) {' '.join(flipped)}")
    lines.append(f"logical_observable L{observables - 1}")
    return problem_from_dem(stim.DetectorErrorModel("\n".join(lines)), need_graph=False)


@pytest.mark.parametrize(("seed", "detectors", "observables"), [(0, 6, 1), (1, 8, 2), (2, 7, 3)])
def test_with_room_for_all_patterns_it_is_the_best_decoder(seed, detectors, observables) -> None:
    problem = random_model(seed, detectors, observables)
    chances = outcome_probabilities(problem)
    found = PrunedSweep(problem, 1 << (detectors + observables)).decode_with_confidence(
        pack(all_syndromes(problem))
    )
    flips = unpack(found.predictions, observables).astype(np.int64) @ (1 << np.arange(observables))
    chosen = chances[flips, np.arange(chances.shape[1])]
    np.testing.assert_allclose(chosen, chances.max(axis=0), rtol=1e-9)
    odds = np.log(chosen) - np.log(chances.sum(axis=0) - chosen)
    np.testing.assert_allclose(found.log_odds, odds, rtol=1e-6, atol=1e-6)


def test_few_patterns_are_nearly_as_good_and_cost_less() -> None:
    env = load_env("surface_d3_depol")
    problem, shots = env.problem(0.01), env.sampler(0.01).sample(6_000, 3)
    exact = DetectorSweep(problem).probabilities(shots.detectors)

    def lost(states: int) -> float:
        """What the answers are worth less than the best ones, in failures that are expected."""
        flips = unpack(PrunedSweep(problem, states).decode(shots.detectors), 1)[:, 0]
        return float((exact.max(axis=1) - exact[np.arange(len(flips)), flips]).sum())

    best = exact.min(axis=1).sum()
    assert lost(1) > 0.5 * best
    assert lost(32) < 0.02 * best
    few, many = (PrunedSweep(problem, states).flops(shots.detectors[:50]) for states in (16, 128))
    assert OPERATIONS * problem.n_faults < few < many


def test_distance_5_is_decided_better_than_by_matching() -> None:
    env = load_env("surface_d5_depol")
    problem, shots = env.problem(0.01), env.sampler(0.01).sample(1_500, 5)
    failed = {
        name: (
            choose([name], (), where="here")[0].build(problem).decode(shots.detectors) != shots.observables
        ).any(axis=1)
        for name in ("sweep-32", "pymatching", "pymatching_correlated")
    }
    for other in ("pymatching", "pymatching_correlated"):
        better = int((failed[other] & ~failed["sweep-32"]).sum())
        worse = int((failed["sweep-32"] & ~failed[other]).sum())
        assert better - worse > 2 * (better + worse) ** 0.5


def test_what_no_fault_explains_is_left_alone() -> None:
    model = stim.DetectorErrorModel("error(0.1) D0 L0\nerror(0.2) D0 D1\ndetector D2\nerror(0.3) L0")
    problem = problem_from_dem(model, need_graph=False)
    impossible = pack(np.array([[0, 0, 1]], dtype=np.uint8))
    found = PrunedSweep(problem).decode_with_confidence(impossible)
    assert not found.predictions.any()
    assert found.log_odds[0] == 0.0
    # The observable flips in 0.3 of all shots whatever the detectors say.
    quiet = PrunedSweep(problem).decode_with_confidence(impossible * 0)
    assert quiet.log_odds[0] == pytest.approx(np.log(0.7 / 0.3), rel=1e-6)


def test_what_it_cannot_sweep_is_refused() -> None:
    wide = load_env("bb72_capacity").problem(0.03)
    with pytest.raises(InputError, match="has 12 observables, and a sweep takes at most 10"):
        PrunedSweep(wide)
    narrow = load_env("surface_d3_depol").problem(0.01)
    for states in (0, 10**10):
        with pytest.raises(InputError, match="keeps between 1 and 65536 patterns"):
            DecoderChoice("sweep", states).build(narrow)
    half = load_env("bb72_depol").problem(0.003)
    assert "one half of the syndrome" in str(unavailable(DecoderChoice("sweep", 64), half))


def test_a_name_without_a_number_has_the_usual_one() -> None:
    assert [one.name for one in choose(["sweep", "sweep-8"], (0, 10), where="here")] == [
        "sweep-64",
        "sweep-8",
    ]
