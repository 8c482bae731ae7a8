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
from autoqec.runner.bits import packed
from autoqec.runner.data import Batch, FaultSampler
from autoqec.runner.first_look import EASY_KEPT, FirstLook, beliefs_of, fitted_look, look_for
from autoqec.runner.gap import MatchingPairs
from autoqec.runner.hard_shots import HardShots
from autoqec.runner.mining import SETTLED, OwnStart
from autoqec.runner.objective import GapObjective

P, SHOTS = 0.01, 20_000


@lru_cache
def scene(p: float = P, iterations: int = 2) -> tuple[DecodingProblem, ProblemPredecoder, MatchingPairs]:
    problem = load_env("surface_d3_depol").problem(p)
    dsl = PredecoderDSL.model_validate(
        {"type": "neural_bp", "output_mode": "soft_priors", "neural_bp": {"iterations": iterations}}
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
        batch = shots.buffer.take(rows := shots.pick(64, step))
        weights = module.backend_weights(batch.syndrome, batch.given).detach()
        for on_device, on_host in zip(packed_shots(batch), shots.buffer.packed(rows), strict=True):
            assert np.array_equal(on_device, on_host), "host and device hold the same shots"
        own = np.ascontiguousarray(weights.numpy())
        leads = torch.from_numpy(pairs.leads(*packed_shots(batch), own))
        expected = (F.softplus(-leads) * batch.weight).sum() / 64
        assert abs(loss - float(expected)) < 1e-3 * float(expected)


@lru_cache
def looked() -> tuple[FirstLook, FaultSampler, OwnStart]:
    problem, module, pairs = scene(0.005, 6)
    start, sampler = OwnStart(module, pairs), FaultSampler([problem], "cpu", with_faults=False)
    drawn = sampler.sample(SHOTS, 5)
    look = fitted_look(module, problem.graph, drawn, start.unsettled(*packed_shots(drawn)))
    assert look is not None
    return look, sampler, start


def packed_shots(drawn: Batch) -> tuple[np.ndarray, np.ndarray]:
    return packed(drawn.syndrome), packed(drawn.observables)


def test_a_first_look_hands_on_few_shots_and_almost_all_that_are_hard() -> None:
    look, sampler, start = looked()
    drawn = sampler.sample(SHOTS, 6)
    chances, leads = look(drawn).numpy(), start.leads(*packed_shots(drawn))
    assert set(np.unique(chances)) == {np.float32(EASY_KEPT), np.float32(1)}
    near = chances == 1
    assert near.mean() < 0.15
    assert near[leads < SETTLED].mean() > 0.97
    assert near[leads < 0].mean() > 0.99
    assert (leads < 0).sum() > 100


def test_with_a_look_the_weighted_mean_is_that_of_all_shots() -> None:
    """Of shots that count: not settled by the model, or open under plain weights. Within 5 standard errors: a false alarm in 1.7e6."""
    _, _, pairs = scene(0.005, 6)
    look, sampler, start = looked()
    seeds, draw = range(40, 44), 8_000
    drawn = [sampler.sample(draw, seed) for seed in seeds]
    chances = np.concatenate([look(part).numpy() for part in drawn])
    everything = [packed_shots(part) for part in drawn]
    leads = np.concatenate([start.leads(*shots) for shots in everything])
    is_open = np.concatenate([pairs.is_hard(*shots) for shots in everything])
    events = np.concatenate([unpack(shots[0], pairs.n_checks).sum(axis=1) for shots in everything])
    counts = is_open | (leads < SETTLED)
    kept_with = np.where(leads < SETTLED, chances, EASY_KEPT)
    shots = HardShots(sampler, lambda k: 40 + k, start, size=10**6, draw=draw, fill=draw, fills=4, look=look)
    rows = np.arange(len(shots.buffer))
    kept, weight = shots.buffer.packed(rows), shots.buffer.weight.numpy()
    kept_leads, kept_events = start.leads(*kept), unpack(kept[0], pairs.n_checks).sum(axis=1)
    assert len(rows) < 0.25 * counts.sum()
    for of_all, of_kept in (
        (np.ones(len(leads)), np.ones(len(rows))),
        (events, kept_events),
        (np.logaddexp(0, -leads), np.logaddexp(0, -kept_leads)),
        (leads < SETTLED, kept_leads < SETTLED),
        ((leads >= SETTLED) * events, (kept_leads >= SETTLED) * kept_events),
    ):
        expected = (counts * of_all).sum()
        found = (weight * of_kept).sum()
        error = np.sqrt((counts * (1 / kept_with - 1) * of_all**2).sum())
        assert abs(found - expected) <= 5 * error + 1e-6 * expected


def test_draws_with_a_look_are_a_function_of_the_step() -> None:
    look, sampler, start = looked()

    def made() -> HardShots:
        return HardShots(sampler, lambda k: k, start, size=200, draw=1_000, fill=2_000, look=look)

    walked, resumed = made(), made()
    for step in range(12):
        walked.refresh(step)
    resumed.resume(12)
    everything = np.arange(200)
    assert all(
        np.array_equal(a, b)
        for a, b in zip(walked.buffer.packed(everything), resumed.buffer.packed(everything), strict=True)
    )
    assert torch.equal(walked.buffer.weight, resumed.buffer.weight)


def test_no_look_where_it_cannot_tell_or_does_not_pay() -> None:
    problem, module, pairs = scene(0.005, 6)
    _, sampler, start = looked()
    drawn = sampler.sample(2_000, 5)
    dsl = PredecoderDSL.model_validate(
        {"type": "gnn", "output_mode": "soft_priors", "gnn": {"layers": 1, "hidden_dim": 4}}
    )
    is_hard = start.unsettled(*packed_shots(drawn))
    assert fitted_look(compile_predecoder(dsl, problem), problem.graph, drawn, is_hard) is None
    at_random = np.random.default_rng(1).random(len(drawn)) < 0.1
    assert fitted_look(module, problem.graph, drawn, at_random) is None
    assert fitted_look(module, problem.graph, drawn, np.zeros(len(drawn), dtype=bool)) is None
    assert look_for(module, pairs, sampler, 5, start.unsettled, either_way=False) is None, "not on a CPU"


def test_the_buffer_keeps_the_mix_of_p() -> None:
    """A draw comes p by p, and every step takes a part of it: that part must be one of all p."""
    env = load_env("surface_d3_depol")
    problems = [env.problem(p) for p in (0.001, 0.005, 0.01)]
    shares = (0.15, 0.7, 0.15)
    sampler = FaultSampler(problems, "cpu", shares=shares)

    def every(detectors: np.ndarray, *_: object) -> np.ndarray:
        return np.ones(len(detectors), dtype=bool)

    shots = HardShots(sampler, lambda k: k, every, size=2_000, draw=1_000, fill=2_000)
    for step in range(20):
        shots.refresh(step)
    found = np.bincount(shots.buffer.take(np.arange(2_000)).which.numpy(), minlength=3) / 2_000
    assert np.abs(found - shares).max() < 5 * np.sqrt(0.25 / 2_000)


def test_a_first_look_at_a_hybrid_leaves_its_network_out() -> None:
    problem = load_env("surface_d3_depol").problem(0.01)
    config = {
        "type": "hybrid",
        "output_mode": "soft_priors",
        "neural_bp": {"iterations": 2},
        "gnn": {"layers": 1},
    }
    module = compile_predecoder(PredecoderDSL.model_validate(config), problem)
    with torch.no_grad():
        for number in module.net.parameters():
            number += 0.1
    syndrome = FaultSampler([problem], "cpu").sample(50, 1).syndrome
    found, whole = beliefs_of(module)(syndrome), module.edge_log_odds(syndrome, {})
    assert not torch.allclose(found, whole)
    with torch.no_grad():
        for number in module.net.parameters():
            number += 0.5
    assert torch.equal(beliefs_of(module)(syndrome), found)
