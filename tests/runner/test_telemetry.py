"""Event files of a training, read back by TensorBoard's own reader."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from autoqec.envs.environment import Environment
from autoqec.envs.load import load_env
from autoqec.layout import RoundDir
from autoqec.runner.execute import Round
from autoqec.runner.safety import Safety
from autoqec.runner.schema import RunnerConfig
from autoqec.runner.telemetry import Telemetry

CONFIG = {
    "type": "neural_bp",
    "output_mode": "soft_priors",
    "neural_bp": {"iterations": 2},
    "training": {"loss": "bce", "epochs": 1, "batch_size": 32, "learning_rate": 1e-3},
}


def read(folder: Path) -> dict[str, list[tuple[int, float]]]:
    found = EventAccumulator(str(folder))
    found.Reload()
    return {tag: [(each.step, each.value) for each in found.Scalars(tag)] for tag in found.Tags()["scalars"]}


def test_a_round_leaves_event_files_that_agree_with_its_log(tmp_path: Path) -> None:
    spec = load_env("surface_d3_depol").spec
    noise = spec.noise.model_copy(update={"p": [0.01], "reference_p": 0.01})
    protocol = spec.eval_protocol.model_copy(update={"min_shots_train": 8000, "min_shots_val": 2000})
    changes = {"noise": noise, "eval_protocol": protocol, "baseline_decoders": ["pymatching"]}
    config = RunnerConfig(
        env_name="x",
        predecoder_config=CONFIG,
        round_dir=str(tmp_path / "round_1"),
        tensorboard=str(tmp_path / "board"),
    )
    (tmp_path / "round_1").mkdir()
    metrics = Round(config, Environment(spec.model_copy(update=changes)), Safety(), workers=1).run()
    assert metrics.status == "ok", metrics.status_reason
    found = read(tmp_path / "board" / "round_1")
    log = [line.split("\t") for line in RoundDir(tmp_path / "round_1").train_log.read_text().splitlines()]
    assert found["loss"] == [(int(step), pytest.approx(float(loss), rel=1e-5)) for step, loss in log]
    assert len(found["learning_rate"]) == len(log) == 25
    assert found["learning_rate"][-1][1] < 0.1 * 1e-3
    assert [step for step, _ in found["speed/shots_per_second"]] == [10, 20]
    assert min(value for _, value in found["speed/shots_per_second"]) > 0
    assert all(value > 0 for _, value in found["speed/device_busy"])
    scores = dict(found["selection/failures"])
    assert max(scores) == 25
    if kept := metrics.training_kept_step:
        assert f"({scores[kept]:g} failures on the selection shots" in (metrics.training_note or "")


def test_a_training_that_is_resumed_replaces_what_came_after_its_saved_step(tmp_path: Path) -> None:
    for first, last, loss in ((0, 8, 1.0), (5, 9, 2.0)):
        telemetry = Telemetry(tmp_path, batch=1, device=torch.device("cpu"))
        telemetry.begin(first)
        for step in range(first + 1, last + 1):
            telemetry.step(step, loss, 1e-3)
        telemetry.close()
    assert read(tmp_path)["loss"] == [(step, 1.0 if step <= 5 else 2.0) for step in range(1, 10)]
