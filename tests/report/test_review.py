"""Reviews of real, tiny runs: real branches, history, ledger and admissions; only the figures are given."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tiny_runs import changed, fake_runner
from written_reports import leave_report

from autoqec.agents.accounting import Ledger
from autoqec.errors import InputError
from autoqec.eval.pareto import admit
from autoqec.report.review import as_dict, review_run
from autoqec.runner.schema import Failure, RoundMetrics, RunnerConfig
from autoqec.runs.experiment import Experiment
from autoqec.runs.front import front_row
from autoqec.runs.run import Run
from autoqec.runs.worktree_runner import failed_metrics
from autoqec.search.proposal import Proposal

HALF = 1e-3


def runner(delta: float, *, flops: int = 10**5, params: int = 100, seconds: float = 10.0) -> Any:
    """A runner whose round measured `delta` within HALF either way."""

    def measured(config: RunnerConfig) -> RoundMetrics:
        figures = {
            "ler_predecoder": 0.02 - delta,
            "delta_ler": delta,
            "delta_ler_ci_low": delta - HALF,
            "delta_ler_ci_high": delta + HALF,
            "flops_per_syndrome": flops,
            "n_params": params,
            "train_wallclock_s": seconds,
            "reference_p": 0.01,
        }
        metrics = fake_runner(config).model_copy(update=figures)
        Path(config.round_dir, "metrics.json").write_text(metrics.model_dump_json())
        return metrics

    return measured


def out_of_memory(config: RunnerConfig) -> RoundMetrics:
    failure = Failure("memory_estimate", "too large", facts={"needed_gb": 90.0, "limit_gb": 10.0})
    metrics = failed_metrics(config, None, failure).model_copy(update={"train_wallclock_s": 30.0})
    Path(config.round_dir, "metrics.json").write_text(metrics.model_dump_json())
    Path(config.round_dir, "config.yaml").write_text(json.dumps(config.predecoder_config))
    return metrics


def play(run: Run, slug: str, config: dict[str, Any], how: Any, **outcome: Any) -> dict[str, Any]:
    experiment = Experiment.begin(run, Proposal(hypothesis=f"try {slug}", slug=slug))
    return experiment.complete(config, runner=how, **outcome)


@pytest.fixture(autouse=True)
def _verifier_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AUTOQEC_HOME", str(tmp_path / "home"))


def verify(run: Run, row: dict[str, Any], holdout: float, half: float = HALF) -> None:
    """What the verifier leaves, and the admission to the front that follows a VERIFIED."""
    report = leave_report(
        run.files.round(row["round"]).path,
        delta=holdout,
        half=half,
        flops=row["flops_per_syndrome"],
        params=row["n_params"],
        verdict="VERIFIED" if holdout > half else "FAILED",
        branch=row["branch"],
        commit_sha=row["commit_sha"],
        reference_p=0.01,
        seconds=5.0,
    )
    if report.verdict == "VERIFIED":
        admit(run.files.path, front_row(report, row, None))


def bp(iterations: int, **training: Any) -> dict[str, Any]:
    return changed(neural_bp={"iterations": iterations}, training=training or {"epochs": 0})


def _advice(data: dict[str, Any]) -> dict[str, list[str]]:
    return {each["id"]: list(each["evidence"]) for each in data["recommendations"]}


def test_a_growing_run(run: Run) -> None:
    first = play(run, "a", bp(4), runner(0.004), verdict="VERIFIED")
    second = play(run, "b", bp(8), runner(0.008, flops=10**6), verdict="VERIFIED")
    verify(run, first, 0.004)
    verify(run, second, 0.0078)
    play(run, "c", bp(16), runner(0.009, flops=2 * 10**6), verdict="candidate")
    data = as_dict(review_run(run.files.path))
    assert data["verdicts"] == {"VERIFIED": 2, "candidate": 1}
    steps = data["hypervolume"]["by_round"]
    assert [step["round"] for step in steps] == [1, 2, 3]
    assert steps[0]["verified"] == pytest.approx(0.004 * 4 * 5)
    assert steps[0]["verified"] < steps[1]["verified"] == steps[2]["verified"]
    assert steps[1]["validated"] < steps[2]["validated"]
    assert data["best"]["verified"]
    assert data["best"]["delta"]["round"] == 2
    assert data["best"]["flops_per_syndrome"]["round"] == 1
    assert not data["stuck"]["is_stuck"]
    advice = _advice(data)
    assert "carry_on" in advice
    assert advice["verify"] == ["rounds 3 gain beyond their interval and have no verification report"]
    assert data["budget"]["seconds"] == pytest.approx(3 * 10 + 2 * 5)
    assert not {"stuck", "repeats", "overfitting", "mend_failures"} & advice.keys()


def test_what_no_report_of_the_verifier_backs_is_not_verified(run: Run) -> None:
    first = play(run, "a", bp(4), runner(0.004), verdict="VERIFIED")
    second = play(run, "b", bp(8), runner(0.008, flops=10**6), verdict="VERIFIED")
    verify(run, first, 0.004)
    verify(run, second, 0.0078)
    assert as_dict(review_run(run.files.path))["backed"] is True
    path = run.files.round(2).report
    path.write_text(path.read_text().replace("0.0078", "0.0178"))
    data = as_dict(review_run(run.files.path))
    assert data["backed"] is False
    assert data["verdicts"] == {"VERIFIED": 1, "not backed": 1}
    assert [one["backed"] for one in data["rounds"]] == [True, False]
    assert "not as this verifier wrote it" in data["rounds"][1]["not_backed"]
    assert [each["round"] for each in data["not_backed"]] == [2]
    assert data["best"]["delta"]["round"] == 1
    assert [each["round"] for each in data["overfitting"]["rounds"]] == [1]
    assert any("verify-package" in gap for gap in data["gaps"])


def test_a_stuck_run_of_one_family(run: Run) -> None:
    first = play(run, "a", bp(4), runner(0.008))
    verify(run, first, 0.008)
    for i in range(4):
        play(run, f"more-{i}", bp(6 + 3 * i), runner(0.0005, flops=10**6))
    data = as_dict(review_run(run.files.path, patience=4))
    assert data["stuck"] == {
        "front": "verified",
        "last_improvement": 1,
        "rounds_since": 4,
        "is_stuck": True,
        "patience": 4,
    }
    assert data["families"][0]["name"] == "neural_bp, soft_priors, untrained"
    assert data["families"][0]["repeated"] == 5
    stuck = _advice(data)["stuck"]
    assert "4 rounds without growth of the verified front" in stuck
    assert "the latest 5 rounds are all neural_bp, soft_priors, untrained" in stuck
    assert not review_run(run.files.path, patience=5).streak.is_stuck


def test_repeats_by_config_by_distance_and_by_words(run: Run) -> None:
    play(run, "a", bp(8, epochs=1, learning_rate=1e-3, loss="bce"), runner(0.001))
    play(run, "b", bp(12, epochs=1, learning_rate=1e-3, loss="focal"), runner(0.001))
    play(run, "c", bp(8, epochs=1, learning_rate=1e-3, loss="bce"), runner(0.001, seconds=20))
    play(run, "d", bp(12, epochs=1, learning_rate=1.02e-3, loss="focal"), runner(0.001))
    experiment = Experiment.begin(run, Proposal(hypothesis="Try  A", slug="e"))
    experiment.complete(bp(20), runner=runner(0.001))
    data = as_dict(review_run(run.files.path))
    found = [(each["round"], each["of"], each["kind"]) for each in data["repeats"]]
    assert found == [
        (3, 1, "same config"),
        (4, 2, "nearly the same config"),
        (5, 1, "same hypothesis"),
    ]
    assert data["budget"]["repeated_seconds_share"] == pytest.approx(30 / 60)
    assert "round 3: same config as round 1" in _advice(data)["repeats"]


def test_validation_gains_that_do_not_hold(run: Run) -> None:
    for slug, val, holdout in (("a", 0.008, 0.0079), ("b", 0.009, 0.003), ("c", 0.005, 0.0)):
        row = play(run, slug, bp(4 + 4 * ord(slug)), runner(val))
        verify(run, row, holdout)
    data = as_dict(review_run(run.files.path))
    found = {each["round"]: each for each in data["overfitting"]["rounds"]}
    assert [each["overfits"] for each in found.values()] == [False, True, True]
    assert found[2]["gap"] == pytest.approx(0.006)
    assert found[2]["gap_ci"][0] == pytest.approx(0.006 - HALF * 2**0.5)
    assert data["overfitting"]["overfitted"] == (2, 3)
    assert data["overfitting"]["kept"] == pytest.approx(0.0109 / 0.022)
    advice = _advice(data)
    assert advice["overfitting"][0].startswith("round 2: validation 0.009, holdout 0.003")
    assert advice["refuted"][0] == "rounds 3: FAILED"


def test_failures_with_their_causes_and_their_share_of_time_and_money(run: Run) -> None:
    ledger = Ledger(run.files.llm_ledger)
    for number, nano in ((1, 10**8), (2, 3 * 10**8)):
        held = ledger.reserve(10**9, role="ideator", round=number, backend="replay", model=None)
        ledger.settle(held, nano, source="vendor", usage=None, outcome="ok")
    play(run, "a", bp(4), runner(0.004))
    play(run, "b", bp(8, epochs=1, batch_size=4096), out_of_memory)
    play(run, "c", bp(10, epochs=1, batch_size=8192), out_of_memory)
    data = as_dict(review_run(run.files.path))
    assert data["statuses"] == {"killed_by_safety": 2, "ok": 1}
    assert data["failure_causes"] == {"out_of_memory": [2, 3]}
    spent = data["budget"]
    assert spent["failed_rounds"] == (2, 3)
    assert spent["failed_seconds_share"] == pytest.approx(60 / 70)
    assert spent["usd"] == pytest.approx(0.4)
    assert spent["failed_usd_share"] == pytest.approx(0.75)
    evidence = _advice(data)["mend_failures"]
    assert evidence[0] == "2 of 3 rounds did not end ok, and took 86% of the time"
    assert evidence[1] == "out_of_memory: rounds 2, 3"


def test_damaged_files_are_said_and_the_rest_is_reviewed(run: Run) -> None:
    play(run, "a", bp(4), runner(0.004))
    run.files.round(1).report.write_text('{"verdict": "VERI')
    run.files.pareto.write_text("[{]")
    lost = run.files.round(9)
    lost.path.mkdir()
    lost.train_log.write_text("1\t0.5\n")
    orphan = run.files.round(8)
    orphan.path.mkdir()
    orphan.metrics.write_text('{"status": "ok", "delta_ler": 0.001}')
    with run.files.history.open("a") as file:
        file.write('{"round": 5, "status": "ok", "delta_ler": "much"}\n')
    data = as_dict(review_run(run.files.path))
    assert [one["round"] for one in data["rounds"]] == [1, 8]
    assert any("row of round 5 breaks the rules" in gap for gap in data["gaps"])
    assert any("round 1: verification_report.json is torn" in gap for gap in data["gaps"])
    assert any("the front cannot be read" in gap for gap in data["gaps"])
    assert data["unrecorded_rounds"] == [8, 9]
    assert data["failure_causes"] == {"killed_process": [9], "stale_artifacts": [8]}
    assert "reconcile" in _advice(data)


def test_no_run_is_bad_input_and_an_empty_run_is_not(run: Run, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match="holds no run"):
        review_run(tmp_path / "empty")
    with pytest.raises(InputError, match="is not a folder"):
        review_run(tmp_path / "nowhere")
    run.files.history.write_bytes(b"")
    data = as_dict(review_run(run.files.path))
    assert data["rounds"] == []
    assert data["recommendations"] == []
