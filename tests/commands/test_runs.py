"""`autoqec runs`, and the ids that it lists in the place of run folders."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from offline_world import plan
from tiny_runs import changed, make_checkout, play
from written_reports import leave_report

from autoqec.commands import main
from autoqec.io.locks import locked
from autoqec.layout import RunDir
from autoqec.runs.history import HistoryStore
from autoqec.runs.repository import open_checkout
from autoqec.runs.research_run import ResearchRun
from autoqec.runs.run import Run
from autoqec.runs.worktrees import Limits

OLD, NEW = "20260101-000000", "first-try"


def autoqec(*arguments: str) -> Result:
    return CliRunner().invoke(main, arguments)


@pytest.fixture
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A run with a verified round, and later one with a name of its own and two rounds."""
    monkeypatch.setenv("AUTOQEC_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    make_checkout(tmp_path / "checkout")
    old = _begin(tmp_path, OLD, rounds=1)
    _record(old.files, 1, "VERIFIED")
    leave_report(
        old.files.round(1).path, delta=0.01, half=1e-3, flops=9, params=9,
        branch=f"exp/{OLD}/01-x", commit_sha="a" * 40, ler_baseline_holdout=0.02, ler_holdout=0.01,
    )  # fmt: skip
    new = _begin(tmp_path, NEW, rounds=4)
    for slug, iterations in (("a", 6), ("b", 7)):
        play(new, slug, changed(neural_bp={"iterations": iterations}))
    return tmp_path


def _begin(workspace: Path, run_id: str, *, rounds: int) -> Run:
    made = ResearchRun.begin(
        workspace, "surface_d3_depol", open_checkout(workspace / "checkout"), plan(rounds=rounds), run_id
    )
    return Run.open(made.run.files.path, Limits(min_free_gb=0.0))


def _record(files: RunDir, number: int, verdict: str) -> None:
    row = {
        "status": "ok",
        "round": number,
        "verdict": verdict,
        "round_attempt_id": f"attempt-{number}",
        "branch": f"exp/{files.path.name}/{number:02d}-x",
        "commit_sha": "a" * 40,
        "fork_from": "baseline",
        "train_seed": 1,
    }
    HistoryStore(files).append(row)


def listed() -> list[dict[str, object]]:
    done = autoqec("runs", "--json")
    assert done.exit_code == 0, done.output
    found: list[dict[str, object]] = json.loads(done.stdout)
    return found


def test_runs_are_listed_with_the_newest_first(workspace: Path) -> None:
    new, old = listed()
    assert (new["run_id"], new["rounds"], new["rounds_planned"], new["verified"]) == (NEW, 2, 4, 0)
    assert (new["state"], new["best_ratio"]) == ("unfinished", None)
    assert (old["run_id"], old["rounds"], old["verified"], old["unbacked"]) == (OLD, 1, 1, 0)
    assert old["state"] == "complete"
    assert old["best_ratio"] == pytest.approx(2.0)
    shown = autoqec("runs").output
    assert shown.index(NEW) < shown.index(OLD)
    assert "2 of 4" in shown


def test_a_run_at_work_is_running(workspace: Path) -> None:
    with locked(RunDir(workspace / "runs" / NEW).lock):
        assert listed()[0]["state"] == "running"
    assert listed()[0]["state"] == "unfinished"


def test_a_verified_round_without_its_report_is_not_counted(workspace: Path) -> None:
    _record(RunDir(workspace / "runs" / NEW), 3, "VERIFIED")
    assert (listed()[0]["verified"], listed()[0]["unbacked"]) == (0, 1)
    assert "no report" in autoqec("runs").output


def test_a_damaged_run_does_not_hide_the_others(workspace: Path) -> None:
    (workspace / "runs" / OLD / "run.json").write_text("{")
    new, old = listed()
    assert (new["run_id"], old["run_id"], old["state"]) == (NEW, OLD, "unreadable")
    assert "run.json" in str(old["reason"])


def test_no_runs_is_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert listed() == []
    assert "autoqec run " in autoqec("runs").output


@pytest.mark.parametrize(
    "words",
    [
        ("pareto", "{}"),
        ("review", "{}", "--json"),
        ("fork-graph", "{}"),
        ("reconcile", "{}", "--dry-run"),
        ("machine-state", "--run", "{}", "--json"),
        ("step", "end", "--run", "{}"),
        ("diagnose", "{}", "--json"),
        ("diagnose", "{}/round_1", "--json"),
    ],
    ids=" ".join,
)
def test_an_id_stands_for_the_folder(workspace: Path, words: tuple[str, ...]) -> None:
    RunDir(workspace / "runs" / NEW).pareto.write_text("[]\n")
    by_id, by_path = (autoqec(*(word.replace("{}", name) for word in words)) for name in (NEW, f"runs/{NEW}"))
    assert by_path.exit_code == 0, by_path.output
    assert by_id.exit_code == 0, by_id.output
    if words[0] != "machine-state":  # whose free memory changes
        assert by_id.output == by_path.output


def test_rounds_and_packages_by_id(workspace: Path) -> None:
    assert autoqec("package-run", NEW).exit_code == 0
    assert (workspace / f"{NEW}.tar.gz").is_file()
    missing = autoqec("replay", f"{NEW}/round_7")
    assert missing.exit_code == 2
    assert f"run {NEW} has no round_7" in missing.output
    assert "not a readable checkpoint" in autoqec("export", f"{NEW}/round_1", "--onnx", "m.onnx").output


def test_a_folder_of_the_same_name_comes_first(workspace: Path) -> None:
    (workspace / NEW).mkdir()
    done = autoqec("fork-graph", NEW)
    assert done.exit_code == 2
    assert "it has no run.json" in done.output


def test_a_mistyped_id_is_named(workspace: Path) -> None:
    done = autoqec("review", "first-tri")
    assert done.exit_code == 2
    assert f"did you mean '{NEW}'?" in done.output
    assert "autoqec runs" in done.output
