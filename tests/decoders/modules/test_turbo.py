"""Turbo propagation against enumeration, against one half alone, and the compiled path against the plain one."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
import stim
import torch

from autoqec.decoders.backends.osd import OsdBackend
from autoqec.decoders.compiler import compile_predecoder, context
from autoqec.decoders.dsl_schema import NeuralBpSpec, PredecoderDSL
from autoqec.decoders.export import to_onnx
from autoqec.decoders.flop_census import count_call, reference_path
from autoqec.decoders.modules.cascade import EARLIER_PRIORS
from autoqec.decoders.modules.exchange import exchanges
from autoqec.decoders.modules.neural_bp import LearnedBP
from autoqec.decoders.modules.structure import TannerLinks
from autoqec.decoders.modules.turbo import DAMPING, TurboBP
from autoqec.envs.build import problem_from_dem
from autoqec.envs.halves import context_half, with_context
from autoqec.envs.problem import DecodingProblem, log_odds
from autoqec.errors import InputError, UnavailableError
from tests.decoders.both_halves import with_both_halves

TREE = """
    error(0.10) D0 L0
    error(0.04) D0
    error(0.07) D0 D1
    error(0.05) D1
    error(0.12) D1 D2
    error(0.03) D2
"""
"""D0 is the backend's detector; no circle leads from it through the others and back."""


def split(model: str, seen: list[bool]) -> DecodingProblem:
    joint = problem_from_dem(stim.DetectorErrorModel(model), need_graph=False)
    return with_context(joint, np.array(seen))


def config(**turbo: Any) -> dict[str, Any]:
    return {
        "type": "neural_bp",
        "output_mode": "soft_priors",
        "neural_bp": {"iterations": 3, "turbo": turbo},
    }


def shots_of(problem: DecodingProblem, count: int, seed: int = 0) -> torch.Tensor:
    model, rng = problem.sampled, np.random.default_rng(seed)
    faults = rng.random((model.n_faults, count)) < model.priors[:, None]
    return torch.from_numpy((model.h.astype(np.int32) @ faults.astype(np.int32)).T % 2).float()


def enumerated(problem: DecodingProblem, syndrome: torch.Tensor) -> np.ndarray:
    """P(fault of the backend's half | whole syndrome), summed over all sets of joint faults: [shots, n_faults]."""
    joint = problem.joint
    assert joint is not None
    sets = np.array(list(itertools.product([0, 1], repeat=joint.n_faults)))
    weight = np.where(sets, joint.priors, 1 - joint.priors).prod(axis=1)
    symptoms = sets @ joint.h.toarray().T.astype(int) % 2
    shown = np.zeros((joint.n_faults, problem.n_faults), dtype=int)
    for fault, place in enumerate(joint.fault_of):
        if place >= 0:
            shown[fault, place] = 1
    classes = sets @ shown % 2
    out = []
    for row in syndrome.numpy().astype(int):
        fits = weight * (symptoms == row).all(axis=1)
        out.append(fits @ classes / fits.sum())
    return np.array(out)


def test_on_a_tree_it_finds_the_exact_marginals():
    problem = split(TREE, [True, False, False])
    module = compile_predecoder(PredecoderDSL.model_validate(config(exchanges=4)), problem)
    assert isinstance(module.bp, TurboBP)
    with torch.no_grad():
        module.bp.scale.fill_(1.0)
        module.bp.damping.fill_(0.0)
    syndrome = torch.tensor(list(itertools.product([0.0, 1.0], repeat=3)))
    with (
        torch.no_grad()
    ):  # all exchanges, as in training: stopping early would leave some of the evidence out
        beliefs = module.train().bp._attempt(None, syndrome.T, _odds(module, problem), stops=False).answer
    found = torch.sigmoid(-beliefs).T.numpy()
    assert np.allclose(found, enumerated(problem, syndrome), atol=2e-5)


def _odds(module: Any, problem: DecodingProblem) -> Any:
    from autoqec.decoders.modules.turbo import _Given

    rows = context(problem)["joint_p"][None]
    return _Given(*(each.odds(rows) for each in (module.bp.to_own, module.bp.to_context)))


def test_an_exchange_is_bayes_rule_on_each_class():
    """One class speaks, all others are silent: its faults have their exact posteriors, and so have the classes that listen."""
    problem = with_both_halves().problem(0.02)
    assert problem.joint is not None
    to_own, _ = exchanges(problem)
    odds = to_own.odds(context(problem)["joint_p"][None])
    half = context_half(problem.joint)
    priors, own = problem.joint.priors, problem.joint.fault_of
    for loud in (0, 5, half.n_faults - 1):
        evidence = torch.zeros(half.n_faults, 2)
        evidence[loud] = torch.tensor([-3.0, 6.0])
        with torch.no_grad():
            found = torch.sigmoid(-to_own(evidence, torch.tensor(1.0), odds)).numpy()
        members = np.flatnonzero(half.class_of == loud)
        for shot, log_ratio in enumerate((-3.0, 6.0)):
            q = priors.copy()
            for f in members:
                even = np.prod([1 - 2 * priors[g] for g in members if g != f])  # even less odd, of the others
                odd_others = (1 - even) / 2
                likely = [1 / (1 + np.exp(-log_ratio)), 1 / (1 + np.exp(log_ratio))]  # of even and of odd
                happened = priors[f] * (likely[1] * (1 - odd_others) + likely[0] * odd_others)
                not_happened = (1 - priors[f]) * (likely[0] * (1 - odd_others) + likely[1] * odd_others)
                q[f] = happened / (happened + not_happened)
            for place in range(problem.n_faults):
                wanted = (1 - np.prod(1 - 2 * q[own == place])) / 2
                assert found[place, shot] == pytest.approx(wanted, rel=2e-4, abs=1e-6)


def test_evidence_may_be_as_sure_as_it_likes():
    """Posteriors are cut at 100 on either side, so evidence reaches 200: exp of it is no number of 32 bits."""
    problem = with_both_halves().problem(0.02)
    found = []
    for compiled in (True, False):
        to_own, _ = exchanges(problem)
        to_own.fused = compiled
        odds = to_own.odds(context(problem)["joint_p"][None])
        evidence = torch.linspace(-200, 200, 48).expand(to_own.n_speaking, -1).contiguous().requires_grad_()
        scale = torch.tensor(1.0, requires_grad=True)
        answer = to_own(evidence, scale, odds)
        answer.sum().backward()
        found.append((answer.detach(), evidence.grad, scale.grad))
    for ours, wanted in zip(*found, strict=True):
        assert torch.allclose(ours, wanted, rtol=1e-3, atol=1e-3 * float(wanted.abs().max()))


def test_without_faults_in_both_halves_it_is_the_half_alone():
    model = "error(0.1) D0 L0\nerror(0.05) D0 D1\nerror(0.07) D1\nerror(0.02) D1 L0\nerror(0.2) D2\nerror(0.1) D2 D3"
    problem = split(model, [True, True, False, False])
    module = compile_predecoder(PredecoderDSL.model_validate(config(exchanges=2)), problem).train()
    alone = LearnedBP(NeuralBpSpec(iterations=6), TannerLinks(problem))
    with torch.no_grad():
        alone.damping.fill_(DAMPING)
        alone.readout.copy_(torch.tensor([0.0] * 3 + [1 / 3] * 3))
    syndrome = torch.tensor(list(itertools.product([0.0, 1.0], repeat=4)))
    prior = torch.from_numpy(log_odds(problem.priors)).float()[:, None].expand(-1, len(syndrome))
    found = module.bp(syndrome.T, context(problem))
    assert torch.allclose(found, alone(syndrome.T, prior), atol=1e-4)


@pytest.mark.parametrize("check_rule", ["sum_product", "min_sum"])
@pytest.mark.parametrize("sharing", ["per_layer", "per_check", "none", "neighbourhood"])
def test_compiled_answers_and_gradients_are_those_of_torch(check_rule: str, sharing: str):
    problem = with_both_halves().problem(0.02)
    data = config(exchanges=3, context_iterations=2)
    data["neural_bp"] |= {
        "check_rule": check_rule,
        "weight_sharing": sharing,
        "damping": "learnable_per_iter",
    }
    module = compile_predecoder(PredecoderDSL.model_validate(data), problem).train()
    with torch.no_grad():
        generator = torch.Generator().manual_seed(0)
        for parameter in module.parameters():
            parameter += 0.1 * torch.randn(parameter.shape, generator=generator)
    syndrome, found = shots_of(problem, 37), []
    priors = torch.stack([context(problem)["joint_p"], 0.4 * context(problem)["joint_p"]])
    ctx = {**context(problem), "joint_p": priors, "which_p": torch.arange(37) % 2}
    for compiled in (True, False):
        module.zero_grad()
        if compiled:
            answer = module.fault_log_odds(syndrome, ctx)
        else:
            with reference_path():
                answer = module.fault_log_odds(syndrome, ctx)
        torch.nn.functional.softplus(answer * torch.linspace(-1, 1, 37)).sum().backward()
        grads = {name: p.grad.clone() for name, p in module.named_parameters() if p.grad is not None}
        found.append((answer.detach(), grads))
    (answer, grads), (wanted, wanted_grads) = found
    assert torch.allclose(answer, wanted, atol=2e-3)
    learned = {"bp.scale", "bp.damping", "bp.own.weight", "bp.context.weight", "bp.own.readout"}
    assert learned <= grads.keys()
    for name in learned:
        size = float(wanted_grads[name].abs().max())
        assert size > 0 or name.endswith("readout")
        assert torch.allclose(grads[name], wanted_grads[name], atol=5e-3 * size + 1e-6), name


@pytest.mark.parametrize("part", [7, 512])
def test_a_shot_is_answered_alone_as_among_others(part, monkeypatch):
    """Also where the first attempt is made in parts, and the legs take what all parts leave open."""
    monkeypatch.setattr("autoqec.decoders.modules.turbo._PART", part)
    problem = with_both_halves().problem(0.02)
    dsl = PredecoderDSL.model_validate(config(exchanges=2, legs=3, leg_exchanges=2))
    module, ctx = compile_predecoder(dsl, problem).eval(), context(problem)
    syndrome = shots_of(problem, 60)
    with torch.no_grad():
        together = module(syndrome, ctx)
        alone = torch.cat([module(row[None], ctx) for row in syndrome])
    assert torch.allclose(together, alone, atol=1e-5)


def test_legs_explain_what_the_first_attempt_does_not():
    problem = with_both_halves().problem(0.02)
    syndrome, own = shots_of(problem, 400, seed=3), problem.h.toarray()
    seen = problem.joint.seen  # type: ignore[union-attr]

    def explained(**turbo: Any) -> int:
        module = compile_predecoder(PredecoderDSL.model_validate(config(**turbo)), problem).eval()
        with torch.no_grad():
            flips = (module(syndrome, context(problem)) > 0.5).numpy().astype(int)
        return int((flips @ own.T % 2 == syndrome.numpy())[:, seen].all(axis=1).sum())

    first, more = explained(exchanges=1), explained(exchanges=1, legs=8, leg_exchanges=6)
    assert first < more <= 400


def test_behind_a_first_attempt_there_are_only_the_legs():
    """A cascade of turbo propagation and its legs says what one stage with legs says, and the attempt that failed is not paid twice."""
    problem = with_both_halves().problem(0.02)
    ctx, syndrome = context(problem), shots_of(problem, 400, seed=3)
    legs = config(exchanges=1, legs=8, leg_exchanges=6, solutions=1)
    parts = [config(exchanges=1), {**legs, "share": 0.5}]
    stages = [{key: part[key] for key in part if key != "output_mode"} for part in parts]
    staged = {"type": "cascade", "output_mode": "soft_priors", "stages": stages}
    one, cascade = (
        compile_predecoder(PredecoderDSL.model_validate(each), problem).eval() for each in (legs, staged)
    )
    first, later = cascade.stages
    with torch.no_grad():
        earlier = first(syndrome, ctx)
        assert torch.allclose(cascade(syndrome, ctx), one(syndrome, ctx), atol=1e-5)
        assert not torch.allclose(earlier, one(syndrome, ctx), atol=0.1)
    saved = count_call(later, syndrome, ctx) - count_call(later, syndrome, {**ctx, EARLIER_PRIORS: earlier})
    assert saved > 0.9 * count_call(first, syndrome, ctx)


def test_one_half_has_nobody_to_talk_to():
    problem = with_both_halves("observable").problem(0.02)
    with pytest.raises(InputError, match="one half") as caught:
        compile_predecoder(PredecoderDSL.model_validate(config()), problem)
    assert "observable_with_context" in str(caught.value.hint)


def test_legs_are_not_exported_and_say_so(tmp_path):
    problem = with_both_halves().problem(0.02)
    module = compile_predecoder(PredecoderDSL.model_validate(config(legs=2)), problem)
    shots = with_both_halves().sampler(0.02).sample(64, 1).detectors
    with pytest.raises(UnavailableError, match="legs") as caught:
        to_onnx(module, OsdBackend(problem), tmp_path / "model.onnx", detectors=shots)
    assert "legs: 0" in str(caught.value.hint)
    assert not (tmp_path / "model.onnx").exists()
