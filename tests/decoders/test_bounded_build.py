"""A config that asks for a model which its weights do not belong to is refused before memory is taken for it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch

from autoqec.decoders import checkpoint
from autoqec.decoders.compiler import compile_predecoder
from autoqec.decoders.dsl_schema import PredecoderDSL
from autoqec.envs.load import load_env
from autoqec.errors import InputError

ABSURD: dict[str, dict[str, Any]] = {
    "a matrix of 4 TB": {"type": "gnn", "gnn": {"hidden_dim": 1_000_000}},
    "a matrix of 4 GB": {"type": "gnn", "gnn": {"hidden_dim": 30_000}},
    "ten thousand layers": {"type": "gnn", "gnn": {"layers": 10_000, "hidden_dim": 4}},
    "weights of a million iterations": {
        "type": "neural_bp",
        "neural_bp": {"iterations": 1_000_000, "weight_sharing": "none"},
    },
}


def dsl(config: dict[str, Any]) -> Any:
    return SimpleNamespace(dsl=PredecoderDSL.model_validate({"output_mode": "soft_priors", **config}))


@pytest.mark.parametrize("name", ABSURD)
def test_sizes_that_the_weights_do_not_have_are_refused(name: str) -> None:
    problem = load_env("surface_d3_depol").problem(0.01)
    with pytest.raises(InputError, match="larger model than its 400 bytes"):
        checkpoint.restore(dsl(ABSURD[name]), {"head": torch.zeros(100)}, problem, where="checkpoint.pt")


def test_a_large_model_with_its_own_weights_is_built() -> None:
    problem = load_env("surface_d3_depol").problem(0.01)
    info = dsl({"type": "gnn", "gnn": {"layers": 40, "hidden_dim": 256}})
    module = compile_predecoder(info.dsl, problem, seed=3)
    again = checkpoint.restore(info, module.state_dict(), problem, where="checkpoint.pt")
    assert all(
        torch.equal(mine, theirs)
        for mine, theirs in zip(module.parameters(), again.parameters(), strict=True)
    )
