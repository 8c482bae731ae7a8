"""Rounds to verify: real checkpoints, made without training, in an environment where belief propagation wins clearly."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml

from autoqec.decoders import checkpoint
from autoqec.decoders.compiler import compile_predecoder
from autoqec.decoders.dsl_schema import PredecoderDSL
from autoqec.envs.environment import Environment
from autoqec.envs.schema import EnvSpec

SPEC = {
    "name": "surface_d4",
    "code": {"type": "stim_circuit", "source": "surface_code:rotated_memory_z?distance=4&rounds=4"},
    "noise": {"type": "depolarizing", "p": [0.008, 0.01], "reference_p": 0.01},
    "constraints": {},
    "baseline_decoders": ["pymatching", "pymatching_correlated"],
    "classical_backend": "mwpm",
    "eval_protocol": {"min_shots_verify": 10_000, "min_shots_val": 10_000},
}
UNTRAINED = {"type": "neural_bp", "output_mode": "soft_priors", "neural_bp": {"iterations": 3}}

Change = Callable[[dict[str, torch.Tensor]], None]


@pytest.fixture(scope="session")
def env() -> Environment:
    return Environment(EnvSpec.model_validate(SPEC))


@pytest.fixture(scope="session")
def env_yaml(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("env") / "env.yaml"
    path.write_text(yaml.safe_dump(SPEC))
    return path


@pytest.fixture(scope="session")
def make_round(env: Environment) -> Callable[..., Path]:
    """Writes a round's checkpoint and config: fresh weights of a DSL config, changed in place by `change`.

    train_labels, metrics: what the round claims.
    """

    def make(
        folder: Path,
        dsl: dict[str, Any] = UNTRAINED,
        change: Change | None = None,
        *,
        train_labels: tuple[int, int] = (0, -1),
        metrics: dict[str, Any] | None = None,
        of: Environment = env,
    ) -> Path:
        folder.mkdir(parents=True, exist_ok=True)
        config = PredecoderDSL.model_validate(dsl)
        module = compile_predecoder(config, of.problem(of.spec.noise.p[0]))
        if change is not None:
            with torch.no_grad():
                change(dict(module.named_parameters()))
        info = checkpoint.CheckpointInfo(
            dsl=config,
            output_mode=config.output_mode,
            env_name=of.spec.name,
            env_hash=of.content_hash,
            seed=0,
            train_labels=train_labels,
            versions={},
        )
        checkpoint.save(folder, module, info)
        (folder / "config.yaml").write_text(yaml.safe_dump(dsl))
        if metrics is not None:
            (folder / "metrics.json").write_text(json.dumps({"status": "ok", **metrics}))
        return folder

    return make
