"""A workspace with a quick d=3 environment and a config that needs no training."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

QUICK_ENV: dict[str, Any] = {
    "name": "quick_d3",
    "code": {"type": "stim_circuit", "source": "surface_code:rotated_memory_z?distance=3&rounds=3"},
    "noise": {"type": "depolarizing", "p": [0.01]},
    "constraints": {},
    "baseline_decoders": ["pymatching"],
    "classical_backend": "mwpm",
    "eval_protocol": {"min_shots_train": 2000, "min_shots_val": 4000, "min_shots_verify": 4000},
}
QUICK_CONFIG: dict[str, Any] = {
    "type": "neural_bp",
    "output_mode": "soft_priors",
    "neural_bp": {"iterations": 4},
    "training": {"epochs": 0},
}


def make_workspace(folder: Path) -> Path:
    (folder / "env.yaml").write_text(yaml.safe_dump(QUICK_ENV))
    (folder / "config.yaml").write_text(yaml.safe_dump(QUICK_CONFIG))
    return folder
