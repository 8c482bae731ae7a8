"""Rounds that really train, in worktrees of a repository that holds the installed code, up to a verified composition."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from tiny_runs import changed

from autoqec.decoders.dsl_schema import PredecoderDSL, canonical_dict
from autoqec.envs.load import builtin_folder, load_env
from autoqec.eval.verify import VerifyOptions, verify_together
from autoqec.runs.experiment import Experiment
from autoqec.runs.package import package_run
from autoqec.runs.package_check import check_package
from autoqec.runs.plan import Plan
from autoqec.runs.replay import replay
from autoqec.runs.repository import open_workspace
from autoqec.runs.run import Run
from autoqec.runs.snapshot import Snapshots
from autoqec.runs.worktree_runner import SubprocessRunner
from autoqec.runs.worktrees import Limits
from autoqec.sandbox.kinds import strongest
from autoqec.search.proposal import Proposal
from autoqec.search.stacking import SHARES, next_stack, stacks

RECIPE = {"epochs": 1, "loss": "bce", "batch_size": 128}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    workspace = tmp_path_factory.mktemp("my workspace")
    env = workspace / "d3.yaml"
    text = (builtin_folder() / "surface_d3_depol.yaml").read_text()
    for old, new in (
        ("[1e-3, 5e-3, 1e-2]", "[1e-2]"),
        ("target_p: 1e-3", "target_p: 1e-2"),
        ("min_shots_train: 1000000", "min_shots_train: 20000"),
        ("min_shots_val: 100000", "min_shots_val: 20000"),
        ("[pymatching, pymatching_correlated, belief_matching]", "[pymatching]"),
    ):
        assert old in text
        text = text.replace(old, new)
    env.write_text(text)
    base = PredecoderDSL.model_validate(changed(training=RECIPE))
    return Run.create(
        workspace, str(env), open_workspace(workspace), config=base, limits=Limits(min_free_gb=0.0)
    )


def train(run: Run, slug: str, config: dict | None = None, **proposal: object) -> dict:
    experiment = Experiment.begin(run, Proposal(hypothesis=slug, slug=slug, **proposal))
    return experiment.complete(config, runner=SubprocessRunner(wall_clock_s=600))


@pytest.fixture(scope="module")
def parents(run: Run) -> list[dict]:
    longer = train(run, "longer", changed(training=RECIPE, neural_bp={"iterations": 6}))
    focal = train(run, "focal", changed(training={**RECIPE, "loss": "focal"}))
    return [longer, focal]


@pytest.mark.runs
def test_parents_and_child_are_trained_in_their_worktrees_and_verified_on_one_bundle(
    run: Run, parents: list[dict], tmp_path: Path
) -> None:
    child = train(run, "both", fork_from=[row["branch"] for row in parents], compose_mode="pure")
    for row in (*parents, child):
        assert row["status"] == "ok", row["status_reason"]
        assert row["train_batches_total"] > 0
        assert Path(row["checkpoint_path"]) == run.files.round(row["round"]).checkpoint
        manifest = json.loads(run.files.round(row["round"]).manifest.read_text())
        assert manifest["seed"] == row["train_seed"]
        metrics = json.loads(run.files.round(row["round"]).metrics.read_text())
        assert (metrics["branch"], metrics["commit_sha"]) == (row["branch"], row["commit_sha"])
    assert len({row["train_seed"] for row in (*parents, child)}) == 3
    config = json.loads(json.dumps(_config(run, child)))
    assert config["neural_bp"]["iterations"] == 6
    assert config["training"]["loss"] == "focal"
    assert not strongest().confines or _reports_agree(run, child, parents, tmp_path)


@pytest.mark.runs
def test_two_rounds_become_a_cascade_and_a_sweep_goes_behind_it(run: Run, parents: list[dict]) -> None:
    """What the proposers do with verified rounds: a merge of the two branches, edited into a cascade with the weights of the better one."""
    # A run composes two branches once, and the test above may have composed the parents in this very run.
    parents = [parents[0], train(run, "wide", changed(training={**RECIPE, "batch_size": 256}))]
    told = Snapshots(run, Plan(rounds=9, proposer="evolution", memory_gb=4.0)).context()
    # Which of the two gains more, and that they are verified, is said here: this is about the rounds that follow.
    said = {parents[0]["round"]: (0.02, 9_000_000), parents[1]["round"]: (0.01, 1_000)}

    def verified(row: dict) -> dict:
        delta, flops = said.get(row["round"], (0.03, 2_000))
        return {**row, "verdict": "VERIFIED", "delta_ler": delta, "flops_per_syndrome": flops}

    def proposed(*rows: dict) -> Proposal:
        context = replace(told, history=tuple(map(verified, rows)))
        found = next_stack("evolution", [], context)
        assert found is not None
        return found

    swept = proposed(parents[0])
    assert swept.dsl.stages[-1].type == "sweep"
    both = replace(told, history=tuple(map(verified, parents)))
    pair = next(each for each in stacks(both) if each.second is not None)
    # The optimisers name both branches where git merges them without an edit.
    branches = [row["branch"] for row in parents]
    stacked = train(run, "stacked", canonical_dict(pair.dsl), fork_from=branches, compose_mode="with_edit")
    assert stacked["status"] == "ok", stacked["status_reason"]
    assert stacked["init_from"]["sha256"] == parents[0]["checkpoint_sha256"]
    assert [stage["type"] for stage in _config(run, stacked)["stages"]] == ["neural_bp", "neural_bp"]
    assert 0 < stacked["cascade"]["per_p"][0]["shares"][1] <= 2 * SHARES["mwpm"]
    weights, kept = (
        torch.load(each["checkpoint_path"], weights_only=True)["state"] for each in (stacked, parents[0])
    )
    assert all((weights[f"stages.1.{name}"] == value).all() for name, value in kept.items())
    told = Snapshots(run, Plan(rounds=9, proposer="evolution", memory_gb=4.0)).context()
    behind = proposed(stacked)
    assert [stage.type for stage in behind.dsl.stages] == ["neural_bp", "neural_bp", "sweep"]
    last = train(run, "swept", canonical_dict(behind.dsl), fork_from=behind.fork_from)
    assert last["status"] == "ok", last["status_reason"]
    assert len(last["cascade"]["stage_flops"]) == 3


def _config(run: Run, row: dict) -> dict:
    import yaml

    return yaml.safe_load(run.files.round(row["round"]).config.read_text())


def _reports_agree(run: Run, child: dict, parents: list[dict], home: Path) -> bool:
    rounds = [run.files.round(row["round"]).path for row in (child, *parents)]
    options = VerifyOptions(
        shots=8192,
        cap=8192,
        home=home,
        repo=run.repository.root,
        base=run.info.base_commit,
        baseline_seconds=1.0,
    )
    reports = verify_together(rounds, load_env(run.info.env), options)
    assert len({report.paired_eval_bundle_id for report in reports}) == 1
    assert reports[0].commit_sha == child["commit_sha"]
    assert reports[0].branch == child["branch"]
    assert reports[0].composition is not None
    assert reports[0].composition.reading in ("composes", "partial", "conflicts")
    return True


@pytest.mark.runs
def test_the_code_of_the_branch_runs_without_the_secrets_of_this_process(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOME_API_KEY", "sesame")
    experiment = Experiment.begin(run, Proposal(hypothesis="edit", slug="edit"))
    module = experiment.prepare() / "autoqec" / "decoders" / "modules" / "predecoders.py"
    spy = (
        "import os\nfrom autoqec.errors import InputError\n"
        "raise InputError(f'edited module in {os.getcwd()} sees {sorted(os.environ)}')\n"
    )
    module.write_text(module.read_text() + spy)
    row = experiment.complete(changed(training={"epochs": 0}), runner=SubprocessRunner(wall_clock_s=300))
    output = (row["status_reason"] or "") + (run.files.round(row["round"]).output.read_text())
    assert row["status"] in ("compile_error", "train_error")
    assert f"edited module in {experiment.worktree.path} sees" in output
    assert "'PATH'" in output
    assert "SOME_API_KEY" not in output
    assert "AUTOQEC_CRASH" not in output


@pytest.mark.runs
def test_a_round_past_its_deadline_is_killed_whole_and_has_metrics(run: Run) -> None:
    experiment = Experiment.begin(run, Proposal(hypothesis="slow", slug="slow"))
    row = experiment.complete(changed(training=RECIPE), runner=SubprocessRunner(wall_clock_s=1, grace_s=0))
    assert row["status"] == "killed_by_safety"
    metrics = json.loads(run.files.round(row["round"]).metrics.read_text())
    assert metrics["status"] == "killed_by_safety"
    for name in ("round_attempt_id", "branch", "commit_sha"):
        assert metrics[name] == row[name]
    assert run.repository.git.branch(row["branch"])


@pytest.mark.runs
def test_a_round_is_replayed_to_the_last_bit_and_verified_from_its_package(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AUTOQEC_HOME", str(tmp_path / "home"))
    other = Run.create(tmp_path / "w", run.info.env, run.repository, limits=Limits(min_free_gb=0.0))
    row = train(other, "once", changed(training={**RECIPE, "learning_rate": 0.01}))
    assert row["status"] == "ok", row["status_reason"]
    again = replay(other.files.round(1).path)
    assert again.outcome == "identical", again
    assert again.same_weights
    assert again.same_packages
    further = changed(training={**RECIPE, "epochs": 0, "init_from": row["checkpoint_sha256"]})
    second = train(other, "further", further)
    assert second["status"] == "ok", second["status_reason"]
    assert second["init_from"]["sha256"] == row["checkpoint_sha256"]
    other.files.round(1).checkpoint.rename(tmp_path / "gone")  # the round has kept what it started from
    assert replay(other.files.round(2).path).outcome == "identical"
    (tmp_path / "gone").rename(other.files.round(1).checkpoint)
    package_run(other, tmp_path / "p.tar.gz")
    options = VerifyOptions(shots=8192, cap=8192, baseline_seconds=1.0)
    result = check_package(tmp_path / "p.tar.gz", every_round=strongest().confines, options=options)
    assert result.outcome == "proves nothing"  # the round was never verified where it comes from
    assert not (tmp_path / "home" / "verifier").exists()
    assert [check.problems for check in result.rounds] == [[], []]
    for check in result.rounds:
        assert not strongest().confines or check.now in ("VERIFIED", "SUSPICIOUS", "FAILED")
