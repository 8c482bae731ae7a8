"""`autoqec diagnose` on rounds that a real runner refused."""

import json
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner, Result

from autoqec.commands import main
from autoqec.decoders.dsl_schema import PredecoderDSL
from autoqec.envs.load import load_env
from autoqec.io.validate import load_model
from autoqec.runner.schema import RunnerConfig
from autoqec.runner.supervise import run_round

BROKEN = {
    "type": "neural_bp",
    "output_mode": "soft_priors",
    "neural_bp": {"iterations": 0, "evil\x1b[2J": 1},
    "training": {"epochs": 0},
}


def _diagnose(*arguments: object) -> Result:
    return CliRunner().invoke(main, ["diagnose", *map(str, arguments)])


@pytest.fixture
def round_dir(tmp_path: Path) -> Path:
    folder = tmp_path / "run" / "round_1"
    config = RunnerConfig(env_name="surface_d3_depol", predecoder_config=BROKEN, round_dir=str(folder))
    assert run_round(config, load_env("surface_d3_depol")).status == "compile_error"
    return folder


def test_text_names_cause_evidence_and_change(round_dir: Path) -> None:
    before = {path: path.read_bytes() for path in round_dir.iterdir()}
    done = _diagnose(round_dir)
    assert done.exit_code == 0, done.output
    assert "compile_error (high confidence): the config was refused before training" in done.output
    assert "metrics.json: status = compile_error" in done.output
    assert "in the config: neural_bp.iterations: 0 -> 8" in done.output
    assert "-  iterations: 0" in done.output
    assert "\x1b" not in done.output
    assert {path: path.read_bytes() for path in round_dir.iterdir()} == before


def test_json_is_one_object_for_programs(round_dir: Path) -> None:
    found = json.loads(_diagnose(round_dir, "--json").output)
    assert (found["kind"], found["healthy"], found["cause"]) == ("round", False, "compile_error")
    assert found["written"] is None
    (finding,) = found["findings"]
    PredecoderDSL.model_validate(finding["patch"]["config"])
    assert finding["patch"]["changes"][0]["after"] == 8 or finding["patch"]["changes"][1]["after"] == 8


def test_out_writes_the_suggested_config_once(round_dir: Path, tmp_path: Path) -> None:
    out = tmp_path / "patched.yaml"
    done = _diagnose(round_dir, "--out", out)
    assert done.exit_code == 0
    assert f"Wrote {out}" in done.output
    assert load_model(out, PredecoderDSL).neural_bp.iterations == 8
    again = _diagnose(round_dir, "--out", out)
    assert again.exit_code == 2
    assert "already exists" in again.output
    assert _diagnose(round_dir, "--out", round_dir / "config.yaml").exit_code == 2
    assert yaml.safe_load((round_dir / "config.yaml").read_text())["neural_bp"]["iterations"] == 0


def test_a_folder_of_rounds_is_a_run(round_dir: Path) -> None:
    done = _diagnose(round_dir.parent)
    assert done.exit_code == 0, done.output
    assert "1 of 1 rounds are not healthy" in done.output
    assert "history.jsonl is missing" in done.output
    found = json.loads(_diagnose(round_dir.parent, "--json").output)
    assert (found["kind"], found["causes"]) == ("run", {"compile_error": 1})
    assert found["unhealthy"][0]["round"] == 1
    assert _diagnose(round_dir.parent, "--out", "x.yaml").exit_code == 2


def test_bad_input_is_said_with_exit_code_2(round_dir: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    for arguments, message in (
        ([tmp_path / "empty"], "neither a round nor a run"),
        ([tmp_path / "nowhere"], "is not a folder"),
        ([round_dir, "--env", "no_such_env"], "neither a builtin environment nor a file"),
        ([round_dir, "--out", tmp_path / "no" / "x.yaml"], "does not exist"),
    ):
        done = _diagnose(*arguments)
        assert done.exit_code == 2, (arguments, done.output)
        assert message in done.output
