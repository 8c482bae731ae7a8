"""`torch.compile` of the network: the same weights under the same names, the same answers and gradients."""

import pytest
import torch

from autoqec.decoders.compiler import compile_predecoder
from autoqec.decoders.dsl_schema import PredecoderDSL
from autoqec.envs.load import load_env
from autoqec.envs.packing import unpack

CONFIG = {
    "type": "hybrid",
    "output_mode": "soft_priors",
    "neural_bp": {"iterations": 3, "weight_sharing": "per_check", "damping": "learnable_per_iter"},
    "gnn": {"layers": 2, "hidden_dim": 8},
}


def answers(module, syndrome):
    module.zero_grad()
    weights = module.backend_weights(syndrome, {})
    (weights * torch.linspace(-1, 1, weights.shape[1])).sum().backward()
    return weights.detach(), [p.grad.clone() for p in module.parameters() if p.grad is not None]


@pytest.mark.slow
@pytest.mark.parametrize("rule", ["sum_product", "min_sum"])
def test_a_compiled_network_answers_and_learns_alike(rule) -> None:
    env = load_env("surface_d3_depol")
    problem = env.problem(0.01)
    config = {**CONFIG, "neural_bp": {**CONFIG["neural_bp"], "check_rule": rule}}
    module = compile_predecoder(PredecoderDSL.model_validate(config), problem, seed=3)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.add_(0.02 * torch.randn_like(parameter))
    shots = env.sampler(0.01).sample(32, seed=5)
    syndrome = torch.from_numpy(unpack(shots.detectors, problem.n_checks)).float()
    plain, names = answers(module, syndrome), list(module.state_dict())
    module.compile_network(backend="aot_eager")
    compiled = answers(module, syndrome)
    assert list(module.state_dict()) == names
    torch.testing.assert_close(compiled[0], plain[0], rtol=1e-4, atol=1e-4)
    for ours, theirs in zip(compiled[1], plain[1], strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-3, atol=1e-3)
