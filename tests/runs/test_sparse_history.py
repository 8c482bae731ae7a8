"""A history row needs no more than its status and where it comes from: every reader does without the rest."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from offline_world import plan, play
from tiny_runs import user_git

from autoqec.commands import main
from autoqec.runs import chat
from autoqec.runs.plan import CHAT
from autoqec.runs.research_run import ResearchRun

WORKTREE = ("status", "branch", "commit_sha", "round_attempt_id")


def call(*arguments: object) -> Result:
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


def sparse(taken: ResearchRun, *kept: str) -> list[dict[str, Any]]:
    """Leaves the run's history with these fields only."""
    history = taken.run.files.history
    rows = [json.loads(line) for line in history.read_text().splitlines()]
    rows = [{name: row[name] for name in kept if name in row} for row in rows]
    history.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return rows


@pytest.fixture
def taken(tmp_path: Path) -> ResearchRun:
    return play(tmp_path, plan(rounds=2))[0]


def test_the_deleted_branch_of_a_sparse_row_is_noted_and_the_run_goes_on(
    taken: ResearchRun, tmp_path: Path
) -> None:
    first, _ = sparse(taken, *WORKTREE)
    user_git(tmp_path / "checkout", "branch", "-D", first["branch"])
    folder = taken.run.files.path
    done = call("reconcile", folder)
    assert (done.exit_code, done.stdout) == (0, f"note deleted branch: {first['branch']}\n")
    noted = json.loads(taken.run.files.history.read_text().splitlines()[-1])
    assert (noted["status"], noted["round"]) == ("branch_manually_deleted", 1)
    assert noted["round_attempt_id"] == first["round_attempt_id"]
    begun = call("step", "begin", "--run", folder)
    assert begun.exit_code == 0, begun.output
    assert json.loads(begun.stdout)["rounds_done"] == 2
    again, outcome = play(tmp_path, plan(rounds=3))
    assert (outcome.rounds, again.run.history.rows()[-1]["round"]) == (3, 3)


def test_a_row_that_names_no_attempt_gets_a_follow_up_of_its_own(taken: ResearchRun, tmp_path: Path) -> None:
    first, _ = sparse(taken, "status", "branch")
    user_git(tmp_path / "checkout", "branch", "-D", first["branch"])
    assert call("reconcile", taken.run.files.path).exit_code == 0
    noted = json.loads(taken.run.files.history.read_text().splitlines()[-1])
    assert noted["reconcile_id"]
    assert "None" not in noted["status_reason"]
    assert call("reconcile", taken.run.files.path).stdout == "Nothing to repair.\n"


@pytest.mark.slow
@pytest.mark.parametrize(
    "kept",
    [("status",), WORKTREE, (*WORKTREE, "delta_ler", "ler_plain_classical"), (*WORKTREE, "dsl_config")],
)
def test_every_command_reads_sparse_rows(taken: ResearchRun, tmp_path: Path, kept: tuple[str, ...]) -> None:
    sparse(taken, *kept)
    folder, archive = taken.run.files.path, tmp_path / "run.tar.gz"
    for arguments in (
        ("step", "begin", "--run", folder),
        ("step", "context", "ideator", "--run", folder),
        ("step", "end", "--run", folder),
        ("machine-state", "--run", folder),
        ("fork-graph", folder),
        ("diagnose", folder),
        ("review", folder),
        ("package-run", folder, "--out", archive),
        ("verify-package", archive, "--no-evaluate"),
    ):
        done = call(*arguments)
        assert done.exit_code in (0, 1), (arguments, done.output, done.exception)
        assert done.exception is None or isinstance(done.exception, SystemExit), (arguments, done.exception)
    assert play(tmp_path, plan(rounds=3))[1].rounds == 3


def test_the_rounds_of_sparse_rows_have_the_numbers_of_their_branches(
    taken: ResearchRun, tmp_path: Path
) -> None:
    first, _ = sparse(taken, *WORKTREE)
    folder = taken.run.files.path
    assert [one["round"] for one in json.loads(call("review", folder, "--json").stdout)["rounds"]] == [1, 2]
    nodes = json.loads(call("fork-graph", folder, "--json").stdout)["nodes"]
    assert [node["round"] for node in nodes] == [1, 2]
    taken.replan(proposer=CHAT)
    over = chat.propose(taken, None, first["round_attempt_id"])  # type: ignore[arg-type]  # known before it is read
    assert over["round_dir"].endswith("round_1")


def test_history_json_is_history_jsonl(taken: ResearchRun) -> None:
    rows = sparse(taken, *WORKTREE)
    assert call("reconcile", taken.run.files.path).exit_code == 0
    assert json.loads(taken.run.files.history_array.read_text()) == rows


def test_a_row_without_a_status_is_damage_and_says_where(taken: ResearchRun) -> None:
    sparse(taken, "branch")
    done = call("reconcile", taken.run.files.path)
    assert done.exit_code == 2
    assert "row 1: status: required key is missing" in done.stderr
