"""The loop with offline proposers: what is left on disk, what a crash changes, and that no part of a round is unplugged."""

from __future__ import annotations

import json
import os
import time
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from click.testing import CliRunner
from crash_points import in_child, with_crash
from offline_world import plan, play, steps, without_times
from tiny_runs import user_git

from autoqec.agents.failures import RoleFailure
from autoqec.commands import main
from autoqec.errors import AutoQECError
from autoqec.eval.pareto import ParetoRow, admit
from autoqec.layout import ExperimentDir, RoundDir
from autoqec.runs.experiment import Experiment
from autoqec.runs.history import FOLLOW_UPS
from autoqec.runs.pointer import read_pointer
from autoqec.runs.research_run import NO_HYPOTHESIS, Paused
from autoqec.search.analyst import Analysis, analyse
from autoqec.search.proposal import Proposal, RoundContext, short_name

pytestmark = pytest.mark.runs

CONFIG = {
    "type": "neural_bp",
    "output_mode": "soft_priors",
    "neural_bp": {"iterations": 5},
    "training": {"epochs": 0},
}


class Script:
    """A proposer that says what a test wants. Each line: a hypothesis, a config or a failure, and a file it edits."""

    name = "script"

    def __init__(self, *lines: dict) -> None:
        self._lines = lines

    def _line(self, context: RoundContext) -> dict:
        return self._lines[(context.round - 1) % len(self._lines)]

    def propose(self, context: RoundContext) -> Proposal:
        line = self._line(context)
        if "no_idea" in line:
            raise line["no_idea"]
        return Proposal(
            hypothesis=line.get("hypothesis", f"idea {context.round}"),
            expected_cost_s=1,
            rationale="because",
            fork_from=line.get("fork_from", "baseline"),
            compose_mode=line.get("compose_mode"),
            origin={"proposer": self.name},
        )

    def code(self, context: RoundContext, proposal: Proposal, worktree: Path) -> Proposal:
        line = self._line(context)
        if "no_code" in line:
            raise line["no_code"]
        if edit := line.get("edit"):
            (worktree / edit).write_text("CHANGED = True\n")
        return proposal.with_code(line["config"], rationale="so", coder=None)

    def analyse(self, context: RoundContext, row: dict, files: RoundDir) -> Analysis:
        return analyse(row, context.pareto)

    def spent_usd(self, number: int) -> float | None:
        return None

    def has_budget(self) -> bool:
        return True


def changed(iterations: int) -> dict:
    return {**CONFIG, "neural_bp": {"iterations": iterations}}


def test_the_smoke_loop_leaves_history_and_candidates_and_neither_log_nor_front(tmp_path: Path) -> None:
    taken, outcome = play(tmp_path, plan(rounds=3, is_smoke=True))
    files = taken.run.files
    rows = taken.run.history.rows()
    assert outcome.rounds == len(rows) == 3
    assert json.loads(files.history_array.read_text()) == rows
    assert not files.log.exists()
    assert not files.pareto.exists()
    assert not files.pareto_preview.exists()
    best = max(row["delta_ler"] for row in rows)
    front = json.loads(files.candidate_pareto.read_text())
    assert front[0]["delta_ler"] == best


def test_a_run_without_a_verified_round_has_an_empty_front(tmp_path: Path) -> None:
    files = play(tmp_path, plan(rounds=1))[0].run.files
    assert json.loads(files.pareto.read_text()) == json.loads(files.pareto_preview.read_text()) == []
    done = CliRunner().invoke(main, ["pareto", str(files.path)])
    assert done.exit_code == 0, done.output
    assert "the front is empty" in done.output


def test_the_log_lists_the_front_and_what_is_within_its_noise(tmp_path: Path) -> None:
    taken, _ = play(tmp_path, plan(rounds=2))
    for row, delta, flops in zip(taken.run.history.rows(), (2e-3, 2.1e-3), (1000, 900), strict=True):
        admit(
            taken.run.files.path,
            ParetoRow(
                **{name: row[name] for name in ("round", "round_attempt_id", "commit_sha", "branch")},
                delta_vs_baseline_holdout=delta,
                delta_ci=(delta - 5e-4, delta + 5e-4),
                paired_eval_bundle_id="bundle",
                flops_per_syndrome=flops,
                n_params=10,
                verdict="VERIFIED",
            ),
        )
    taken, _ = play(tmp_path, plan(rounds=2))
    front, noise = taken.run.files.log.read_text().split("## Front")[1].split("within the noise")
    assert ("- 02-" in front, "- 01-" in front) == (True, False)
    assert ("- 02-" in noise, "- 01-" in noise) == (False, True)
    assert len(taken.now.context().pareto) == 1


def test_every_round_is_a_branch_with_its_pointer_and_is_told_in_the_log(tmp_path: Path) -> None:
    taken, _ = play(tmp_path, plan(rounds=3, proposer="evolution"))
    git, log = taken.run.repository.git, taken.run.files.log.read_text()
    for row in taken.run.history.rows():
        number = row["round"]
        path = ExperimentDir("").record(taken.run.run_id, number).pointer.as_posix()
        pointer = read_pointer(git.file_at(git.branch(row["branch"]), path), where="branch")
        assert pointer.commit_sha == row["commit_sha"]
        assert row["dsl_config"]["type"]
        assert row["origin"]["proposer"] == "evolution"
        assert f"## Round {number}: {row['hypothesis']}" in log
        assert row["analysis"]["verdict"] == row["verdict"] == "ignore"  # the runner here gives no intervals
    assert json.loads(taken.run.files.fork_graph.read_text())["nodes"]
    assert not list(taken.run.repository.worktrees.glob("*"))
    assert not taken.run.journals()


def test_a_run_killed_anywhere_goes_on_to_the_same_rounds(tmp_path: Path) -> None:
    wanted = plan(rounds=3, proposer="optuna")
    log = tmp_path / "points"
    whole = tmp_path / "whole"
    assert in_child(with_crash(lambda: play(whole, wanted), AUTOQEC_CRASH_LOG=str(log))) == 0
    expected = [without_times(row) for row in steps(whole, wanted).run.history.rows()]
    points = len(log.read_text().splitlines())
    assert points > 60
    for number in range(9, points, max(1, points // 6)):
        workspace = tmp_path / f"killed-{number}"
        killed = in_child(with_crash(lambda w=workspace: play(w, wanted), AUTOQEC_CRASH_AT=str(number)))
        assert killed < 0, f"point {number} was not reached"
        taken, outcome = play(workspace, wanted)
        assert outcome.rounds == 3
        found = [without_times(row) for row in taken.run.history.rows()]
        assert found == expected, f"killed at point {number}"
        user_git(workspace / "checkout", "fsck", "--strict")


def test_reconciliation_is_plugged_in(tmp_path: Path) -> None:
    taken, _ = play(tmp_path, plan(rounds=1))
    branch = taken.run.history.rows()[0]["branch"]
    user_git(tmp_path / "checkout", "branch", "-D", branch)
    taken, outcome = play(tmp_path, plan(rounds=2))
    assert [row["status"] for row in taken.run.history.rows()] == ["ok", "branch_manually_deleted", "ok"]
    assert outcome.rounds == 2


def test_what_only_a_person_can_decide_pauses_the_run(tmp_path: Path) -> None:
    play(tmp_path, plan(rounds=1))
    user_git(tmp_path / "checkout", "checkout", "--quiet", "-b", "exp/20260102-030405/07-mine")
    (tmp_path / "checkout" / "README.md").write_text("mine\n")
    user_git(tmp_path / "checkout", "commit", "--quiet", "-am", "mine")
    with pytest.raises(Paused, match="07-mine"):
        play(tmp_path, plan(rounds=2))


def test_an_orphan_that_nothing_names_pauses_every_start_and_not_the_run_for_ever(tmp_path: Path) -> None:
    play(tmp_path, plan(rounds=1))
    checkout, orphan = tmp_path / "checkout", "20260102-030405/07-mine"
    user_git(checkout, "checkout", "--quiet", "-b", f"exp/{orphan}")
    user_git(checkout, "commit", "--quiet", "--allow-empty", "-m", "mine")
    user_git(checkout, "checkout", "--quiet", "main")
    for _ in range(3):
        with pytest.raises(Paused, match=f"quarantine/{orphan}"):
            play(tmp_path, plan(rounds=2))
    user_git(checkout, "branch", "-m", f"quarantine/{orphan}", "kept")
    taken, outcome = play(tmp_path, plan(rounds=2))
    assert outcome.rounds == 2
    assert [row["status"] for row in taken.run.history.rows()][1:3] == [*FOLLOW_UPS]


def test_the_scope_check_is_plugged_in(tmp_path: Path) -> None:
    lines = (
        {"config": changed(5), "edit": "autoqec/runner/train.py"},
        {"config": changed(6), "edit": "autoqec/decoders/modules/gnn.py"},
    )
    taken, _ = play(tmp_path, plan(rounds=2), Script(*lines))
    refused, trained = taken.run.history.rows()
    assert refused["status"] == "compile_error"
    assert "autoqec/runner/train.py" in refused["status_reason"]
    assert not RoundDir(taken.run.files.round(1).path).checkpoint.exists()
    assert trained["status"] == "ok"


def test_a_repeat_is_skipped_and_recorded(tmp_path: Path) -> None:
    taken, outcome = play(tmp_path, plan(rounds=2), Script({"config": changed(5)}))
    first, second = taken.run.history.rows()
    assert first["status"] == "ok"
    assert outcome.rounds == 2
    assert second["status"] == "compile_error"
    assert "the same config as round 1" in second["status_reason"]
    assert second["branch"] is None
    assert "the same config as round 1" in taken.run.files.log.read_text()


def test_a_role_without_an_answer_is_a_row_and_the_run_goes_on(tmp_path: Path) -> None:
    def failure(role: str) -> RoleFailure:
        made = RoleFailure("refusal", "it will not")
        made.role, made.calls = role, 1
        return made

    lines = (
        {"no_idea": failure("ideator")},
        {"no_code": failure("coder"), "hypothesis": "wider"},
        {"config": changed(7)},
    )
    taken, outcome = play(tmp_path, plan(rounds=3), Script(*lines))
    silent, uncoded, fine = taken.run.history.rows()
    assert outcome.stopped is None
    assert fine["status"] == "ok"
    for row, role in ((silent, "ideator"), (uncoded, "coder")):
        assert row["role_failure"]["role"] == role
        assert "refusal" in row["status_reason"]
        assert row["branch"] is None
    assert uncoded["hypothesis"] == "wider"


def test_a_failure_that_was_noted_before_a_kill_is_recorded_after_it(tmp_path: Path) -> None:
    taken = steps(tmp_path, plan(rounds=1))
    said = {"role": "ideator", "kind": "refusal", "reason": "it will not"}
    proposal = Proposal(hypothesis=NO_HYPOTHESIS, slug="no-ideator", details={"role_failure": said})
    Experiment.begin(taken.run, proposal)
    taken, outcome = play(tmp_path, plan(rounds=1), Script({"config": changed(5)}))
    (row,) = taken.run.history.rows()
    assert outcome.rounds == 1
    assert "refusal" in row["status_reason"]
    assert row["branch"] is None


def test_what_a_killed_coder_left_half_edited_is_not_committed(tmp_path: Path) -> None:
    taken = steps(tmp_path, plan(rounds=1))
    idea = Proposal(hypothesis="shorter", expected_cost_s=1, rationale="cheap")
    worktree = taken.propose(idea).worktree.path
    (worktree / "autoqec/decoders/modules/half.py").write_text("def half(")
    taken, _ = play(tmp_path, plan(rounds=1), Script({"config": changed(5)}))
    (row,) = taken.run.history.rows()
    assert row["status"] == "ok"
    assert taken.run.repository.git.file_at(row["commit_sha"], "autoqec/decoders/modules/half.py") is None


def test_the_journal_of_an_older_program_is_resumed(tmp_path: Path) -> None:
    """The proposal stands in pieces, the idea names the parent in short, and the config has only the options that the Coder wrote."""
    taken, _ = play(tmp_path, plan(rounds=1), Script({"config": changed(5)}))
    parent = taken.run.history.rows()[0]["branch"]
    journal = taken.run.files.journal(
        taken.propose(Proposal(hypothesis="longer", fork_from=parent)).name.round
    )
    data = json.loads(journal.read_text())
    idea = {
        "hypothesis": "longer", "expected_delta_ler": 0.0, "expected_cost_s": 1, "rationale": "more", "dsl_hint": None,
        "fork_from": short_name(parent), "compose_mode": None,
    }  # fmt: skip
    coder = {"dsl_config": changed(9), "tier": "1", "rationale": "so", "commit_message": ""}
    del data["proposal"]
    data |= {"hypothesis": "longer", "fork_from": parent, "compose_mode": None}
    data["details"] = {"idea": idea, "coder": coder, "origin": {"proposer": "llm"}}
    journal.write_text(json.dumps(data))
    taken, _ = play(tmp_path, plan(rounds=2), Script({}))  # which has no config
    row = taken.run.history.rows()[1]
    assert (row["status"], row["fork_from"], row["idea"]) == ("ok", parent, idea | {"fork_from": parent})
    assert row["dsl_config"]["neural_bp"]["iterations"] == 9
    assert row["coder"] == {"tier": "1", "rationale": "so", "commit_message": None}
    assert row["origin"] == {"proposer": "llm"}


def test_rest_between_two_processes_is_not_in_the_budget(tmp_path: Path) -> None:
    wanted = plan(rounds=1, budget_minutes=30)
    taken = steps(tmp_path, wanted)
    idea = Proposal(hypothesis="shorter", expected_cost_s=1, rationale="cheap")
    journal = taken.run.files.journal(taken.propose(idea).name.round)
    hours_ago = time.time() - 5 * 3600
    data = json.loads(journal.read_text())
    data["started_at"] = datetime.fromtimestamp(hours_ago, UTC).isoformat()
    journal.write_text(json.dumps(data))
    os.utime(journal, (hours_ago, hours_ago))
    taken, _ = play(tmp_path, wanted, Script({"config": changed(5)}))
    assert taken.run.history.rows()[0]["rested_s"] > 4 * 3600
    assert (taken.now.seconds_left() or 0.0) > 0


def test_a_conflict_of_parents_is_a_row_with_its_files(tmp_path: Path) -> None:
    lines = [{"config": changed(5)}, {"config": changed(6)}]
    taken, _ = play(tmp_path, plan(rounds=2), Script(*lines))
    parents = [row["branch"] for row in taken.run.history.rows()]
    lines.append({"fork_from": parents, "compose_mode": "pure"})
    taken, _ = play(tmp_path, plan(rounds=3), Script(*lines))
    row = taken.run.history.rows()[-1]
    assert row["status"] == "compose_conflict"
    assert row["conflicting_files"] == ["experiment/neural_bp.yaml"]


def test_a_merge_over_budget_is_refused_where_the_run_refuses_that(tmp_path: Path) -> None:
    wanted = plan(rounds=3, refuse_over_budget=True)
    lines = [
        {"config": changed(5)},
        {"config": {**changed(8), "neural_bp": {"iterations": 8, "check_rule": "min_sum"}}},
    ]
    taken, _ = play(tmp_path, plan(rounds=2, refuse_over_budget=True), Script(*lines))
    taken = steps(tmp_path, wanted)
    facts = taken.now.facts
    tight = facts.spec.constraints.model_copy(update={"latency_flops_budget": 1})
    taken.now.facts = replace(facts, spec=facts.spec.model_copy(update={"constraints": tight}))
    idea = Proposal(
        hypothesis="both",
        expected_cost_s=1,
        rationale="more",
        fork_from=[row["branch"] for row in taken.run.history.rows()],
        compose_mode="pure",
    )
    experiment = taken.propose(idea)
    assert not experiment.is_over, experiment.journal.row
    status, reason = experiment.code(experiment.proposal, taken.now.context(3))
    assert status == "refused"
    assert "over budget: flops_per_syndrome" in (reason or "")
    assert taken.record(experiment)["branch"] is None


def test_a_time_budget_ends_the_run(tmp_path: Path) -> None:
    lines = [{"config": changed(number)} for number in range(4, 40, 4)]
    taken, outcome = play(tmp_path, plan(rounds=9, budget_minutes=0.001), Script(*lines))
    assert 1 <= outcome.rounds < 9
    assert "minutes" in (outcome.stopped or "")
    assert taken.run.files.log.exists()


def test_two_loops_cannot_work_on_one_run(tmp_path: Path) -> None:
    taken = steps(tmp_path, plan(rounds=1))
    with taken.run.exclusive():
        status = in_child(lambda: _expect_refusal(tmp_path))
    assert status == 0


def _expect_refusal(workspace: Path) -> None:
    try:
        play(workspace, plan(rounds=1))
    except AutoQECError:
        os._exit(0)
    os._exit(5)
