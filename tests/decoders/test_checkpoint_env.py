"""The environment of a checkpoint: found by name or by the file that the round recorded, never another one."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from hostile_files import saved

from autoqec.decoders import checkpoint
from autoqec.decoders.checkpoint_env import env_of_checkpoint
from autoqec.decoders.compiler import compile_predecoder
from autoqec.decoders.dsl_schema import PredecoderDSL
from autoqec.envs.environment import Environment
from autoqec.envs.load import builtin_folder, load_env
from autoqec.errors import InputError

DSL = PredecoderDSL.model_validate(
    {"type": "neural_bp", "output_mode": "soft_priors", "neural_bp": {"iterations": 2}}
)


def trained_on(env: Environment, folder: Path) -> Path:
    info = checkpoint.CheckpointInfo(
        dsl=DSL,
        output_mode="soft_priors",
        env_name=env.spec.name,
        env_hash=env.content_hash,
        seed=0,
        train_labels=(0, -1),
        versions={},
    )
    folder.mkdir()
    checkpoint.save(folder, compile_predecoder(DSL, env.problem(env.spec.noise.p[0])), info)
    return folder


@pytest.fixture
def own(tmp_path: Path) -> Path:
    """An environment with the name of a builtin one and another sweep."""
    spec = yaml.safe_load((builtin_folder() / "surface_d3_depol.yaml").read_text())
    spec["noise"]["p"] = [0.004]
    spec["noise"].pop("reference_p", None)
    path = tmp_path / "own.yaml"
    path.write_text(yaml.safe_dump(spec))
    return path


def record(folder: Path, path: object) -> None:
    (folder / "artifact_manifest.json").write_text(json.dumps({"env_yaml_path": path}))


def test_a_builtin_environment_is_found_by_its_name(tmp_path: Path) -> None:
    env = load_env("surface_d3_depol")
    folder = trained_on(env, tmp_path / "round")
    record(folder, "/nowhere/env.yaml")
    for given in (folder, folder / "checkpoint.pt", str(folder)):
        assert env_of_checkpoint(given).content_hash == env.content_hash


def test_a_file_is_found_where_the_round_recorded_it(tmp_path: Path, own: Path) -> None:
    folder = trained_on(load_env(own), tmp_path / "round")
    record(folder, str(own))
    assert env_of_checkpoint(folder).origin == str(own)


@pytest.mark.parametrize(
    "case", ["nothing recorded", "the file is gone", "the file has changed", "no manifest"]
)
def test_an_environment_that_does_not_fit_is_not_taken(tmp_path: Path, own: Path, case: str) -> None:
    folder = trained_on(load_env(own), tmp_path / "round")
    record(folder, None if case == "nothing recorded" else str(own))
    if case == "no manifest":
        (folder / "artifact_manifest.json").unlink()
    elif case == "the file is gone":
        own.unlink()
    elif case == "the file has changed":
        shutil.copy(builtin_folder() / "surface_d5_depol.yaml", own)
    with pytest.raises(InputError, match="surface_d3_depol has another content hash") as error:
        env_of_checkpoint(folder)
    assert error.value.where == str(folder / "checkpoint.pt")
    assert "--env" in str(error.value.hint)


@pytest.mark.parametrize(
    "content", [{"info": "no JSON", "state": {}}, {"state": {}}, {"info": '{"env_name": 3}'}]
)
def test_a_file_that_is_no_checkpoint_is_refused(tmp_path: Path, content: dict[str, object]) -> None:
    (tmp_path / "checkpoint.pt").write_bytes(saved(content))
    with pytest.raises(InputError, match=r"checkpoint\.pt"):
        env_of_checkpoint(tmp_path)


def test_neither_torch_nor_the_weights_are_loaded(tmp_path: Path) -> None:
    folder = trained_on(load_env("surface_d3_depol"), tmp_path / "round")
    code = (
        "import sys; from autoqec.decoders.checkpoint_env import env_of_checkpoint as find; "
        "print(find(sys.argv[1]).origin, 'torch' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(folder)], capture_output=True, text=True, check=True
    )
    assert done.stdout == "surface_d3_depol False\n"
