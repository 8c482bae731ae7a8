"""The compiled learned propagation against the torch reference in double precision."""

import copy
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from torch import Tensor

from autoqec.decoders.dsl_schema import NeuralBpSpec
from autoqec.decoders.modules.fused_bp import fused_propagation
from autoqec.decoders.modules.neural_bp import LearnedBP
from autoqec.decoders.modules.structure import TannerLinks
from autoqec.envs.load import load_env
from autoqec.envs.problem import log_odds
from autoqec.errors import InputError

Inputs = tuple[Tensor, Tensor, Tensor]  # syndrome, prior, gradient by the answer


def learned(links: TannerLinks, seed: int = 0, spread: float = 0.2, **spec: object) -> LearnedBP:
    """As if trained: every parameter moved away from its start."""
    model = LearnedBP(NeuralBpSpec.model_validate(spec), links)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += spread * torch.rand(parameter.shape, generator=generator)
    return model


def inputs(links: TannerLinks, prior: np.ndarray, batch: int, seed: int = 0, noise: float = 0.5) -> Inputs:
    rng = np.random.default_rng(seed)
    h = np.zeros((links.n_checks, links.n_faults), dtype=np.int64)
    h[links.check.numpy(), links.fault.numpy()] = 1
    faults = rng.random((links.n_faults, batch)) < 1.5 / (1 + np.exp(prior))[:, None]
    odds = prior[:, None] + noise * rng.normal(size=(links.n_faults, batch))
    upstream = rng.normal(size=(links.n_faults, batch))
    return tuple(torch.from_numpy(x.astype(np.float32)) for x in (h @ faults % 2, odds, upstream))  # type: ignore[return-value]


def answer_and_gradients(
    model: LearnedBP, given: Inputs, *, fused: bool, dtype: torch.dtype
) -> dict[str, Tensor]:
    model = copy.deepcopy(model).to(dtype)
    model.fused = fused
    syndrome, prior, upstream = (tensor.to(dtype, copy=True) for tensor in given)
    prior.requires_grad_()
    answer = model(syndrome, prior)
    (answer * upstream).sum().backward()
    found = {"answer": answer.detach(), "prior": prior.grad}
    # Torch gives no gradient for what has no part in the answer: damping, when there is one iteration.
    found |= {name: torch.zeros_like(p) if p.grad is None else p.grad for name, p in model.named_parameters()}
    return {name: tensor.double() for name, tensor in found.items()}


def assert_agrees(model: LearnedBP, given: Inputs) -> None:
    found = answer_and_gradients(model, given, fused=True, dtype=torch.float32)
    expected = answer_and_gradients(model, given, fused=False, dtype=torch.float64)
    torch.testing.assert_close(found.pop("answer"), expected.pop("answer"), atol=1e-3, rtol=0)
    assert found.keys() == expected.keys()
    for name, gradient in expected.items():
        assert (found[name] - gradient).norm() <= 1e-3 * gradient.norm(), name
        assert (found[name] - gradient).abs().max() <= 1e-2 * gradient.abs().max(), name


RULES = ["sum_product", "min_sum"]
ENVS = {"steane_custom_dem": 0.01, "surface_d3_depol": 0.005, "repetition_d9_tanner": 0.03}


def problem(env: str) -> tuple[TannerLinks, np.ndarray]:
    found = load_env(env).problem(ENVS[env])
    return TannerLinks(found), log_odds(found.priors)


@pytest.mark.parametrize("env", ENVS)
@pytest.mark.parametrize("weight_sharing", ["none", "per_layer", "per_check"])
@pytest.mark.parametrize(
    ("damping", "memory"),
    [
        ("fixed", "none"),
        ("learnable_scalar", "none"),
        ("fixed", "learnable"),
        ("learnable_per_iter", "learnable"),
    ],
)
@pytest.mark.parametrize("check_rule", RULES)
def test_answer_and_gradients_are_those_of_the_reference(env, weight_sharing, damping, memory, check_rule):
    links, prior = problem(env)
    options = {
        "weight_sharing": weight_sharing,
        "damping": damping,
        "memory": memory,
        "check_rule": check_rule,
    }
    model = learned(links, iterations=6, **options)
    assert_agrees(model, inputs(links, prior, 45, seed=2))


@pytest.mark.parametrize("batch", [1, 15, 16, 17, 600])
@pytest.mark.parametrize("check_rule", RULES)
def test_any_batch_size(batch, check_rule):
    links, prior = problem("steane_custom_dem")
    options = {"weight_sharing": "none", "damping": "learnable_per_iter", "memory": "learnable"}
    model = learned(links, iterations=4, **options, check_rule=check_rule)
    assert_agrees(model, inputs(links, prior, batch, seed=batch))


@pytest.mark.parametrize("iterations", [1, 2, 15])
def test_any_number_of_iterations(iterations):
    links, prior = problem("surface_d3_depol")
    model = learned(
        links, iterations=iterations, weight_sharing="none", damping="learnable_per_iter", spread=0.05
    )
    assert_agrees(model, inputs(links, prior, 20, seed=iterations))


@pytest.mark.parametrize("check_rule", RULES)
def test_clamped_messages_pass_no_gradient(check_rule):
    links, prior = problem("surface_d3_depol")
    options = {"weight_sharing": "none", "damping": "learnable_scalar", "memory": "learnable"}
    model = learned(links, iterations=3, **options, check_rule=check_rule)
    with torch.no_grad():
        model.weight *= 4
    given = inputs(links, prior * 3, 40, noise=8.0)
    model.fused = False
    with torch.no_grad():
        assert (model(*given[:2]).abs() > 30).any()
    assert_agrees(model, given)


@pytest.mark.parametrize("check_rule", RULES)
def test_checks_of_any_degree(check_rule):
    rng = np.random.default_rng(3)
    h = (rng.random((9, 110)) < 0.1).astype(np.uint8)
    h[0] = 1
    h[1, :64] = 1
    h[2] = 0  # a check without faults
    h[3] = 0
    h[3, 5] = 1  # on one fault
    h[:, 7] = 0  # a fault without checks
    links = TannerLinks(
        SimpleNamespace(n_checks=9, n_faults=110, h=sp.csc_array(h), priors=np.full(110, 0.01), rates=None)
    )  # type: ignore[arg-type]
    options = {"weight_sharing": "none", "damping": "learnable_per_iter", "memory": "learnable"}
    model = learned(links, iterations=4, **options, check_rule=check_rule)
    assert_agrees(model, inputs(links, rng.uniform(1.0, 6.0, 110), 33))


def test_faults_of_even_odds_give_finite_numbers():
    links, prior = problem("surface_d3_depol")
    syndrome, odds, upstream = inputs(links, prior, 16)
    odds[::3] = 0.0
    odds[1::3] *= 1e-8
    model = learned(links, iterations=4, weight_sharing="none")
    found = answer_and_gradients(model, (syndrome, odds, upstream), fused=True, dtype=torch.float32)
    assert all(tensor.isfinite().all() for tensor in found.values())
    assert found["prior"].abs().max() < 100 * upstream.abs().max()


@pytest.mark.parametrize("size", [1e-30, 1e-9, 1e9])
def test_gradients_of_any_size_are_those_of_the_reference(size):
    links, prior = problem("surface_d3_depol")
    model = learned(links, iterations=4, weight_sharing="none", memory="learnable")
    syndrome, odds, upstream = inputs(links, prior, 20)
    found = answer_and_gradients(model, (syndrome, odds, size * upstream), fused=True, dtype=torch.float32)
    expected = answer_and_gradients(model, (syndrome, odds, upstream), fused=False, dtype=torch.float64)
    for name in found.keys() - {"answer"}:
        assert (found[name] / size - expected[name]).norm() <= 1e-3 * expected[name].norm(), name


def test_threads_and_repetition_change_no_bit():
    links, prior = problem("surface_d3_depol")
    model = learned(
        links, iterations=5, weight_sharing="none", damping="learnable_per_iter", memory="learnable"
    )
    syndrome, odds, upstream = inputs(links, prior, 1100)
    parameters = [model.weight, model.damping, model.memory, model.readout]
    results = []
    for threads in (1, 2, 3, None, 1):
        odds.requires_grad_()
        answer, _, _ = fused_propagation(links, syndrome, odds, *parameters, threads=threads)
        gradients = torch.autograd.grad((answer * upstream).sum(), [odds, *parameters])
        results.append((answer.detach(), *gradients))
    for result in results[1:]:
        for found, expected in zip(result, results[0], strict=True):
            assert torch.equal(found, expected)


def test_a_prior_common_to_all_shots_gets_the_sum_of_the_gradients():
    links, prior = problem("steane_custom_dem")
    model = learned(links, iterations=3)
    syndrome, _, upstream = inputs(links, prior, 21)
    gradients = []
    for fused in (True, False):
        model.fused = fused
        common = torch.from_numpy(prior.astype(np.float32)).requires_grad_()
        answer = model(syndrome, common[:, None].expand(-1, 21))
        (answer * upstream).sum().backward()
        gradients.append(common.grad)
    torch.testing.assert_close(*gradients, rtol=1e-3, atol=1e-3)


def test_the_fused_path_is_taken_only_where_it_holds(monkeypatch):
    links, prior = problem("steane_custom_dem")
    syndrome, odds, _ = inputs(links, prior, 5)

    def refuse(*args: object, **options: object) -> Tensor:
        raise RuntimeError("fused")

    monkeypatch.setattr("autoqec.decoders.modules.fused_bp.fused_propagation", refuse)
    with pytest.raises(RuntimeError, match="fused"):
        learned(links)(syndrome, odds)
    learned(links, attention_aug=True)(syndrome, odds)
    learned(links).double()(syndrome.double(), odds.double())
    model = learned(links)
    model.fused = False
    model(syndrome, odds)
    torch.export.export(learned(links), (syndrome, odds))


def test_an_empty_batch():
    links, _ = problem("steane_custom_dem")
    model = learned(links, iterations=3, memory="learnable")
    answer = model(torch.zeros(links.n_checks, 0), torch.zeros(links.n_faults, 0))
    assert answer.shape == (links.n_faults, 0)
    answer.sum().backward()
    assert not model.weight.grad.any()


def test_tensors_that_do_not_fit_are_named():
    links, prior = problem("steane_custom_dem")
    syndrome, odds, _ = inputs(links, prior, 5)
    weight, readout = torch.ones(2, links.n_links), torch.ones(2)
    with pytest.raises(InputError, match=r"weight: got shape \(2, 1\)"):
        fused_propagation(links, syndrome, odds, weight[:, :1], None, None, readout)
    with pytest.raises(InputError, match="memory"):
        fused_propagation(links, syndrome, odds, weight, None, torch.zeros(3), readout)
    with pytest.raises(InputError, match=r"prior: the tensor is torch\.float64"):
        fused_propagation(links, syndrome, odds.double(), weight, None, None, readout)
