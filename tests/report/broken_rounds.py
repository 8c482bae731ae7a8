"""Real rounds that go wrong in real ways, on environments so small that each takes seconds."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import yaml

from autoqec.envs.environment import Environment
from autoqec.envs.load import builtin_folder, load_env
from autoqec.envs.schema import EnvSpec
from autoqec.runner.safety import Safety
from autoqec.runner.schema import RoundMetrics, RunnerConfig
from autoqec.runner.supervise import run_round

D3: dict[str, Any] = {
    "name": "d3",
    "code": {"type": "stim_circuit", "source": "surface_code:rotated_memory_z?distance=3&rounds=2"},
    "noise": {"type": "depolarizing", "p": [0.01], "reference_p": 0.01},
    "constraints": {},
    "baseline_decoders": ["pymatching"],
    "classical_backend": "mwpm",
    "eval_protocol": {"min_shots_train": 20_000, "min_shots_val": 20_000},
}
BP: dict[str, Any] = {
    "type": "neural_bp",
    "output_mode": "soft_priors",
    "neural_bp": {"iterations": 4},
    "training": {"epochs": 0},
}
GNN: dict[str, Any] = {
    "type": "gnn",
    "output_mode": "soft_priors",
    "gnn": {"layers": 1, "hidden_dim": 8},
    "training": {"loss": "bce", "epochs": 1, "batch_size": 64},
}


def env_of(**changes: Any) -> Environment:
    """D3 with other blocks: `noise={"p": [0.3]}`."""
    data = json.loads(json.dumps(D3))
    for block, values in changes.items():
        data[block] = {**data[block], **values} if isinstance(values, dict) else values
    return Environment(EnvSpec.model_validate(data), root=builtin_folder())


def write_env(env: Environment, path: Path) -> Path:
    path.write_text(yaml.safe_dump(env.spec.model_dump(mode="json", exclude_none=True)))
    return path


def training(config: dict[str, Any], **changes: Any) -> dict[str, Any]:
    return {**config, "training": {**config["training"], **changes}}


def play(
    folder: Path, config: dict[str, Any], env: Environment | None = None, **safety: Any
) -> tuple[Path, RoundMetrics]:
    """One real round; its environment lies beside it as env.yaml, as its manifest says."""
    folder.mkdir(parents=True, exist_ok=True)
    env = env or env_of()
    path = write_env(env, folder.parent / f"{folder.name}_env.yaml")
    loaded = load_env(path)
    given = RunnerConfig(
        env_name=env.spec.name,
        predecoder_config=config,
        round_dir=str(folder),
        env_yaml_path=str(path),
        invocation_argv=["run-round", str(path), "config.yaml", str(folder)],
    )
    loaded = Environment(loaded.spec, root=env.root, origin=str(path))
    return folder, run_round(given, loaded, Safety(**safety))
