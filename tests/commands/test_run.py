"""`autoqec run` and `autoqec step` as a user meets them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from warm_processes import autoqec_text

from autoqec.envs.load import builtin_folder
from autoqec.io.jsonl import JsonLines


def autoqec(workspace: Path, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "AUTOQEC_HOME": str(workspace / "home"), **variables}
    return autoqec_text(*arguments, cwd=workspace, env=environment)


def write_env(folder: Path, distance: int) -> None:
    """The builtin surface code at p = 1e-2 alone, with few shots: d3.yaml or d5.yaml."""
    text = (builtin_folder() / f"surface_d{distance}_depol.yaml").read_text()
    for old, new in (
        ("[1e-3, 5e-3, 1e-2]", "[1e-2]"),
        ("target_p: 1e-3", "target_p: 1e-2"),
        ("min_shots_train: 1000000", "min_shots_train: 20000"),
        ("min_shots_val: 100000", "min_shots_val: 40000"),
        ("min_shots_verify: 200000", "min_shots_verify: 100000"),
        ("[pymatching, pymatching_correlated, belief_matching]", "[pymatching]"),
    ):
        assert old in text
        text = text.replace(old, new)
    (folder / f"d{distance}.yaml").write_text(text)


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    write_env(tmp_path, 3)
    return tmp_path


def test_a_dry_run_says_what_would_be_done_and_writes_nothing(workspace: Path) -> None:
    done = autoqec(
        workspace, "run", "d3.yaml", "--dry-run", "--rounds", "7", "--round-minutes", "4.5", "--json"
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert (found["rounds"], found["round_minutes"]) == (7, 4.5)
    assert found["proposer"] == "optuna"
    assert found["verify_shots"] == 20_000
    assert found["first_config"]["type"] in ("neural_bp", "gnn", "hybrid")
    assert "optuna" in done.stderr  # says why nobody else proposes
    assert [path.name for path in workspace.iterdir()] == ["d3.yaml"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["run", "d3.yaml", "--proposer", "oracle"], "unknown proposer 'oracle'"),
        (["run", "d3.yaml", "--no-llm", "--proposer", "optuna"], "--no-llm"),
        (["run", "nowhere.yaml", "--no-llm"], "nowhere.yaml"),
        (["run", "d3.yaml", "--budget-usd", "lots"], "--budget-usd"),
        (["run", "d3.yaml", "--resume", "20200101-000000"], "20200101-000000"),
        (["run", "d3.yaml", "--resume", "../x"], "run id"),
        (["step", "begin"], "give one of the two"),
        (["step", "end", "--run", "nowhere"], "nowhere"),
    ],
)
def test_bad_input_is_one_error_and_leaves_nothing(workspace: Path, arguments: list[str], said: str) -> None:
    done = autoqec(workspace, *arguments)
    assert done.returncode == 2, (done.stdout, done.stderr)
    assert said in done.stderr
    assert "Traceback" not in done.stderr
    assert not (workspace / "runs").exists()
    assert not (workspace / ".autoqec").exists()


@pytest.mark.runs
def test_a_run_that_is_killed_in_training_goes_on_to_a_verified_front(workspace: Path) -> None:
    """Its round is untrained belief propagation: at d = 5 and p = 1e-2 a gain of 7 standard errors on validation shots."""
    write_env(workspace, 5)
    command = ["run", "d5.yaml", "--rounds", "1", "--proposer", "optuna", "--own-repository"]
    process = subprocess.Popen(
        [sys.executable, "-m", "autoqec", *command, "--run-id", "20260102-030405"],
        cwd=workspace,
        env={**os.environ, "AUTOQEC_HOME": str(workspace / "home")},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    run_dir = workspace / "runs" / "20260102-030405"
    journal = run_dir / "in_flight" / "round_1.json"
    while not (journal.exists() and json.loads(journal.read_text())["training"]):
        assert process.poll() is None, process.communicate()[1]
        time.sleep(0.1)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    assert not JsonLines(run_dir / "history.jsonl").rows()

    refused = autoqec(workspace, "run", "surface_d3_depol", "--resume", "20260102-030405")
    assert refused.returncode == 2
    assert "was started with" in refused.stderr
    done = autoqec(workspace, "run", "d5.yaml", "--resume", "20260102-030405", "--json")
    assert done.returncode == 0, done.stderr
    assert "resuming: round 1" in done.stderr
    found = json.loads(done.stdout)
    assert (found["rounds"], found["verified"]) == (1, 1)
    assert found["best"]["ratio"] > 1
    assert len(json.loads((run_dir / "pareto.json").read_text())) == len(found["front"])
    assert "VERIFIED" in (run_dir / "log.md").read_text()
    assert not list((workspace / ".autoqec").rglob(".worktrees/*"))
    again = autoqec(workspace, "run", "d5.yaml", "--resume", "20260102-030405", "--json")
    assert json.loads(again.stdout)["front"] == found["front"]  # nothing was left to do
    _what_files_claim_is_not_shown(workspace, run_dir, found)


def _what_files_claim_is_not_shown(workspace: Path, run_dir: Path, found: dict[str, Any]) -> None:
    """The end of a run shows what the verifier's reports say, whatever history and front say."""
    command = ("run", "d5.yaml", "--resume", "20260102-030405", "--json")
    history = (run_dir / "history.jsonl").read_text()
    row = json.loads(history)
    row["verification"]["ratio"] = 99.0
    (run_dir / "history.jsonl").write_text(json.dumps(row) + "\n")
    told = json.loads(autoqec(workspace, *command).stdout)
    assert (told["front"], told["not_backed"]) == (found["front"], None)
    (run_dir / "history.jsonl").write_text(history)
    (member,) = json.loads((run_dir / "pareto.json").read_text())
    member["flops_per_syndrome"] = 12
    (run_dir / "pareto.json").write_text(json.dumps([member]))
    told = json.loads(autoqec(workspace, *command).stdout)
    assert (told["front"], told["best"]) == ([], None)
    assert "flops_per_syndrome" in told["not_backed"]


@pytest.mark.runs
def test_the_smoke_loop_of_the_contract(workspace: Path) -> None:
    # Of this id, the two templates are untrained: a matter of seconds.
    command = ("run", "d3.yaml", "--rounds", "2", "--profile", "dev", "--no-llm", "--own-repository")
    done = autoqec(workspace, *command, "--run-id", "20260102-030437")
    assert done.returncode == 0, done.stderr
    run_dir = workspace / "runs" / "20260102-030437"
    names = {path.name for path in run_dir.iterdir()}
    assert {"history.jsonl", "history.json", "candidate_pareto.json", "round_1", "round_2"} <= names
    assert not {"log.md", "pareto.json", "pareto_preview.json"} & names
