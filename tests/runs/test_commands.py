"""The commands as a user calls them."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result
from safetensors.numpy import save_file
from tiny_runs import CONFIG, changed, fake_runner, play, user_git
from warm_processes import autoqec_text

from autoqec.commands import main
from autoqec.errors import InputError
from autoqec.layout import RoundDir, compiled_kernels, failure_cache
from autoqec.runner.schema import Failure, RoundMetrics, RunnerConfig
from autoqec.runs import fork_graph
from autoqec.runs.experiment import Experiment
from autoqec.runs.replay import replay
from autoqec.runs.run import Run
from autoqec.runs.worktree_runner import Runner
from autoqec.search.proposal import Proposal


def call(*arguments: str | Path) -> Result:
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


@pytest.fixture
def played(run: Run) -> Run:
    a = play(run, "a", changed(neural_bp={"iterations": 6}))
    b = play(run, "b", changed(training={"epochs": 1}))
    c = play(run, "c", changed(neural_bp={"iterations": 9}), fork_from=b["branch"])
    play(run, "ab", fork_from=[a["branch"], b["branch"]], compose_mode="pure")
    play(run, "ac", fork_from=[a["branch"], c["branch"]], compose_mode="pure")
    return run


def test_the_fork_graph_as_text_json_and_dot(played: Run) -> None:
    path = played.files.path
    text = call("fork-graph", path).stdout
    assert text == call("fork-graph", path, "--text").stdout
    lines = [line.split("  delta")[0].rstrip() for line in text.splitlines()]
    assert lines[0].startswith("baseline (")
    assert lines[1:] == [
        "├─ 01-a  ok",
        "│  ├─ 04-ab  ok",
        next(line for line in lines if "compose_conflict" in line),
        "└─ 02-b  ok",
        "   └─ 03-c  ok",
    ]
    assert "with 02-b" in text
    assert "in experiment/neural_bp.yaml" in text
    graph = json.loads(call("fork-graph", path, "--json").stdout)
    assert graph == json.loads(played.files.fork_graph.read_text())
    assert len(graph["edges"]) == 7
    dot = call("fork-graph", path, "--dot").stdout
    assert dot.startswith("digraph")
    assert dot.count("->") == 7


def test_hostile_text_cannot_break_the_dot_file(run: Run) -> None:
    experiment = Experiment.begin(run, Proposal(hypothesis='"]; evil [label="\\', slug="x"))
    graph = fork_graph.build(run)
    assert graph["nodes"][0]["status"] == "in_flight"
    node = {**graph["nodes"][0], "status": 'a"; b\\'}
    dot = fork_graph.to_dot({**graph, "nodes": [node]})
    assert 'a\\"; b\\\\' in dot
    experiment.fail(Failure("given_up", "no"))


def test_the_graph_says_what_became_of_branches(played: Run, checkout: Path) -> None:
    branch = played.history.rows()[0]["branch"]
    user_git(checkout, "branch", "-D", branch)
    assert call("reconcile", played.files.path).exit_code == 0
    node = json.loads(call("fork-graph", played.files.path, "--json").stdout)["nodes"][0]
    assert (node["branch_exists"], node["fate"]) == (False, "branch_manually_deleted")
    assert "branch_manually_deleted" in call("fork-graph", played.files.path).stdout


def test_reconcile_says_what_it_does_and_exits_by_what_is_left(played: Run, checkout: Path) -> None:
    path = played.files.path
    assert call("reconcile", path).stdout == "Nothing to repair.\n"
    user_git(checkout, "branch", f"exp/{played.run_id}/77-x", played.info.base_commit)
    announced = call("reconcile", path, "--dry-run")
    assert announced.stdout == f"would delete empty branch: exp/{played.run_id}/77-x\n"
    assert call("reconcile", path).stdout == f"delete empty branch: exp/{played.run_id}/77-x\n"
    played.files.history.write_bytes(
        b"".join(played.files.history.read_bytes().splitlines(keepends=True)[1:])
    )
    user_git(checkout, "branch", "-f", played.history.rows()[0]["branch"], played.info.base_commit)
    done = call("reconcile", path, "--json")
    assert [kind for kind, _ in json.loads(done.stdout)["actions"]] == ["quarantine_branch"]


def test_reconcile_pauses_for_a_person(run: Run, checkout: Path) -> None:
    play(run, "a", CONFIG)
    user_git(checkout, "checkout", "-q", "-b", f"exp/{run.run_id}/mine", run.info.base_commit)
    user_git(checkout, "commit", "-q", "--allow-empty", "-m", "x")
    done = call("reconcile", run.files.path)
    assert done.exit_code == 3
    assert "for you to decide: branch" in done.stdout


def test_what_reconciliation_wrote_is_no_failed_round(played: Run, checkout: Path) -> None:
    def counted() -> dict:
        return json.loads(call("machine-state", "--run", played.files.path, "--json").stdout)["rounds"]

    before = counted()
    assert (before["ok"], before["failed"]) == (4, 1)  # one compose_conflict
    lines = played.files.history.read_bytes().splitlines(keepends=True)
    played.files.history.write_bytes(b"".join(lines[:2] + lines[3:]))
    user_git(checkout, "branch", "-D", played.history.rows()[0]["branch"])
    actions = json.loads(call("reconcile", played.files.path, "--json").stdout)["actions"]
    assert sorted(kind for kind, _ in actions) == ["note_deleted_branch", "quarantine_branch"]
    after = counted()
    assert (after["ok"], after["failed"]) == (3, 1)


def test_a_run_that_is_being_worked_on_is_left_alone(run: Run) -> None:
    with run.exclusive():
        done = autoqec_text("reconcile", str(run.files.path))
    assert done.returncode == 1
    assert "locked by process" in done.stderr


@pytest.mark.parametrize("verb", ["fork-graph", "reconcile", "package-run"])
def test_a_folder_that_is_no_run_is_bad_input(verb: str, tmp_path: Path) -> None:
    done = autoqec_text(verb, str(tmp_path))
    assert done.returncode == 2
    assert "run.json" in done.stderr


def test_package_and_check_on_the_command_line(played: Run, tmp_path: Path) -> None:
    target = tmp_path / "p.tar.gz"
    assert call("package-run", played.files.path, "--out", target).stdout.endswith("4 branches\n")
    done = call("verify-package", target, "--no-evaluate")
    assert done.exit_code == 0
    assert "The files agree with each other." in done.stdout
    assert json.loads(call("verify-package", target, "--no-evaluate", "--json").stdout)["ok"] is True


def test_a_replay_is_identical_or_says_what_differs(played: Run) -> None:
    for number in (1, 4):
        result = replay(played.files.round(number).path, fake_runner)
        assert (result.outcome, result.is_good, result.differences) == ("identical", True, {})

    def other(config: RunnerConfig) -> RoundMetrics:
        return fake_runner(config).model_copy(update={"n_params": 5, "delta_ler": -0.5})

    result = replay(played.files.round(1).path, other)
    assert (result.outcome, result.is_good) == ("differs", False)
    assert result.differences["n_params"][1] == 5


@pytest.mark.parametrize(("weight", "is_same"), [(1.0, True), (2.0, False)])
def test_a_replay_compares_the_numbers_and_not_who_wrote_them(
    played: Run, weight: float, is_same: bool
) -> None:
    """Code that is no longer the installed one signs its checkpoint with its branch."""

    def save(files: RoundDir, number: float, by: str) -> None:
        save_file({"w": np.full(3, number, dtype=np.float32)}, files.weights, {"autoqec": by})

    def again(config: RunnerConfig) -> RoundMetrics:
        save(RoundDir(config.round_dir), weight, "the code of a branch")
        return fake_runner(config)

    save(files := played.files.round(1), 1.0, "the installed package")
    result = replay(files.path, again)
    assert (result.same_weights, result.outcome == "identical") == (is_same, is_same)


def test_weights_that_are_none_are_found_before_a_replay_trains(played: Run) -> None:
    def trains(config: RunnerConfig) -> RoundMetrics:
        raise AssertionError(config)

    files = played.files.round(1)
    files.weights.write_bytes(b"no weights")
    with pytest.raises(InputError, match="safetensors"):
        replay(files.path, trains)


def test_a_replay_knows_what_is_compiled_and_no_figures_of_the_round(
    played: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AUTOQEC_CACHE", str(tmp_path / "cache"))
    for path in (compiled_kernels("some"), failure_cache("shots", "some")):
        path.parent.mkdir(parents=True)
        path.write_text("")
    seen: list[tuple[bool, bool]] = []

    def runner(*, variables: dict[str, str], **_: object) -> Runner:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("AUTOQEC_CACHE", variables["AUTOQEC_CACHE"])
            seen.append((compiled_kernels("some").exists(), failure_cache("shots", "some").exists()))
        return fake_runner

    monkeypatch.setattr("autoqec.runs.replay.SubprocessRunner", runner)
    replay(played.files.round(1).path)
    assert seen == [(True, False)]
    assert compiled_kernels("some").exists()


def test_a_replay_needs_the_recorded_commit_environment_and_config(played: Run, tmp_path: Path) -> None:
    files = played.files.round(1)
    pointer = json.loads(files.pointer.read_text())
    for field, value, said in (
        ("env_yaml_sha256", "0" * 64, "environment"),
        ("dsl_config_sha256", "0" * 64, "config"),
    ):
        damaged = {**pointer, "provenance": {**pointer["provenance"], field: value}}
        files.pointer.write_text(json.dumps(damaged))
        with pytest.raises(InputError, match=said):
            replay(files.path, fake_runner)
    files.pointer.write_text(json.dumps({**pointer, "commit_sha": "ab" * 20}))
    with pytest.raises(InputError, match="is gone"):
        replay(files.path, fake_runner)
    with pytest.raises(InputError, match="no pointer"):
        replay(tmp_path, fake_runner)
