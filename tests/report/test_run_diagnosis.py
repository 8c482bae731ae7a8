"""A whole run: every unhealthy round, and what its failures have in common."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tiny_runs import changed, fake_runner, play

from autoqec.layout import RoundDir
from autoqec.report.diagnose import diagnose_run
from autoqec.runner.schema import Failure, RoundMetrics, RunnerConfig
from autoqec.runs.experiment import Experiment
from autoqec.runs.run import Run
from autoqec.runs.worktree_runner import failed_metrics
from autoqec.search.proposal import Proposal


def nan_runner(config: RunnerConfig) -> RoundMetrics:
    """Leaves what a round leaves whose loss was NaN."""
    metrics = failed_metrics(config, None, Failure("nan_loss", "not finite", facts={"bad_steps": 4}))
    files = RoundDir(config.round_dir)
    files.config.write_text(json.dumps(config.predecoder_config))
    files.metrics.write_text(metrics.model_dump_json())
    return metrics


def _try(run: Run, slug: str, rate: float, runner: Any) -> None:
    config = changed(training={"epochs": 1, "learning_rate": rate}, neural_bp={"iterations": 3 + len(slug)})
    Experiment.begin(run, Proposal(hypothesis=slug, slug=slug)).complete(config, runner=runner)


def test_every_unhealthy_round_with_its_cause_and_the_pattern_of_the_run(run: Run) -> None:
    _try(run, "a", 1e-3, fake_runner)
    _try(run, "bb", 10.0, nan_runner)
    _try(run, "ccc", 10.0, nan_runner)
    experiment = Experiment.begin(run, Proposal(hypothesis="trespass", slug="trespass"))
    worktree = experiment.prepare()
    assert worktree is not None
    (worktree / "autoqec" / "runner" / "train.py").write_text("STEPS = 2\n")
    experiment.complete(runner=fake_runner)
    found = diagnose_run(run.files.path)
    assert [one.cause for one in found.rounds] == ["healthy", "nan", "nan", "compile_error"]
    assert found.causes == {"nan": 2, "healthy": 1, "compile_error": 1}
    (pattern,) = found.patterns
    assert (pattern.cause, pattern.rounds, pattern.in_a_row) == ("nan", (2, 3), 2)
    assert pattern.shared == {"training.learning_rate": 10.0}
    data = found.to_dict()
    assert not data["healthy"]
    assert [one["round"] for one in data["unhealthy"]] == [2, 3, 4]
    trespass = data["unhealthy"][2]["findings"][0]
    assert "may not change" in trespass["what"]
    assert any("train.py" in str(line["value"]) for line in trespass["evidence"])


def test_a_compose_conflict_has_no_config_and_a_diagnosis_all_the_same(run: Run) -> None:
    first = play(run, "one", changed(neural_bp={"iterations": 5}))
    second = play(run, "two", changed(neural_bp={"iterations": 7}))
    play(run, "both", fork_from=[first["branch"], second["branch"]], compose_mode="pure")
    found = diagnose_run(run.files.path)
    assert [one.cause for one in found.rounds] == ["healthy", "healthy", "compose_conflict"]
    evidence = found.rounds[2].findings["compose_conflict"].evidence
    assert any("neural_bp.yaml" in str(line) for line in evidence)
    assert found.rounds[2].gaps == ()


def test_a_torn_history_and_a_round_without_a_row(run: Run) -> None:
    play(run, "one", changed(neural_bp={"iterations": 5}))
    with run.files.history.open("ab") as file:
        file.write(b'{"round": 2, "stat')
    lost = run.files.round(7)
    lost.path.mkdir()
    lost.train_log.write_text("1\t0.5\n")
    found = diagnose_run(run.files.path)
    assert any("torn line of 18 bytes" in gap for gap in found.gaps)
    assert [one.round for one in found.rounds] == [1, 7]
    assert found.rounds[1].cause == "killed_process"
    run.files.history.write_bytes(b"not json\n" + run.files.history.read_bytes())
    broken = diagnose_run(run.files.path)
    assert any("cannot be read" in gap for gap in broken.gaps)
    assert [one.round for one in broken.rounds] == [1, 7]


def test_an_environment_that_changed_since_the_run_started(run: Run, tmp_path) -> None:
    from autoqec.envs.load import builtin_folder

    env = tmp_path / "env.yaml"
    env.write_text((builtin_folder() / "surface_d3_depol.yaml").read_text())
    mine = Run.create(tmp_path / "mine", str(env), run.repository, limits=run.limits)
    play(mine, "one", changed(neural_bp={"iterations": 5}))
    assert diagnose_run(mine.files.path).rounds[0].is_healthy
    env.write_text(env.read_text().replace("target_ler: 1e-4", "target_ler: 1e-3"))
    found = diagnose_run(mine.files.path).rounds[0]
    assert found.cause == "environment_error"


@pytest.mark.slow
def test_a_real_round_that_is_killed_in_its_worktree(tmp_path) -> None:
    from autoqec.runs.repository import open_workspace
    from autoqec.runs.worktree_runner import SubprocessRunner
    from autoqec.runs.worktrees import Limits

    run = Run.create(tmp_path, "surface_d3_depol", open_workspace(tmp_path), limits=Limits(min_free_gb=0.0))
    experiment = Experiment.begin(run, Proposal(hypothesis="slow", slug="slow"))
    config = changed(training={"epochs": 9, "loss": "bce", "batch_size": 128})
    experiment.complete(config, runner=SubprocessRunner(wall_clock_s=1, grace_s=0))
    (one,) = diagnose_run(run.files.path).rounds
    assert one.cause == "timeout", one.to_dict()
    assert one.patch is not None
    assert one.patch.changes[0].field == "training.epochs"
