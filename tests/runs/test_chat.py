"""The loop taken in single steps leaves the folder that the loop in one process leaves."""

from __future__ import annotations

import json
import shutil
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from offline_world import RUN_ID, plan, play, steps, without_times
from tiny_runs import fake_runner

from autoqec.agents.llm_proposer import coded
from autoqec.agents.schemas import AnalystResponse, CoderResponse, IdeatorResponse
from autoqec.commands import main
from autoqec.errors import InputError
from autoqec.io.locks import locked
from autoqec.runner.schema import RoundMetrics, RunnerConfig
from autoqec.runs import chat
from autoqec.runs.experiment import Coded, Experiment
from autoqec.runs.plan import CHAT
from autoqec.runs.research_run import ResearchRun
from autoqec.search.proposal import Proposal

pytestmark = pytest.mark.runs

CODE = CoderResponse(
    dsl_config={
        "type": "neural_bp",
        "output_mode": "soft_priors",
        "neural_bp": {"iterations": 5},
        "training": {"epochs": 0},
    },
    tier="1",
    rationale="shorter",
)
IDEA = IdeatorResponse(
    hypothesis="five iterations are enough", expected_delta_ler=0.001, expected_cost_s=5, rationale="cheap"
)
ATTEMPT = "0f0e0d0c-0000-4000-8000-000000000001"


def drive(taken: ResearchRun, told: list[dict[str, Any]]) -> None:
    """The rounds of another run once more, by steps; each is taken twice, and answers the same."""

    def twice(step: Any) -> Any:
        first, second = step(), step()
        assert first == second
        return first

    for number, row in enumerate(told, start=1):
        idea = IdeatorResponse.model_validate(row["idea"])
        attempt = f"00000000-0000-4000-8000-{number:012d}"
        where = twice(lambda i=idea, a=attempt: chat.propose(taken, i, a))
        assert where["round"] == number
        if where["status"] != "compose_conflict":
            coder = row["coder"]
            said = None
            if coder is not None:
                said = CoderResponse(dsl_config=row["dsl_config"], **coder)
            answer = twice(lambda n=number, s=said: chat.code(taken, n, s))
            assert answer["status"] == "committed"
            assert "run-round" in answer["command"]
            twice(lambda n=number: chat.train(taken, n))
            words = {key: row["analysis"][key] for key in AnalystResponse.model_fields}
            twice(lambda n=number, w=words: chat.analysed(taken, n, AnalystResponse(**w)))
            twice(lambda n=number: chat.verified(taken, n))
        twice(lambda n=number: chat.record(taken, n))


def test_steps_leave_what_the_loop_leaves(tmp_path: Path) -> None:
    looped, _ = play(tmp_path / "loop", plan(rounds=5, proposer="evolution"))
    told = looped.run.history.rows()
    stepped = steps(tmp_path / "chat", plan(rounds=5, proposer=CHAT))
    assert chat.begin(stepped)["rounds_done"] == 0
    drive(stepped, told)

    def files(taken: ResearchRun) -> list[str]:
        root = taken.run.files.path
        found = (path for path in root.rglob("*") if path.is_file() and not path.name.startswith("."))
        return sorted(str(path.relative_to(root)) for path in found)  # without lock files

    assert files(stepped) == files(looped)
    for mine, theirs in zip(stepped.run.history.rows(), told, strict=True):
        assert mine.keys() == theirs.keys()
        mine, theirs = without_times(mine), without_times(theirs)
        assert mine.pop("origin")["proposer"] == CHAT
        assert theirs.pop("origin")
        assert mine == theirs
    ours, others = (json.loads(taken.run.files.fork_graph.read_text()) for taken in (stepped, looped))
    assert ours["edges"] == others["edges"]
    assert chat.end(stepped)["rounds"] == 5


def test_contexts_tell_each_role_its_task_in_few_words(tmp_path: Path) -> None:
    taken = steps(tmp_path, plan(rounds=2, proposer=CHAT))
    told = chat.context(taken, "ideator", None)
    assert "Propose the next experiment" in told["message"]
    assert 2_000 < len(told["message"]) / 4 < 5_100
    assert set(IdeatorResponse.model_fields) == set(told["schema"]["properties"])
    chat.propose(taken, IDEA, ATTEMPT)
    told = chat.context(taken, "coder", 1)
    assert IDEA.hypothesis in told["message"]
    assert "You are the Coder" in told["instructions"]
    chat.code(taken, 1, CODE)
    chat.train(taken, 1)
    assert "Verdict of the rule" in chat.context(taken, "analyst", 1)["message"]


def test_a_repeat_is_sent_back_once_and_then_recorded(tmp_path: Path) -> None:
    taken = steps(tmp_path, plan(rounds=2, proposer=CHAT))
    chat.propose(taken, IDEA, None)
    chat.code(taken, 1, CODE)
    chat.train(taken, 1)
    chat.record(taken, 1)
    chat.propose(taken, IDEA, None)
    assert chat.code(taken, 2, CODE)["status"] == "duplicate"
    answer = chat.code(taken, 2, CODE)
    assert answer["status"] == "skipped"
    assert "round 1" in answer["reason"]
    row = chat.record(taken, 2)
    assert row["status"] == "compile_error"
    assert row["sent_back"]
    assert row["branch"] is None


def test_an_answer_that_cannot_be_carried_out_changes_nothing(tmp_path: Path) -> None:
    taken = steps(tmp_path, plan(rounds=1, proposer=CHAT))
    with pytest.raises(InputError, match="no branch"):
        chat.propose(taken, IDEA.model_copy(update={"fork_from": "exp/x/01-y"}), None)
    assert not taken.run.journals()
    chat.propose(taken, IDEA, ATTEMPT)
    with pytest.raises(InputError, match="tier"):
        chat.code(taken, 1, CODE.model_copy(update={"tier": "2"}))
    with pytest.raises(InputError, match="no config yet"):
        chat.train(taken, 1)
    words = AnalystResponse(summary_1line="early", verdict="ignore", next_hypothesis_seed="wait")
    with pytest.raises(InputError, match="no result yet"):
        chat.analysed(taken, 1, words)
    with pytest.raises(InputError, match="no result yet"):
        chat.context(taken, "analyst", 1)
    with pytest.raises(InputError, match="not in flight"):
        chat.code(taken, 9, CODE)
    assert Experiment.numbered(taken.run, 1).stage == "prepared"
    chat.code(taken, 1, CODE)
    chat.train(taken, 1)
    chat.record(taken, 1)
    with pytest.raises(InputError, match="all 1 rounds"):
        chat.propose(taken, IDEA, None)


DEAR = CoderResponse(
    dsl_config={
        "type": "gnn",
        "output_mode": "soft_priors",
        "gnn": {"layers": 2, "hidden_dim": 256},
        "training": {"epochs": 0},
    },
    tier="1",
    rationale="wide",
)
"""More than twice as many parameters as the environment's budget."""


def past_the_check(taken: ResearchRun, reply: CoderResponse) -> Coded:
    """Round 1 with a config that no check of an answer has seen."""
    experiment = Experiment.numbered(taken.run, 1)
    return experiment.code(coded(experiment.proposal, reply), taken.now.context(1))


def marked(config: RunnerConfig) -> RoundMetrics:
    return fake_runner(config).model_copy(update={"over_budget": ["n_params 900000 > 200000"]})


def test_a_config_far_over_budget_runs_is_marked_and_the_proposer_is_told(tmp_path: Path) -> None:
    begun = steps(tmp_path, plan(rounds=2, proposer=CHAT))
    taken = ResearchRun(begun.run, begun.plan, marked)
    chat.propose(taken, IDEA, ATTEMPT)
    assert chat.code(taken, 1, DEAR)["status"] == "committed"
    assert chat.train(taken, 1)["status"] == "ok"
    assert chat.record(taken, 1)["over_budget"] == ["n_params 900000 > 200000"]
    assert "| over budget |" in chat.context(taken, "ideator", None)["message"]
    assert "- Over budget: n_params 900000 > 200000" in taken.run.files.log.read_text()


def test_a_run_that_refuses_what_is_over_budget_keeps_to_that(tmp_path: Path) -> None:
    wanted = plan(rounds=3, proposer=CHAT, refuse_over_budget=True)
    taken = steps(tmp_path, wanted)
    assert '"configs_over_budget": "refused"' in chat.context(taken, "ideator", None)["message"]
    chat.propose(taken, IDEA, ATTEMPT)
    with pytest.raises(InputError, match="over budget: "):
        chat.code(taken, 1, DEAR)
    assert Experiment.numbered(taken.run, 1).stage == "prepared"
    again = ResearchRun.open(taken.run.files.path)  # as after a crash
    with pytest.raises(InputError, match="over budget"):
        chat.code(again, 1, DEAR)
    assert past_the_check(again, DEAR).status == "refused"  # nor past the check of an answer
    row = chat.record(again, 1)
    assert "over budget: " in row["status_reason"]
    assert (row["status"], row["branch"]) == ("compile_error", None)


def test_refusing_what_is_over_budget_is_fixed_when_a_run_begins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps(tmp_path, plan(rounds=1, proposer="templates"))
    monkeypatch.chdir(tmp_path)
    resumed = ["run", "surface_d3_depol", "--resume", RUN_ID, "--refuse-over-budget"]
    assert CliRunner().invoke(main, resumed).exit_code == 2
    shown = [
        "run",
        "surface_d3_depol",
        "--refuse-over-budget",
        "--proposer",
        "templates",
        "--dry-run",
        "--json",
    ]
    assert json.loads(CliRunner().invoke(main, shown).stdout)["refuse_over_budget"] is True


def test_a_round_that_gets_no_config_can_be_given_up(tmp_path: Path) -> None:
    taken = steps(tmp_path, plan(rounds=2, proposer=CHAT))
    chat.propose(taken, IDEA, ATTEMPT)
    first, second = (chat.abandon(taken, 1, "no valid answer") for _ in range(2))
    assert first == second
    assert "no valid answer" in first["reason"]
    assert first["branch"] is None
    assert not taken.run.journals()
    chat.propose(taken, IDEA, None)
    chat.code(taken, 2, CODE)
    with pytest.raises(InputError, match="committed"):
        chat.abandon(taken, 2, "too late")


def test_the_attempt_of_a_context_makes_proposing_repeatable(tmp_path: Path) -> None:
    taken = steps(tmp_path, plan(rounds=2, proposer=CHAT))
    attempt = chat.context(taken, "ideator", None)["attempt"]
    assert chat.context(taken, "ideator", None)["attempt"] == attempt
    first, second = (chat.propose(taken, IDEA, attempt) for _ in range(2))
    assert first == second
    assert first["round_attempt_id"] == attempt
    assert chat.context(taken, "ideator", None)["attempt"] != attempt
    taken.replan(rounds=1)
    with pytest.raises(InputError, match="done or in flight"):
        chat.propose(taken, IDEA, None)


def test_a_branch_out_of_scope_is_refused_before_a_training_is_handed_out(tmp_path: Path) -> None:
    taken = steps(tmp_path, plan(rounds=1, proposer=CHAT))
    worktree = Path(chat.propose(taken, IDEA, ATTEMPT)["worktree"])
    (worktree / "autoqec" / "runner" / "train.py").write_text("CHANGED = True\n")
    answer = chat.code(taken, 1, CODE)
    assert answer["status"] == "refused"
    assert "autoqec/runner/train.py" in answer["reason"]
    assert "command" not in answer
    assert chat.record(taken, 1)["status"] == "compile_error"


def test_a_handed_out_training_that_is_running_is_waited_for(tmp_path: Path) -> None:
    taken = steps(tmp_path, plan(rounds=1, proposer=CHAT))
    chat.propose(taken, IDEA, ATTEMPT)
    chat.code(taken, 1, CODE)
    experiment, started = Experiment.numbered(taken.run, 1), threading.Event()

    def command() -> None:
        with locked(experiment.files.lock):
            started.set()
            time.sleep(1)
            fake_runner(experiment.hand_out())

    def second(_: RunnerConfig) -> RoundMetrics:
        pytest.fail("trained twice")

    running = threading.Thread(target=command)
    running.start()
    assert started.wait(60)
    answer = chat.train(ResearchRun(taken.run, taken.plan, second), 1)
    running.join()
    assert answer["status"] == "ok"


def test_a_round_in_flight_is_among_the_active_worktrees(tmp_path: Path) -> None:
    taken = steps(tmp_path, plan(rounds=1, proposer=CHAT))
    other = taken.run.repository.worktrees / "exp-20200101-000000-01-other"
    other.mkdir(parents=True)
    chat.propose(taken, IDEA, ATTEMPT)
    told = chat.context(taken, "ideator", None)["message"]
    assert '"active_worktrees": ["01-five-iterations-are-enough"]' in told


def test_a_record_that_was_cut_off_is_finished(tmp_path: Path) -> None:
    taken = steps(tmp_path, plan(rounds=1, proposer=CHAT))
    chat.propose(taken, IDEA, ATTEMPT)
    chat.code(taken, 1, CODE)
    chat.train(taken, 1)
    chat.analysed(taken, 1, None)
    Experiment.numbered(taken.run, 1).record(verdict="ignore")  # killed before its worktree was removed
    row = chat.record(taken, 1)
    assert not taken.run.journals()
    assert chat.record(taken, 1) == row


def test_a_run_of_a_proposer_takes_no_proposals_of_a_chat(tmp_path: Path) -> None:
    taken = steps(tmp_path, plan(rounds=1, proposer="templates"))
    with pytest.raises(InputError, match="templates proposes"):
        chat.propose(taken, IDEA, None)


def test_words_that_the_metrics_do_not_support_are_put_right(tmp_path: Path) -> None:
    taken = steps(tmp_path, plan(rounds=1, proposer=CHAT))
    chat.propose(taken, IDEA, None)
    chat.code(taken, 1, CODE)
    chat.train(taken, 1)
    said = AnalystResponse(summary_1line="a ratio of 97.5", verdict="candidate", next_hypothesis_seed="go on")
    answer = chat.analysed(taken, 1, said)
    assert answer["verdict"] == "ignore"
    assert "97.5" not in answer["summary_1line"]
    row = chat.record(taken, 1)
    assert len(row["analysis"]["corrections"]) == 2
    assert "Corrected: " in taken.run.files.log.read_text()


def test_a_run_of_a_chat_goes_on_after_its_folder_was_moved_nowhere_else(tmp_path: Path) -> None:
    taken = steps(tmp_path, plan(rounds=1, proposer=CHAT))
    chat.propose(taken, IDEA, ATTEMPT)
    shutil.rmtree(Experiment.numbered(taken.run, 1).worktree.path)  # somebody tidied up
    again = ResearchRun.open(tmp_path / "runs" / RUN_ID)
    assert chat.begin(again)["in_flight"][0]["round_attempt_id"] == ATTEMPT
    assert chat.code(again, 1, CODE)["status"] == "committed"


def test_a_dry_run_of_a_run_that_is_there_shows_its_next_round(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    dry = ["run", "surface_d3_depol", "--resume", RUN_ID, "--dry-run", "--json"]

    def shown(*more: str) -> Any:
        done = CliRunner().invoke(main, [*dry, *more])
        assert done.exit_code == 0, done.output
        return json.loads(done.stdout)

    taken, _ = play(tmp_path, plan(rounds=2, proposer="optuna"))
    done = shown()
    assert (done["rounds_done"], "next_round" in done) == (2, False)
    announced = shown("--rounds", "3")
    assert announced["next_round"] == 3
    play(tmp_path, plan(rounds=3, proposer="optuna"))
    row = taken.run.history.rows()[-1]
    assert announced["next_hypothesis"] == row["hypothesis"]
    assert announced["next_config"] == row["dsl_config"]
    flying = taken.propose(Proposal(hypothesis=IDEA.hypothesis))
    in_flight = shown("--rounds", "5")
    assert in_flight["next_round"] == flying.name.round == 4
    assert in_flight["next_hypothesis"] == IDEA.hypothesis


def test_what_a_run_was_begun_with_stays_and_a_dry_run_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken = steps(tmp_path, plan(rounds=1, proposer="templates"))
    monkeypatch.chdir(tmp_path)
    before = taken.run.files.plan.read_bytes()
    resume = ["run", "surface_d3_depol", "--resume", RUN_ID]
    shown = CliRunner().invoke(main, [*resume, "--rounds", "9", "--dry-run", "--json"])
    assert shown.exit_code == 0, shown.output
    for wrong in (["--verify-shots", "5"], ["--own-repository"], ["--proposer", "optuna"]):
        assert CliRunner().invoke(main, [*resume, "--rounds", "9", *wrong]).exit_code == 2
    step = ["step", "begin", "--run", str(taken.run.files.path)]
    assert CliRunner().invoke(main, [*step, "--profile", "prod"]).exit_code == 2
    assert taken.run.files.plan.read_bytes() == before
    assert CliRunner().invoke(main, [*step, "--rounds", "3"]).exit_code == 0
    assert ResearchRun.open(taken.run.files.path).plan.rounds == 3
