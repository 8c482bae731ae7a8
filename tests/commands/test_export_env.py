"""`autoqec export` and `autoqec verify` find the environment of a round by themselves."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from autoqec.commands import main
from autoqec.decoders import checkpoint
from autoqec.decoders.compiler import compile_predecoder
from autoqec.decoders.dsl_schema import PredecoderDSL
from autoqec.envs.environment import Environment
from autoqec.envs.load import load_env

DSL = PredecoderDSL.model_validate(
    {"type": "neural_bp", "output_mode": "soft_priors", "neural_bp": {"iterations": 2}}
)


def autoqec(*arguments: str) -> Result:
    return CliRunner().invoke(main, arguments)


@pytest.fixture
def round_dir(tmp_path: Path) -> Path:
    env = load_env("surface_d3_depol")
    info = checkpoint.CheckpointInfo(
        dsl=DSL,
        output_mode="soft_priors",
        env_name=env.spec.name,
        env_hash=env.content_hash,
        seed=0,
        train_labels=(0, -1),
        versions={},
    )
    folder = tmp_path / "round"
    folder.mkdir()
    checkpoint.save(folder, compile_predecoder(DSL, env.problem(env.spec.noise.p[0])), info)
    return folder


def test_export_needs_no_env(round_dir: Path, tmp_path: Path) -> None:
    done = autoqec("export", str(round_dir), "--safetensors", str(tmp_path / "model.safetensors"))
    assert done.exit_code == 0, done.output
    assert (tmp_path / "model.safetensors").stat().st_size > 0


def test_export_refuses_another_env(round_dir: Path, tmp_path: Path) -> None:
    out = tmp_path / "model.safetensors"
    done = autoqec("export", str(round_dir), "--env", "surface_d5_depol", "--safetensors", str(out))
    assert done.exit_code == 2
    assert "belongs to surface_d3_depol" in done.output
    assert not out.exists()


def test_verify_finds_the_env_and_says_which(round_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Environment] = []

    def catch(folders: object, env: Environment, options: object) -> None:
        asked.append(env)
        raise KeyboardInterrupt

    monkeypatch.setattr("autoqec.eval.verify.verify_together", catch)
    done = autoqec("verify", str(round_dir))
    assert [env.content_hash for env in asked] == [load_env("surface_d3_depol").content_hash]
    assert "surface_d3_depol" in done.stderr


def test_a_folder_without_checkpoint_gives_one_error(tmp_path: Path) -> None:
    for verb in ("verify", "export"):
        done = autoqec(verb, str(tmp_path), *(["--onnx", "m.onnx"] if verb == "export" else []))
        assert done.exit_code == 2
        assert done.output.count("error: ") == 1
        assert "checkpoint.pt" in done.output
