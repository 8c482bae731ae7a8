"""Shots that the model at its start has not settled, and the weights of the easy ones among them."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import torch
from torch.nn import functional as F

from autoqec.decoders.compiler import compile_predecoder
from autoqec.decoders.dsl_schema import PredecoderDSL
from autoqec.decoders.modules.predecoders import ProblemPredecoder
from autoqec.envs.load import load_env
from autoqec.envs.packing import unpack
from autoqec.envs.problem import DecodingProblem
from autoqec.runner.data import FaultSampler
from autoqec.runner.gap import MatchingPairs
from autoqec.runner.hard_shots import HardShots
from autoqec.runner.mining import EASY_KEPT, SETTLED, OwnStart
from autoqec.runner.objective import GapObjective

P, SHOTS = 0.01, 20_000


@lru_cache
def scene() -> tuple[DecodingProblem, ProblemPredecoder, MatchingPairs]:
    problem = load_env("surface_d3_depol").problem(P)
    dsl = PredecoderDSL.model_validate(
        {"type": "neural_bp", "output_mode": "soft_priors", "neural_bp": {"iterations": 2}}
    )
    return problem, compile_predecoder(dsl, problem), MatchingPairs(problem, 1)


@lru_cache
def mined() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Weights, the model's own leads, and which shots plain weights leave open."""
    problem, module, pairs = scene()
    shots = load_env("surface_d3_depol").sampler(P).sample(SHOTS, 3)
    with torch.no_grad():
        own = module.backend_weights(torch.from_numpy(unpack(shots.detectors, problem.n_checks)).float(), {})
    leads = pairs.leads(shots.detectors, shots.observables, np.ascontiguousarray(own.numpy()))
    return OwnStart(module, pairs)(*shots), leads, pairs.is_hard(*shots)


def test_a_lead_is_negative_where_matching_fails() -> None:
    problem, _, pairs = scene()
    shots = load_env("surface_d3_depol").sampler(P).sample(2_000, 3)
    weights = np.log((1 - problem.graph.priors) / problem.graph.priors).astype(np.float32)
    plain = np.repeat(weights[None], 2_000, axis=0)
    found = pairs.leads(*shots, plain)
    from autoqec.decoders.backends import make_backend

    wrong = (make_backend(problem, "mwpm").decode(shots.detectors) != shots.observables).any(axis=1)
    settled = np.abs(found) > 1e-3
    assert ((found < 0) == wrong)[settled].all()
    assert wrong.sum() > 10


def test_every_open_shot_that_the_start_fails_or_has_not_settled_is_kept() -> None:
    weight, leads, is_open = mined()
    hard = is_open & (leads < SETTLED)
    assert (weight[hard] == 1).all()
    assert (weight[~is_open] == 0).all()
    assert (weight > 0).sum() < 0.8 * is_open.sum()


def test_easy_shots_stand_for_all_of_their_kind() -> None:
    """Their weights sum to their number; 5 standard deviations of a binomial count: a false alarm in 1.7e6."""
    weight, leads, is_open = mined()
    easy = is_open & (leads >= SETTLED)
    assert set(np.unique(weight[easy])) == {np.float32(0), np.float32(1 / EASY_KEPT)}
    count, total = int((weight[easy] > 0).sum()), int(easy.sum())
    assert abs(count - EASY_KEPT * total) < 5 * np.sqrt(EASY_KEPT * total)


def test_the_weights_reach_the_loss_and_survive_replacement() -> None:
    problem, module, pairs = scene()
    shots = HardShots(
        FaultSampler([problem], "cpu"), lambda k: k, OwnStart(module, pairs), size=300, draw=2_000, fill=2_000
    )
    assert set(shots.buffer.weight.unique().tolist()) == {1.0, np.float32(1 / EASY_KEPT).item()}
    objective = GapObjective(shots, 64, pairs)
    for step in range(3):
        loss = objective.step(module, step)
        batch = shots.buffer.take(shots.pick(64, step))
        weights = module.backend_weights(batch.syndrome, batch.given).detach()
        packed = (
            np.packbits(bits.numpy().astype(np.uint8), axis=1, bitorder="little")
            for bits in (batch.syndrome, batch.observables)
        )
        leads = torch.from_numpy(pairs.leads(*packed, np.ascontiguousarray(weights.numpy())))
        expected = (F.softplus(-leads) * batch.weight).sum() / 64
        assert abs(loss - float(expected)) < 1e-3 * float(expected)
