"""Matching with the environment's weights."""

from __future__ import annotations

import numpy as np
import pymatching
import stim

from autoqec.decoders.backends.matching import MatchingBackend
from autoqec.envs.load import load_env
from autoqec.envs.problem import log_odds


def test_faults_with_the_same_detectors_count_as_the_likelier_of_their_observables() -> None:
    """Distance 2: PyMatching by itself takes the observables that the model names first."""
    spec = load_env("surface_d3_depol").spec.model_dump(mode="json")
    spec["name"] = "d2"
    spec["code"]["source"] = "surface_code:rotated_memory_z?distance=2&rounds=2"
    env = load_env(spec)
    problem, shots = env.problem(0.01), env.sampler(0.01).sample(40_000, seed=3)
    assert problem.graph is not None
    assert problem.graph.conflicts

    def failed(predictions: np.ndarray) -> np.ndarray:
        return (predictions != shots.observables).any(axis=1)

    backend = MatchingBackend(problem)
    ours = backend.decode(shots.detectors)
    exact = backend.per_shot.decode(shots.detectors, log_odds(problem.graph.priors), threads=1)
    assert (ours != exact).any(axis=1).mean() < 0.001
    stock = pymatching.Matching.from_detector_error_model(stim.DetectorErrorModel(problem.dem))
    theirs = stock.decode_batch(shots.detectors, bit_packed_shots=True, bit_packed_predictions=True)
    only_theirs = int((failed(theirs) & ~failed(ours)).sum())
    only_ours = int((failed(ours) & ~failed(theirs)).sum())
    assert only_theirs - only_ours > 3 * (only_theirs + only_ours) ** 0.5
