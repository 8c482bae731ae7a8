"""Which rounds train behind walls, and what they see there."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from autoqec.decoders.dsl_schema import PredecoderDSL
from autoqec.envs.environment import Environment
from autoqec.envs.load import load_env
from autoqec.layout import RoundDir
from autoqec.runner import supervise, wall
from autoqec.runner.failure_kinds import RoundFailed
from autoqec.runner.schema import RunnerConfig
from autoqec.runner.wall import Code, code_of
from autoqec.sandbox.installed import installed_root
from autoqec.sandbox.kinds import Unconfined, strongest

PLAIN = {
    "type": "neural_bp",
    "output_mode": "soft_priors",
    "neural_bp": {"iterations": 2},
    "training": {"epochs": 0},
}
CUSTOM = {
    "type": "gnn",
    "output_mode": "soft_priors",
    "gnn": {
        "message_fn": {
            "type": "custom",
            "code": "def message(x_src, x_dst, e_ij, params):\n    return x_src\n",
        }
    },
}
MODULE = "autoqec/decoders/modules/predecoders.py"
needs_sandbox = pytest.mark.skipif(not strongest().confines, reason="no sandbox works on this machine")


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A folder with the installed code, as a worktree of a round that edited nothing."""
    root = tmp_path / "worktree"
    for name in ("autoqec", "cli"):
        shutil.copytree(installed_root() / name, root / name, ignore=shutil.ignore_patterns("__pycache__"))
    return root


def config(round_dir: Path, code: Path | None = None, data: dict = PLAIN) -> RunnerConfig:
    branch = {} if code is None else {"code_cwd": str(code), "branch": "exp/20260101-000000/01-x"}
    more = {} if code is None else {"round_attempt_id": "a", "fork_from": "baseline"}
    return RunnerConfig(env_name="x", predecoder_config=data, round_dir=str(round_dir), **branch, **more)


def chosen(config: RunnerConfig) -> Code:
    return code_of(config, PredecoderDSL.model_validate(config.predecoder_config))


def test_own_code_is_the_installed_package_also_for_a_worktree_that_is_the_same(
    tmp_path: Path, copy: Path
) -> None:
    assert chosen(config(tmp_path)) == Code(installed_root(), True)
    assert chosen(config(tmp_path, copy)) == Code(installed_root(), True)


def test_tier_2_an_edited_worktree_and_one_that_this_process_runs_from_are_not_own(
    tmp_path: Path, copy: Path
) -> None:
    assert not chosen(config(tmp_path, data=CUSTOM)).is_own
    assert not chosen(config(tmp_path, copy, CUSTOM)).is_own
    assert chosen(config(tmp_path, installed_root())) == Code(installed_root(), False)
    with (copy / MODULE).open("a") as file:
        file.write("\n")
    assert chosen(config(tmp_path, copy)) == Code(copy.resolve(), False)


def test_without_a_sandbox_foreign_code_is_refused_and_own_code_trains(
    tmp_path: Path, copy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mark = tmp_path / "ran"
    with (copy / MODULE).open("a") as file:
        file.write(f"\nopen({str(mark)!r}, 'w')\n")
    monkeypatch.setattr(wall, "strongest", Unconfined)
    monkeypatch.setattr(supervise, "ready", lambda *_: None)
    monkeypatch.chdir(copy)
    refused = supervise.run_round(config(tmp_path / "r", copy), load_env("surface_d3_depol"), commit_sha="c")
    assert (refused.status, refused.failure_kind) == ("compile_error", "no_sandbox")
    assert "autoqec doctor" in (refused.failure_hint or "")
    assert not mark.exists()


def test_only_files_of_the_environment_are_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shown = {}

    class Watching(Unconfined):
        confines = True

        def wrap(self, argv, **options):
            shown.update(options)
            return list(argv)

    monkeypatch.setattr(wall, "strongest", Watching)
    monkeypatch.setenv("AUTOQEC_HOME", str(tmp_path / "round" / "deep"))
    spec = load_env("surface_d3_depol").spec.model_dump()
    spec["code"] |= {"type": "parity_check_matrix", "source": "css?hx=a%20x.npz&hz=sub/z.npz"}
    home = tmp_path / "home"
    (home / "sub").mkdir(parents=True)
    for name in ("a x.npz", "sub/z.npz", "diary", "env.yaml"):
        (home / name).write_text("")
    env = Environment(
        type(load_env("surface_d3_depol").spec).model_validate(spec), root=home, origin=str(home / "env.yaml")
    )
    files = RoundDir(tmp_path / "elsewhere")
    files.confined.mkdir(parents=True)
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    start = wall.confined(["python"], Code(installed_root(), False), env, files, scratch)
    inside = {path for path in shown["readable"] if path.is_relative_to(home)}
    assert inside == {home / "a x.npz", home / "sub" / "z.npz", home / "env.yaml"}
    assert shown["writable"] == [files.confined, scratch]
    assert start.variables["HOME"] == str(scratch)
    assert not {"AUTOQEC_HOME", "XDG_CACHE_HOME", "VIRTUAL_ENV"} & start.variables.keys()


@pytest.mark.parametrize("home", ["round/.training/home", "round/.training"])
def test_a_round_in_the_verifiers_folder_or_the_other_way_round_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, home: str
) -> None:
    monkeypatch.setenv("AUTOQEC_HOME", str(tmp_path / home))
    files = RoundDir(tmp_path / "round")
    files.confined.mkdir(parents=True)
    (tmp_path / "s").mkdir()
    monkeypatch.setattr(wall, "strongest", _Claiming)
    with pytest.raises(RoundFailed, match="verifier"):
        wall.confined(
            ["x"], Code(installed_root(), False), load_env("surface_d3_depol"), files, tmp_path / "s"
        )


class _Claiming(Unconfined):
    confines = True


def test_the_verifiers_folder_is_hidden_where_something_shown_holds_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AUTOQEC_HOME", str(tmp_path / "autoqec" / "data"))
    assert wall._hidden([tmp_path / "autoqec"], []) == [
        tmp_path / "autoqec" / "data",
        tmp_path / "autoqec" / "data" / "verifier",
    ]
    assert wall._hidden([tmp_path / "cli"], []) == []
    # what holds the round itself cannot be hidden as a whole
    shown = [tmp_path / "autoqec", tmp_path / "autoqec" / "data" / "round_1"]
    assert wall._hidden(shown, []) == [tmp_path / "autoqec" / "data" / "verifier"]


SPY = """
import json, os, sys
def attempt(act):
    try:
        return act()
    except OSError as error:
        return type(error).__name__
job = json.load(open(sys.argv[1]))
seen = {{
    "secret": attempt(lambda: open({secret!r}).read()),
    "round": attempt(lambda: open({report!r}, "w").write("VERIFIED")),
    "code": attempt(lambda: open(__file__, "a").write("x")),
    "variables": sorted(os.environ),
    "processes": [pid for pid in attempt(lambda: os.listdir("/proc")) if pid.isdigit()],
}}
open(os.path.join(job["config"]["round_dir"], "train.log"), "w").write(json.dumps(seen))
os._exit(3)
"""


@pytest.mark.slow
@needs_sandbox
@pytest.mark.parametrize("starts_in", ["installed", "worktree"])
def test_an_edited_module_sees_neither_secret_nor_round_folder(
    tmp_path: Path, copy: Path, starts_in: str
) -> None:
    """As the loop starts it, and as someone who runs `python -m` inside the worktree does."""
    home, round_dir = tmp_path / "home", tmp_path / "round"
    home.mkdir()
    (home / "secret").write_text("sesame")
    with (copy / MODULE).open("a") as file:
        file.write(
            SPY.format(secret=str(home / "secret"), report=str(round_dir / "verification_report.json"))
        )
    git = ["git", "-c", "user.name=a", "-c", "user.email=a", "-C", str(copy)]
    for words in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "x"]):
        subprocess.run([*git, *words], check=True)
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(PLAIN))
    options = ["--code-cwd", str(copy), "--branch", "exp/20260101-000000/01-x", "--fork-from", "baseline"]
    options += ["--round-attempt-id", "a", "--json", "surface_d3_depol"]
    done = subprocess.run(
        [sys.executable, *(["-P"] if starts_in == "installed" else []), "-m", "cli.autoqec", "run-round"]
        + [*options, str(tmp_path / "config.yaml"), str(round_dir)],
        cwd=copy,
        env={
            **os.environ,
            "AUTOQEC_HOME": str(home),
            "SOME_API_KEY": "k",
            "PYTHONPATH": str(installed_root() if starts_in == "installed" else copy),
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1, done.stderr
    assert json.loads(done.stdout)["failure_facts"] == {"exit_code": 3}
    seen = json.loads((round_dir / "train.log").read_text())
    assert "sesame" not in seen["secret"]
    assert seen["round"] in ("FileNotFoundError", "PermissionError", "OSError")
    assert seen["code"] in ("PermissionError", "OSError")
    assert not {"AUTOQEC_HOME", "SOME_API_KEY"} & set(seen["variables"])
    assert len(seen["processes"]) < 5
    assert sorted(path.name for path in round_dir.iterdir() if not path.name.startswith(".")) == [
        "artifact_manifest.json", "config.yaml", "metrics.json", "runner.log", "train.log",
    ]  # fmt: skip
