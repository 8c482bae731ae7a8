"""What the process of a round learns of its environment: the user's limits, and none of the user's keys."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from autoqec.envs.load import load_env
from autoqec.runner.schema import RunnerConfig
from autoqec.runner.supervise import run_round

LIMITS = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "NUMBA_NUM_THREADS",
    "PYTHON_CPU_COUNT",
)


def test_limits_on_threads_reach_a_round_and_keys_do_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    heard = tmp_path / "environment.json"
    # Python runs this file first in every process, and the round ends with it.
    (tmp_path / "sitecustomize.py").write_text(
        f"import json, os\nopen({str(heard)!r}, 'w').write(json.dumps(dict(os.environ)))\nos._exit(3)\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setenv("SOME_API_KEY", "secret")
    for name in LIMITS:
        monkeypatch.setenv(name, "3")
    config = {"type": "neural_bp", "output_mode": "soft_priors", "neural_bp": {"iterations": 4}}
    round_dir = tmp_path / "round"
    metrics = run_round(
        RunnerConfig(env_name="surface_d3_depol", predecoder_config=config, round_dir=str(round_dir), seed=0),
        load_env("surface_d3_depol"),
    )
    assert metrics.status == "train_error"
    environment = json.loads(heard.read_text())
    assert {name: environment.get(name) for name in LIMITS} == dict.fromkeys(LIMITS, "3")
    assert "SOME_API_KEY" not in environment
