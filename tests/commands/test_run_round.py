"""`autoqec run-round` as a user meets it: where a round says it comes from, and what it leaves when it is refused."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

import autoqec
from autoqec.envs.load import builtin_folder
from autoqec.errors import InputError
from autoqec.io.hashing import sha256_file
from autoqec.runner.schema import RoundMetrics, RunnerConfig
from cli.autoqec import main

RUN = "20260420-101010"
A, B = f"exp/{RUN}/01-a", f"exp/{RUN}/02-b"
ATTEMPT = "6f9619ff-8b86-4011-b42d-00c04fc964ff"
CONFIG = {
    "type": "neural_bp",
    "output_mode": "soft_priors",
    "neural_bp": {"iterations": 2},
    "training": {"epochs": 0},
}
BUILTIN = "surface_d3_depol"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory: a checkout with one commit, a config and a small environment."""
    text = (builtin_folder() / f"{BUILTIN}.yaml").read_text()
    for old, new in (
        ("[1e-3, 5e-3, 1e-2]", "[1e-2]"),
        ("target_p: 1e-3", "target_p: 1e-2"),
        ("min_shots_val: 100000", "min_shots_val: 10000"),
        ("[pymatching, pymatching_correlated, belief_matching]", "[pymatching]"),
    ):
        assert old in text
        text = text.replace(old, new)
    (tmp_path / "env.yaml").write_text(text)
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(CONFIG))
    git(tmp_path, "init", "--quiet", "-b", B)
    git(tmp_path, "add", "-A")
    git(tmp_path, "-c", "user.name=u", "-c", "user.email=u@h", "commit", "--quiet", "-m", "start")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def git(folder: Path, *arguments: str) -> str:
    return subprocess.run(
        ["git", "-C", str(folder), *arguments], check=True, capture_output=True, text=True
    ).stdout.strip()


def run_round(*options: str, env: str = "env.yaml", config: str = "config.yaml") -> Result:
    return CliRunner().invoke(main, ["run-round", env, config, "round", *options])


def metrics() -> RoundMetrics:
    return RoundMetrics.model_validate_json(Path("round/metrics.json").read_text())


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[RunnerConfig, str | None]]:
    """What the runner was asked for, without the training."""
    found: list[tuple[RunnerConfig, str | None]] = []

    def catch(config: RunnerConfig, *_: Any, commit_sha: str | None, **__: Any) -> RoundMetrics:
        found.append((config, commit_sha))
        return RoundMetrics(status="train_error", status_reason="not trained")

    monkeypatch.setattr("autoqec.runner.supervise.run_round", catch)
    return found


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--fork-from", "baseline"], "fork_from"),
        (["--code-cwd", ".", "--branch", B], "absolute"),
        (["--code-cwd", "/nowhere", "--branch", B, "--fork-from", A], "code_cwd, branch, fork_from"),
        (["--branch", B], "branch"),
        (["--fork-from", json.dumps([A, B]), "--compose-mode", "pure"], "fork_from, compose_mode"),
        (["--branch", B, "--round-attempt-id", ATTEMPT], "--code-cwd"),
        (["--code-cwd", "/nowhere", "--branch", B, "--round-attempt-id", ATTEMPT], "not the top of a git"),
        (["--fork-from", A, "--compose-mode", "pure", "--round-attempt-id", ATTEMPT], "list of parents"),
        (["--fork-from", json.dumps([A, B]), "--round-attempt-id", ATTEMPT], "compose_mode is required"),
    ],
)
def test_half_of_a_rounds_origin_is_refused(options: list[str], said: str) -> None:
    done = run_round(*options)
    assert done.exit_code == 2, done.output
    assert done.stderr.count("error: ") == 1
    assert said in done.stderr
    assert not Path("round").exists()


def test_a_missing_attempt_is_named_with_its_mend() -> None:
    said = run_round("--fork-from", "baseline").stderr
    assert said.startswith("error: run-round: round_attempt_id: ")
    assert "hint: give the attempt's UUID as --round-attempt-id" in said


@pytest.mark.parametrize("given", [[json.dumps([B, A])], [f' [ "{B}",\n"{A}" ]'], [B, A]])
def test_a_list_of_parents_is_a_compose_round(
    asked: list[tuple[RunnerConfig, str | None]], given: list[str]
) -> None:
    forks = [word for name in given for word in ("--fork-from", name)]
    run_round(*forks, "--compose-mode", "pure", "--round-attempt-id", ATTEMPT)
    ((config, _),) = asked
    assert config.fork_from == config.fork_from_ordered == [B, A]
    assert (config.fork_from_canonical, config.compose_mode) == (f"{A}|{B}", "pure")
    words = config.invocation_argv or []
    assert [word for word in words if word.startswith("--fork-from")] == [
        f"--fork-from={B}",
        f"--fork-from={A}",
    ]


@pytest.mark.parametrize(
    "given",
    [
        [f'["{A}", "{B}"'],
        [f'["{A}", 2]'],
        [f'["{A}", ["{B}"]]'],
        ["[]"],
        [f'["{A}"]'],
        [f'["{A}", "{A}"]'],
        [f'["{A}", ""]'],
        [json.dumps([A, B]), "baseline"],
        ['{"a": "b"}'],
        ["two words"],
        [""],
    ],
)
def test_parents_that_are_no_branches_are_refused(given: list[str]) -> None:
    forks = [word for name in given for word in ("--fork-from", name)]
    done = run_round(*forks, "--compose-mode", "pure", "--round-attempt-id", ATTEMPT)
    assert done.exit_code == 2, done.output
    assert "fork" in done.stderr
    assert "Traceback" not in done.stderr
    assert not Path("round").exists()


@pytest.mark.slow
def test_the_metrics_of_a_worktree_round_name_branch_and_commit(folder: Path) -> None:
    options = ["--code-cwd", str(folder), "--branch", B, "--fork-from", A, "--round-attempt-id", ATTEMPT]
    done = run_round(*options, "--json")
    assert done.exit_code == 0, done.output
    found = metrics()
    assert json.loads(done.stdout) == json.loads(Path("round/metrics.json").read_text())
    assert (found.status, found.branch, found.commit_sha) == ("ok", B, git(folder, "rev-parse", "HEAD"))
    assert (found.round_attempt_id, found.reconcile_id, found.fork_from) == (ATTEMPT, None, A)
    manifest = json.loads(Path("round/artifact_manifest.json").read_text())
    assert manifest["artifacts"]["metrics.json"] == sha256_file(folder / "round" / "metrics.json")


def test_a_builtin_environment_has_a_path_and_a_hash(folder: Path) -> None:
    (folder / BUILTIN).mkdir()  # which is not the environment
    (folder / "config.yaml").write_text(yaml.safe_dump({**CONFIG, "training": {"batch_size": 10**9}}))
    run_round(env=BUILTIN)
    manifest = json.loads(Path("round/artifact_manifest.json").read_text())
    path = builtin_folder() / f"{BUILTIN}.yaml"
    assert (manifest["env_yaml_path"], manifest["env_yaml_sha256"]) == (str(path), sha256_file(path))
    assert len(manifest["env_hash"]) == 64
    assert manifest["invocation_argv"][:3] == ["autoqec", "run-round", BUILTIN]


def test_two_ways_to_write_a_command_are_recorded_as_one(
    folder: Path, asked: list[tuple[RunnerConfig, str | None]]
) -> None:
    (folder / "link.yaml").symlink_to("env.yaml")
    run_round("--seed", "7", "--profile", "dev", "--compile")
    run_round("--compile", "--profile=dev", "--wall-clock=1800", "--seed=7", "--json", env="./link.yaml")
    first, second = (config.invocation_argv for config, _ in asked)
    assert first == second
    assert first == [
        *(
            "autoqec",
            "run-round",
            str(folder / "env.yaml"),
            str(folder / "config.yaml"),
            str(folder / "round"),
        ),
        *("--profile=dev", "--seed=7", "--wall-clock=1800.0", "--compile"),
    ]
    again = CliRunner().invoke(main, first[1:])
    assert asked[2][0] == asked[0][0], again.output


def test_a_start_is_a_folder_that_is_there_and_stands_in_the_command_line(
    folder: Path, asked: list[tuple[RunnerConfig, str | None]]
) -> None:
    (folder / "earlier").mkdir()
    run_round("--init-from", "earlier")
    (config, _), place = asked[0], str(folder / "earlier")
    assert (config.init_from, config.invocation_argv[-1]) == (place, f"--init-from={place}")
    result = run_round("--init-from", "nowhere")
    assert result.exit_code == 2
    assert "nowhere is not a folder" in result.stderr
    assert len(asked) == 1


def test_the_function_asks_for_the_same_round_as_the_command(
    folder: Path, asked: list[tuple[RunnerConfig, str | None]]
) -> None:
    where = {"code_cwd": str(folder), "branch": B, "fork_from": A, "round_attempt_id": ATTEMPT}
    words = [word for name, value in where.items() for word in (f"--{name.replace('_', '-')}", value)]
    run_round("--seed", "7", "--profile", "prod", *words)
    for env in ("env.yaml", autoqec.load_env("env.yaml")):
        found = autoqec.train(env, "config.yaml", "round", seed=7, profile="prod", check=False, **where)
        assert found.metrics.status == "train_error"
    (command, commit), *functions = asked
    assert commit == git(folder, "rev-parse", "HEAD")
    assert functions == [(command.model_copy(update={"invocation_argv": None}), commit)] * 2
    with pytest.raises(autoqec.AutoQECError, match="train_error: not trained"):
        autoqec.train("env.yaml", "config.yaml", "round")


def test_the_function_refuses_what_the_command_refuses(folder: Path) -> None:
    for config in ({"type": "gnn"}, "bad.yaml"):
        (folder / "bad.yaml").write_text("type: gnn\n")
        with pytest.raises(InputError, match="output_mode"):
            autoqec.train("env.yaml", config, "round")
        assert (metrics().status, metrics().failure_kind) == ("compile_error", "config_invalid")
    with pytest.raises(InputError, match=r"nowhere\.yaml"):
        autoqec.train("env.yaml", "nowhere.yaml", "other")
    with pytest.raises(InputError, match="round_attempt_id"):
        autoqec.train("env.yaml", "config.yaml", "other", branch=B)
    with pytest.raises(InputError, match="color"):
        autoqec.train("env.yaml", "config.yaml", "other", color="red")
    assert not Path("other").exists()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("type: gnn\n", "output_mode"),
        ("type: neural_bp\nneural_bp: {iterations: 0}\n", "iterations"),
        ("[1", "1"),
    ],
)
def test_a_round_without_a_valid_config_has_metrics_that_say_so(folder: Path, text: str, said: str) -> None:
    (folder / "bad.yaml").write_text(text)
    options = ["--code-cwd", str(folder), "--branch", B, "--round-attempt-id", ATTEMPT]
    done = run_round(*options, config="bad.yaml")
    assert done.exit_code == 2
    found = metrics()
    assert found.status == "compile_error"
    assert found.status_reason == done.stderr.removeprefix("error: ").rstrip("\n")
    assert said in (found.status_reason or "")
    assert (found.branch, found.commit_sha) == (B, git(folder, "rev-parse", "HEAD"))
    assert (found.checkpoint_path, found.training_log_path) == (None, None)


def test_a_mistake_does_not_cost_a_trained_round(folder: Path) -> None:
    kept = {"checkpoint.pt": "weights", "metrics.json": '{"status": "ok"}'}
    (folder / "round").mkdir()
    for name, text in kept.items():
        (folder / "round" / name).write_text(text)
    (folder / "bad.yaml").write_text("type: gnn\n")
    for config in ("bad.yaml", "nowhere.yaml"):
        assert run_round(config=config).exit_code == 2
    assert {name: (folder / "round" / name).read_text() for name in kept} == kept


def test_a_config_that_is_not_there_makes_no_round() -> None:
    assert run_round(config="nowhere.yaml").exit_code == 2
    assert not Path("round").exists()


def test_the_last_line_for_people_is_the_result_for_scripts(folder: Path) -> None:
    (folder / "config.yaml").write_text(yaml.safe_dump({**CONFIG, "training": {"batch_size": 10**9}}))
    shown = run_round().stdout.splitlines()
    assert [line.startswith("AUTOQEC_RESULT_JSON=") for line in shown].count(True) == 1
    result = json.loads(shown[-1].removeprefix("AUTOQEC_RESULT_JSON="))
    assert result.pop("round_dir") == str(folder / "round")
    assert result == json.loads(Path("round/metrics.json").read_text())
