"""Every way in which branches, worktrees and history can disagree, in real repositories; twice, as it must not matter."""

from __future__ import annotations

import json
import shlex
import subprocess
from pathlib import Path

import pytest
from tiny_runs import CONFIG, changed, fake_runner, play, user_git

from autoqec.errors import AutoQECError
from autoqec.layout import ExperimentDir
from autoqec.runs import stale_locks
from autoqec.runs.experiment import Experiment
from autoqec.runs.reconcile import Report, reconcile
from autoqec.runs.run import Run
from autoqec.search.proposal import Proposal


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stale_locks, "_PATIENCE_S", 0.01)


def settled(run: Run) -> Report:
    """Reconciles, with a dry run before that must say the same and change nothing, and one after that finds nothing."""
    before = state(run)
    announced = reconcile(run, dry_run=True)
    assert state(run) == before
    report = reconcile(run)
    assert announced.actions == report.actions
    again = reconcile(run)
    assert again.actions == []
    assert json.loads(run.files.history_array.read_text()) == run.history.rows()
    return report


def state(run: Run) -> object:
    history = run.files.history.read_bytes() if run.files.history.exists() else b""
    return (
        history,
        run.repository.git.refs("refs/"),
        sorted(map(str, (run.repository.root / ".git").rglob("*.lock"))),
    )


def kinds(report: Report) -> list[str]:
    return [kind for kind, _ in report.actions]


def begin(run: Run, slug: str = "x") -> Experiment:
    return Experiment.begin(run, Proposal(hypothesis="h", slug=slug))


def branches(run: Run) -> set[str]:
    return {ref.removeprefix("refs/heads/") for ref in run.repository.git.refs("refs/heads/")}


def test_a_run_in_order_is_left_alone(run: Run) -> None:
    play(run, "a", CONFIG)
    assert reconcile(run).actions == []
    assert reconcile(run).pauses == []


def test_an_empty_branch_is_deleted(run: Run, checkout: Path) -> None:
    parent = play(run, "a", CONFIG)
    user_git(checkout, "branch", f"exp/{run.run_id}/07-empty", run.info.base_commit)
    user_git(checkout, "branch", f"exp/{run.run_id}/08-also-empty", parent["branch"])
    report = settled(run)
    assert kinds(report) == ["delete_empty_branch"] * 2
    assert branches(run) == {"main", parent["branch"]}
    assert len(run.history.rows()) == 1


def test_an_empty_branch_with_artifacts_is_kept(run: Run, checkout: Path) -> None:
    user_git(checkout, "branch", f"exp/{run.run_id}/07-x", run.info.base_commit)
    run.files.round(7).path.mkdir()
    run.files.round(7).train_log.write_text("1\t0.5\n")
    report = settled(run)
    assert kinds(report) == ["quarantine_branch"]
    assert len(report.pauses) == 1
    assert branches(run) == {"main", f"quarantine/{run.run_id}/07-x"}


def lose_row(run: Run, *, pointer: bool = True, attempt: bool = True) -> dict:
    """A finished round that history forgot."""
    row = play(run, "lost", CONFIG)
    run.files.history.write_bytes(b"")
    record = ExperimentDir("").record(run.run_id, 1)
    git = run.repository.git
    damage = [path for path, keep in ((record.pointer, pointer), (record.attempt, attempt)) if not keep]
    if damage:
        from autoqec.runs.repository import commit_files

        tip = git.branch(row["branch"])
        sha = commit_files(git, tip, {path.as_posix(): b'{"run_id": "x"}' for path in damage}, "damage\n")
        git.move_ref(f"refs/heads/{row['branch']}", sha, before=tip)
    return row


def test_a_branch_that_history_forgot_is_quarantined_with_its_attempt(run: Run) -> None:
    row = lose_row(run)
    report = settled(run)
    assert kinds(report) == ["quarantine_branch"]
    assert report.pauses == []
    (orphan,) = run.history.rows()
    assert orphan["status"] == "orphaned_branch"
    assert orphan["round_attempt_id"] == row["round_attempt_id"]
    assert orphan["commit_sha"] == row["commit_sha"]
    assert orphan["branch"] == f"quarantine/{run.run_id}/01-lost"
    assert orphan["reconcile_id"] is None
    assert branches(run) == {"main", orphan["branch"]}
    assert begin(run).name.round == 2


def test_a_pointer_with_a_gap_leaves_the_record_of_the_code_commit(run: Run) -> None:
    row = lose_row(run, pointer=False)
    assert settled(run).pauses == []
    assert run.history.rows()[0]["round_attempt_id"] == row["round_attempt_id"]


def test_an_attempt_that_nothing_names_gets_an_id_and_pauses_the_run(run: Run) -> None:
    lose_row(run, pointer=False, attempt=False)
    report = settled(run)
    assert len(report.pauses) == 1
    (orphan,) = run.history.rows()
    assert orphan["round_attempt_id"] is None
    assert orphan["reconcile_id"]


@pytest.mark.parametrize("decision", ["keeps it", "deletes it"])
def test_an_orphan_that_nothing_names_pauses_every_time_until_a_person_decides(
    run: Run, decision: str
) -> None:
    lose_row(run, pointer=False, attempt=False)
    assert len(reconcile(run, dry_run=True).pauses) == 1
    (pause,) = settled(run).pauses
    tip = run.repository.git.branch(f"quarantine/{run.run_id}/01-lost")
    for _ in range(2):
        assert reconcile(run).pauses == reconcile(run, dry_run=True).pauses == [pause]
    commands = dict(zip(("keeps it", "deletes it"), pause.split("`")[1::2], strict=True))
    subprocess.run(shlex.split(commands[decision].replace("NAME", "mine")), check=True, capture_output=True)
    assert branches(run) == ({"main", "mine"} if decision == "keeps it" else {"main"})
    if decision == "keeps it":
        assert run.repository.git.branch("mine") == tip
    report = settled(run)
    assert (kinds(report), report.pauses) == (["note_deleted_branch"], [])
    assert begin(run).name.round == 2


def test_a_quarantine_that_was_cut_off_pauses_once_in_each_report(run: Run) -> None:
    row = lose_row(run, pointer=False, attempt=False)
    tip = run.repository.git.branch(row["branch"])
    settled(run)
    run.repository.git.create_ref(
        f"refs/heads/{row['branch']}", tip
    )  # killed before the old name was deleted
    report = settled(run)
    assert kinds(report) == ["quarantine_branch"]
    assert len(report.pauses) == 1
    assert len(run.history.rows()) == 1


def test_a_branch_with_a_foreign_name_is_quarantined_too(run: Run, checkout: Path) -> None:
    user_git(checkout, "checkout", "-q", "-b", f"exp/{run.run_id}/My_Idea")
    user_git(checkout, "commit", "-q", "--allow-empty", "-m", "by hand")
    report = reconcile(run)
    assert report.actions == []
    assert "checked out" in report.pauses[0]
    user_git(checkout, "checkout", "-q", "main")
    report = settled(run)
    assert kinds(report) == ["quarantine_branch"]
    assert run.history.rows()[0]["round"] is None


def test_two_branches_on_one_commit_do_not_vouch_for_each_other(run: Run) -> None:
    row = lose_row(run)
    git = run.repository.git
    git.create_ref(f"refs/heads/exp/{run.run_id}/05-twin", git.branch(row["branch"]))
    settled(run)
    assert branches(run) == {"main", *(f"quarantine/{run.run_id}/{name}" for name in ("01-lost", "05-twin"))}


def test_a_taken_quarantine_name_halts(run: Run) -> None:
    row = lose_row(run)
    git = run.repository.git
    git.create_ref(f"refs/heads/quarantine/{run.run_id}/01-lost", run.info.base_commit)
    report = reconcile(run)
    assert report.actions == []
    assert "another commit" in report.pauses[0]
    assert row["branch"] in branches(run)


def test_a_branch_deleted_by_hand_is_noted_once_and_old_rows_stay(run: Run, checkout: Path) -> None:
    row = play(run, "a", CONFIG)
    before = run.files.history.read_bytes()
    user_git(checkout, "branch", "-D", row["branch"])
    assert kinds(settled(run)) == ["note_deleted_branch"]
    assert run.files.history.read_bytes().startswith(before)
    deleted = run.history.rows()[1]
    assert deleted["status"] == "branch_manually_deleted"
    assert (deleted["round_attempt_id"], deleted["branch"]) == (row["round_attempt_id"], row["branch"])
    assert deleted["commit_sha"] is None
    command = deleted["status_reason"].split("`")[1].split()
    user_git(checkout, *command[1:])
    assert run.repository.git.is_ancestor(row["commit_sha"], row["branch"])


def test_a_quarantined_branch_deleted_by_hand_is_noted(run: Run, checkout: Path) -> None:
    lose_row(run)
    settled(run)
    user_git(checkout, "branch", "-D", f"quarantine/{run.run_id}/01-lost")
    assert kinds(settled(run)) == ["note_deleted_branch"]


def test_a_pareto_member_without_its_commit_pauses_every_time(run: Run) -> None:
    row = play(run, "a", CONFIG)
    member = {
        "round_attempt_id": row["round_attempt_id"], "commit_sha": "ab" * 20, "branch": row["branch"],
        "delta_vs_baseline_holdout": 0.01, "paired_eval_bundle_id": "b", "flops_per_syndrome": 1, "n_params": 1,
        "verdict": "VERIFIED", "delta_ci": [0.001, 0.02], "round": 1,
    }  # fmt: skip
    run.files.pareto.write_text(json.dumps([member]))
    for _ in range(2):
        (pause,) = reconcile(run).pauses
        assert "ab" * 20 in pause
    assert json.loads(run.files.pareto.read_text()) == [member]
    run.files.pareto.write_text(json.dumps([{**member, "commit_sha": row["commit_sha"]}]))
    assert reconcile(run).pauses == []


def test_locks_half_worktrees_and_temporaries_of_a_killed_git_are_cleared(run: Run, checkout: Path) -> None:
    play(run, "a", CONFIG)
    git_dir = checkout / ".git"
    half = checkout / ".worktrees" / f"exp-{run.run_id}-09-half"
    half.mkdir()
    (half / "file").write_text("")
    admin = git_dir / "worktrees" / f"exp-{run.run_id}-08-half"
    admin.mkdir(parents=True)
    (admin / "locked").write_text("initializing")
    (admin / "index.lock").write_text("")
    (git_dir / "refs" / "heads" / "exp" / run.run_id / "01-a.lock").write_text("")
    (git_dir / "packed-refs.lock").write_text("")
    (run.files.path / ".history.json.xyz.tmp").write_text("")
    mine = git_dir / "index.lock"
    mine.write_text("the user's own git is at work")
    report = settled(run)
    assert sorted(set(kinds(report))) == ["clear_lock", "remove_temporary", "remove_worktree"]
    assert not half.exists()
    assert not admin.exists()
    assert {path.name for path in git_dir.rglob("*.lock")} == {"index.lock", "autoqec.lock"}
    mine.unlink()


def test_worktrees_of_other_runs_and_of_the_user_are_left_alone(
    run: Run, checkout: Path, tmp_path: Path
) -> None:
    user_git(checkout, "worktree", "add", "-q", "-b", "mine", str(tmp_path / "mine"))
    other = checkout / ".worktrees" / "exp-20200101-000000-01-other"
    other.mkdir(parents=True)
    strange = checkout / ".worktrees" / f"exp-{run.run_id}-Strange"
    strange.mkdir()
    assert settled(run).actions == []
    assert other.is_dir()
    assert strange.is_dir()
    assert (tmp_path / "mine" / "README.md").is_file()


def test_a_torn_row_is_cut_and_reported(run: Run) -> None:
    play(run, "a", CONFIG)
    with run.files.history.open("a") as file:
        file.write('{"status": "o')
    report = settled(run)
    assert report.actions == [("cut_torn_row", repr(b'{"status": "o'))]


def test_rounds_in_flight_are_no_drift_and_go_on(run: Run, checkout: Path) -> None:
    early, late = begin(run, "early"), begin(run, "late")
    early.prepare()
    late.prepare()
    late.configure(CONFIG)
    late.commit()
    report = settled(run)
    assert report.actions == []
    assert report.in_flight == ["round 1 (prepared)", "round 2 (committed)"]
    for experiment in Experiment.in_flight(run):
        assert experiment.complete(CONFIG, runner=fake_runner)["status"] == "ok"


def test_a_branch_deleted_while_its_round_is_in_flight_comes_back(run: Run, checkout: Path) -> None:
    early, late = begin(run, "early"), begin(run, "late")
    early.prepare()
    late.prepare()
    late.configure(CONFIG)
    sha = late.commit()
    for experiment in (early, late):
        experiment.worktree.remove()
        user_git(checkout, "branch", "-D", experiment.name.branch)
    assert kinds(settled(run)) == ["restore_branch"]
    assert run.repository.git.branch(late.name.branch) == sha
    for experiment in Experiment.in_flight(run):
        assert experiment.complete(CONFIG, runner=fake_runner)["status"] == "ok"


def test_a_recorded_round_that_was_not_closed_is_closed(run: Run, checkout: Path) -> None:
    experiment = begin(run)
    experiment.prepare()
    experiment.configure(CONFIG)
    experiment.train(fake_runner)
    experiment.record()
    assert kinds(settled(run)) == ["close_round"]
    assert not run.journals()
    assert not list((checkout / ".worktrees").iterdir())


def test_a_conflict_that_was_not_recorded_is_recorded(run: Run, checkout: Path) -> None:
    parents = [play(run, f"p{n}", changed(neural_bp={"iterations": n}))["branch"] for n in (6, 9)]
    proposal = Proposal(hypothesis="h", slug="x", fork_from=parents, compose_mode="pure")
    assert Experiment.begin(run, proposal).prepare() is None
    report = reconcile(run)
    assert kinds(report) == ["record_round", "close_round"]
    assert run.history.rows()[-1]["status"] == "compose_conflict"
    assert not run.journals()
    assert reconcile(run).actions == []


def test_only_one_loop_works_on_a_run(run: Run) -> None:
    with (
        run.exclusive(),
        pytest.raises(AutoQECError, match="locked by process"),
        Run.open(run.files.path).exclusive(),
    ):
        pass
