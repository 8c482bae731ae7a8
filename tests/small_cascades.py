"""Cascades of small stages, for tests of several packages."""

from typing import Any

import torch

from autoqec.decoders.compiler import compile_predecoder
from autoqec.decoders.dsl_schema import PredecoderDSL
from autoqec.decoders.modules.cascade import CascadePredecoder
from autoqec.envs.problem import DecodingProblem

SMALL = {"type": "neural_bp", "neural_bp": {"iterations": 3, "check_rule": "min_sum"}}
SHIFT = {"type": "gnn", "gnn": {"layers": 1, "hidden_dim": 8}, "share": 0.05}
LARGE = {
    "type": "hybrid",
    "neural_bp": {"iterations": 6},
    "gnn": {"layers": 1, "hidden_dim": 8},
    "share": 0.05,
}


def cascade(*stages: dict[str, Any], **more: Any) -> PredecoderDSL:
    return PredecoderDSL.model_validate(
        {"type": "cascade", "output_mode": "soft_priors", "stages": list(stages), **more}
    )


def moved(dsl: PredecoderDSL, problem: DecodingProblem, by: float = 0.05) -> CascadePredecoder:
    """A cascade whose numbers are not those of the start: every stage has its own opinion."""
    module = compile_predecoder(dsl, problem, seed=1)
    assert isinstance(module, CascadePredecoder)
    generator = torch.Generator().manual_seed(2)
    with torch.no_grad():
        for each in module.parameters():
            each += by * torch.randn(each.shape, generator=generator)
    return module
