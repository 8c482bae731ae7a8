"""Rounds that start from the checkpoint of another: found by hash, kept beside the round, and said wherever a round says what it is."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
import yaml

from autoqec.decoders import checkpoint
from autoqec.decoders.dsl_schema import PredecoderDSL
from autoqec.envs.environment import Environment
from autoqec.envs.load import load_env
from autoqec.errors import InputError
from autoqec.io.hashing import sha256_file
from autoqec.layout import RoundDir, RunDir
from autoqec.runner import initial
from autoqec.runner.execute import Round
from autoqec.runner.safety import Safety
from autoqec.runner.schema import RoundMetrics, RunnerConfig
from autoqec.runner.supervise import run_round
from autoqec.sandbox.kinds import strongest

CONFIG = {
    "type": "neural_bp",
    "output_mode": "soft_priors",
    "neural_bp": {"iterations": 2, "weight_sharing": "neighbourhood"},
    "training": {"loss": "bce", "epochs": 1, "batch_size": 64, "learning_rate": 1e-2},
}


def small(name: str = "surface_d3_depol") -> Environment:
    env = load_env(name)
    noise = env.spec.noise.model_copy(update={"p": [0.01], "reference_p": 0.01})
    protocol = env.spec.eval_protocol.model_copy(update={"min_shots_train": 4000, "min_shots_val": 2000})
    changes = {"noise": noise, "eval_protocol": protocol, "baseline_decoders": ["pymatching"]}
    return Environment(env.spec.model_copy(update=changes), root=env.root)


def config(folder: Path, *, start: str | None = None, **training: object) -> RunnerConfig:
    data = {**CONFIG, "training": {**CONFIG["training"], **training}}
    return RunnerConfig(env_name="x", predecoder_config=data, round_dir=str(folder), init_from=start)


def trained(config: RunnerConfig, env: Environment) -> RoundMetrics:
    """In this process, as `run_round` prepares it."""
    files = RoundDir(config.round_dir)
    files.path.mkdir(parents=True, exist_ok=True)
    initial.keep(files, initial.found(PredecoderDSL.model_validate(config.predecoder_config), files))
    return Round(config, env, Safety(), workers=1).run()


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> RunDir:
    """A run with one trained round, whose weights are not those of any start: so short a training may keep that."""
    run = RunDir(tmp_path_factory.mktemp("run"))
    assert trained(config(run.round(1).path), small()).status == "ok"
    info, module = checkpoint.load(run.round(1).checkpoint, small().problem(0.01))
    with torch.no_grad():
        for parameter in module.parameters():
            parameter += torch.linspace(0.1, 0.2, parameter.numel()).reshape(parameter.shape)
    checkpoint.save(run.round(1).path, module, info)
    return run


def test_a_config_finds_its_start_in_its_run_by_hash(run: RunDir) -> None:
    first = run.round(1).checkpoint
    metrics = trained(config(run.round(2).path, epochs=0, **_from(first)), small())
    assert metrics.status == "ok", metrics.status_reason
    assert metrics.init_from is not None
    assert (metrics.init_from.sha256, metrics.init_from.env_name) == (sha256_file(first), "surface_d3_depol")
    assert metrics.init_from.classes["bp.weight"].unseen == 0
    before, after = (checkpoint.read(run.round(n).checkpoint) for n in (1, 2))
    assert all((after[1][name] == tensor).all() for name, tensor in before[1].items())
    # The weights have seen the labels that the first round was trained on, and the checkpoint says where they are from.
    assert after[0].train_labels == before[0].train_labels
    assert after[0].dsl.training.init_from == sha256_file(first)
    assert sha256_file(run.round(2).initial) == sha256_file(first)


def test_another_size_starts_from_the_classes_that_it_knows(run: RunDir) -> None:
    first = run.round(1).checkpoint
    metrics = trained(config(run.round(3).path, epochs=0, **_from(first)), small("surface_d5_depol"))
    assert metrics.status == "ok", metrics.status_reason
    assert metrics.init_from is not None
    match = metrics.init_from.classes["bp.weight"]
    assert min(match.matched, match.unseen, match.unused) > 0
    info, _ = checkpoint.read(run.round(3).checkpoint)
    assert info.train_labels == (0, -1)  # labels of another environment are other shots


def test_a_hash_that_no_round_has_is_named(run: RunDir) -> None:
    dsl = PredecoderDSL.model_validate(config(run.path, init_from="f" * 64).predecoder_config)
    with pytest.raises(InputError, match="no round of this run has the checkpoint ffff"):
        initial.found(dsl, run.round(4))


def test_a_file_that_was_replaced_is_not_taken_for_the_one_that_the_config_names(run: RunDir) -> None:
    files = run.round(5)
    files.path.mkdir()
    files.initial.write_bytes(run.round(1).weights.read_bytes())
    wanted = config(files.path, epochs=0, **_from(run.round(1).checkpoint))
    metrics = Round(wanted, small(), Safety(), workers=1).run()
    assert metrics.status == "compile_error"
    assert "is not the checkpoint that the config names" in str(metrics.status_reason)
    dsl = PredecoderDSL.model_validate(wanted.predecoder_config)
    assert initial.found(dsl, files).sha256 == sha256_file(run.round(1).checkpoint)  # the run has it


def test_a_folder_becomes_a_hash_and_two_answers_are_refused(run: RunDir) -> None:
    start = initial.named(run.round(1).path)
    assert start == initial.named(run.round(1).checkpoint)
    wanted = initial.with_hash(config(run.path), start)
    assert wanted.predecoder_config["training"] == {**CONFIG["training"], "init_from": start.sha256}
    with pytest.raises(InputError, match="the config says ffff"):
        initial.with_hash(config(run.path, init_from="f" * 64), start)


@pytest.mark.parametrize("name", ["train.log", "metrics.json", "nothing"])
def test_what_is_no_checkpoint_is_refused_before_anything_is_written(
    run: RunDir, name: str, tmp_path: Path
) -> None:
    folder = tmp_path / "new"
    given = config(folder, start=str(run.round(1).path / name))
    with pytest.raises(InputError):
        run_round(given, small())
    assert not folder.exists()


def test_only_the_true_hash_stands_in_the_metrics(run: RunDir) -> None:
    start = initial.named(run.round(1).path)
    said = RoundMetrics.model_validate({"status": "ok", "init_from": {"sha256": "made up", "env_name": "x"}})
    assert initial.with_origin(said, start).init_from.sha256 == start.sha256
    assert initial.with_origin(RoundMetrics(status="ok"), start).init_from.sha256 == start.sha256
    assert initial.with_origin(said, None).init_from is None


@pytest.mark.slow
@pytest.mark.parametrize("head", ["linear", "custom"])
def test_a_round_says_what_it_started_from(run: RunDir, head: str, tmp_path: Path) -> None:
    """As a user starts it. With code of its own it trains behind walls, and gets the checkpoint there."""
    code = {
        "type": "custom",
        "code": "def head(hidden_state, params):\n    return 0.0 * hidden_state[..., :1]\n",
    }
    wanted = config(tmp_path / "round", start=str(run.round(1).path), epochs=0)
    if head == "custom":
        if not strongest().confines:
            pytest.skip("no sandbox works on this machine")
        data = {**wanted.predecoder_config, "head": code}
        wanted = wanted.model_copy(update={"predecoder_config": data})
    metrics = run_round(wanted, small())
    assert metrics.status == "ok", metrics.status_reason
    files, wanted_hash = RoundDir(wanted.round_dir), sha256_file(run.round(1).checkpoint)
    assert metrics.init_from is not None
    assert metrics.init_from.sha256 == wanted_hash == sha256_file(files.initial)
    assert metrics.init_from.classes["bp.weight"].unseen == 0
    assert yaml.safe_load(files.config.read_text())["training"]["init_from"] == wanted_hash
    assert json.loads(files.manifest.read_text())["init_from_sha256"] == wanted_hash
    assert not files.confined.exists()
    before, after = (checkpoint.read(path)[1] for path in (run.round(1).checkpoint, files.checkpoint))
    assert (after["bp.weight"] == before["bp.weight"]).all()
    assert (after["bp.weight"] != 1).any()


def _from(path: Path) -> dict[str, str]:
    return {"init_from": sha256_file(path)}
