"""Rounds without training: real checkpoints whose weights were moved, so that every one of them matters."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from autoqec.decoders import checkpoint
from autoqec.decoders.compiler import compile_predecoder
from autoqec.decoders.dsl_schema import PredecoderDSL
from autoqec.envs.environment import Environment
from autoqec.envs.load import load_env

CUSTOM = {
    "type": "custom",
    "code": "def message(x_src, x_dst, e_ij, params):\n    return torch.tanh(params.W(x_src) + e_ij)\n",
    "params_declared": {"W": "Linear(hidden, hidden)"},
}
CONFIGS: dict[str, dict[str, Any]] = {
    "weights": {"type": "hybrid", "output_mode": "soft_priors", "neural_bp": {"iterations": 3}, "gnn": {"layers": 1, "hidden_dim": 4}},
    "flips": {"type": "neural_bp", "output_mode": "hard_flip", "neural_bp": {"iterations": 3}},
    "custom": {"type": "gnn", "output_mode": "soft_priors", "gnn": {"layers": 1, "hidden_dim": 4, "message_fn": CUSTOM}},
    "turbo": {"type": "neural_bp", "output_mode": "soft_priors", "neural_bp": {"iterations": 3, "turbo": {"exchanges": 2}}},
}  # fmt: skip
SURFACE, QLDPC, BOTH_HALVES = "surface_d3_depol", "bb72_capacity", "bb72_depol"

Maker = Callable[..., Path]


def write_round(folder: Path, env: Environment, config: dict[str, Any], **versions: str) -> Path:
    folder.mkdir(parents=True)
    dsl = PredecoderDSL.model_validate(config)
    module = compile_predecoder(dsl, env.problem(env.spec.noise.p[0]))
    generator = torch.Generator().manual_seed(5)
    with torch.no_grad():
        for weights in module.parameters():
            weights += 0.1 * torch.randn(weights.shape, generator=generator)
    info = checkpoint.CheckpointInfo(
        dsl=dsl,
        output_mode=dsl.output_mode,
        env_name=env.spec.name,
        env_hash=env.content_hash,
        seed=0,
        train_labels=(0, -1),
        versions=versions,
    )
    checkpoint.save(folder, module, info)
    return folder


@pytest.fixture(scope="session")
def find(tmp_path_factory: pytest.TempPathFactory) -> Maker:
    """The folder of a round, by config and environment."""
    root, made = tmp_path_factory.mktemp("finds"), {}

    def make(config: str, env: str = SURFACE) -> Path:
        key = f"{config}-{env}"
        if key not in made:
            made[key] = write_round(root / key, load_env(env), CONFIGS[config])
        return made[key]

    return make
