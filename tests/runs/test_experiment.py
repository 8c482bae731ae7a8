"""A round from proposal to history, and every way it can end early. Real git; the runner trains nothing."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from tiny_runs import CONFIG, changed, fake_runner, make_run, play, user_git

from autoqec.decoders.dsl_schema import PredecoderDSL, canonical_dict
from autoqec.errors import AutoQECError, InputError
from autoqec.eval.schema import VerifyReport
from autoqec.io.hashing import sha256_file
from autoqec.io.validate import load_model
from autoqec.layout import ExperimentDir
from autoqec.runner.schema import Failure, RoundMetrics, RunnerConfig
from autoqec.runs.compose import files_at
from autoqec.runs.experiment import Experiment
from autoqec.runs.mechanisms import from_files
from autoqec.runs.pointer import read_pointer
from autoqec.runs.reconcile import reconcile
from autoqec.runs.repository import Repository, open_checkout
from autoqec.runs.run import Run
from autoqec.runs.worktrees import Limits
from autoqec.search.proposal import Proposal


def begin(run: Run, slug: str = "x", **proposal: object) -> Experiment:
    return Experiment.begin(run, Proposal(hypothesis=f"try {slug}", slug=slug, **proposal))


def config_of(run: Run, branch: str) -> PredecoderDSL:
    git = run.repository.git
    return from_files(files_at(git, git.branch(branch)))


def never(config: RunnerConfig) -> RoundMetrics:
    raise AssertionError("trained")


def test_a_round_leaves_its_branch_its_artifacts_and_its_row(run: Run, checkout: Path) -> None:
    row = play(run, "longer", changed(neural_bp={"iterations": 6}), details={"proposer": "test"})
    files = run.files.round(1)
    git = run.repository.git
    assert row["branch"] == f"exp/{run.run_id}/01-longer"
    assert (row["status"], row["round"], row["proposer"]) == ("ok", 1, "test")
    assert row["parent_ler"] == 0.02
    assert row["delta_vs_parent"] == pytest.approx(0.02 - row["ler_predecoder"])
    assert not list((checkout / ".worktrees").iterdir())
    assert not run.journals()
    # the branch: base, code commit, pointer commit
    tip = git.branch(row["branch"])
    assert git("rev-list", "--first-parent", tip).split()[1:3] == [row["commit_sha"], run.info.base_commit]
    record = ExperimentDir("").record(run.run_id, 1)
    assert yaml.safe_load(git.file_at(row["commit_sha"], record.config.as_posix())) == canonical_dict(
        PredecoderDSL.model_validate(changed(neural_bp={"iterations": 6}))
    )
    attempt = json.loads(git.file_at(row["commit_sha"], record.attempt.as_posix()))
    assert attempt["round_attempt_id"] == row["round_attempt_id"]
    assert attempt["train_seed"] == row["train_seed"]
    pointer = read_pointer(git.file_at(tip, record.pointer.as_posix()), where="branch")
    assert pointer.to_json() == files.pointer.read_bytes()
    assert pointer.commit_sha == row["commit_sha"]
    assert pointer.provenance.checkpoint_sha256 == sha256_file(files.checkpoint)
    assert pointer.artifact_paths.metrics == str(files.metrics)
    assert git.paths("diff", "--name-only", "-z", row["commit_sha"], tip) == [record.pointer.as_posix()]
    assert json.loads(run.files.history_array.read_text()) == [row]
    assert [node["id"] for node in json.loads(run.files.fork_graph.read_text())["nodes"]] == [row["branch"]]


def test_two_rounds_never_share_a_training_stream(run: Run) -> None:
    seen: list[int] = []

    def runner(config: RunnerConfig) -> RoundMetrics:
        seen.append(config.seed)
        return fake_runner(config)

    for slug in ("a", "b"):
        begin(run, slug).complete(CONFIG, runner=runner)
    assert seen[0] != seen[1]
    assert [row["train_seed"] for row in run.history.rows()] == seen


def test_a_child_inherits_its_parent(run: Run) -> None:
    parent = play(run, "a", changed(neural_bp={"iterations": 6}))
    experiment = begin(run, "b", fork_from=parent["branch"])
    experiment.prepare()
    row = experiment.complete(runner=fake_runner)
    assert config_of(run, row["branch"]).neural_bp.iterations == 6
    assert row["parent_ler"] == parent["ler_predecoder"]
    assert run.repository.git.is_ancestor(parent["commit_sha"], row["commit_sha"])


def test_a_composition_contains_both_changes_and_nothing_else(run: Run) -> None:
    a = play(run, "a", changed(neural_bp={"iterations": 6}))
    b = play(run, "b", changed(training={"batch_size": 64}))
    row = play(run, "ab", fork_from=[b["branch"], a["branch"]], compose_mode="pure")
    assert row["status"] == "ok"
    assert row["fork_from_canonical"] == f"{a['branch']}|{b['branch']}"
    assert row["fork_from_ordered"] == [b["branch"], a["branch"]]
    composed = config_of(run, row["branch"])
    assert (composed.neural_bp.iterations, composed.training.batch_size) == (6, 64)
    git = run.repository.git
    merge = git("rev-parse", f"{row['commit_sha']}^").strip()
    parents = git("rev-parse", f"{merge}^1", f"{merge}^2").split()
    assert parents == [git.branch(b["branch"]), git.branch(a["branch"])]
    own = f"experiment/rounds/{run.run_id}/round_3/"
    assert all(
        path.startswith(own) for path in git.paths("diff", "--name-only", "-z", merge, row["commit_sha"])
    )
    assert row["parent_ler"] == min(a["ler_predecoder"], b["ler_predecoder"])


def test_three_parents_compose(run: Run) -> None:
    options = [{"neural_bp": {"iterations": 6}}, {"training": {"batch_size": 64}}, {"head": "mlp_small"}]
    branches = [play(run, f"p{i}", changed(**option))["branch"] for i, option in enumerate(options)]
    row = play(run, "all", fork_from=branches, compose_mode="pure")
    composed = config_of(run, row["branch"])
    assert (composed.neural_bp.iterations, composed.training.batch_size, composed.head) == (
        6,
        64,
        "mlp_small",
    )


def test_the_same_line_changed_on_both_sides_is_a_row_and_leaves_nothing(run: Run, checkout: Path) -> None:
    a = play(run, "a", changed(neural_bp={"iterations": 6}))
    b = play(run, "b", changed(neural_bp={"iterations": 9}))
    for mode, order in (("pure", [a, b]),):
        row = play(run, "ab", fork_from=[parent["branch"] for parent in order], compose_mode=mode)
    assert row["status"] == "compose_conflict"
    assert row["conflicting_files"] == ["experiment/neural_bp.yaml"]
    assert (row["branch"], row["commit_sha"], row["reconcile_id"]) == (None, None, None)
    assert row["round_attempt_id"]
    assert sorted(run.repository.git.refs("refs/heads/exp/")) == [f"refs/heads/{r['branch']}" for r in (a, b)]
    assert not list((checkout / ".worktrees").iterdir())
    with pytest.raises(InputError, match="proposed before"):
        begin(run, "ba", fork_from=[b["branch"], a["branch"]], compose_mode="with_edit")


def test_a_merge_without_conflict_that_makes_a_change_void_is_a_conflict(run: Run) -> None:
    a = play(run, "a", changed(type="gnn", neural_bp=None, gnn={"layers": 1}))
    b = play(run, "b", changed(neural_bp={"iterations": 9}))
    row = play(run, "ab", fork_from=[a["branch"], b["branch"]], compose_mode="pure")
    assert row["status"] == "compose_conflict"
    assert row["conflicting_files"] == ["experiment/neural_bp.yaml", "experiment/type.yaml"]


def test_a_merge_that_is_no_config_is_a_conflict_and_with_edit_may_mend_it(run: Run) -> None:
    attention = play(run, "base", changed(neural_bp={"attention_aug": True}))
    a = play(
        run,
        "a",
        changed(neural_bp={"attention_aug": True, "attention_heads": 4}),
        fork_from=attention["branch"],
    )
    b = play(run, "b", changed(neural_bp={"attention_aug": False}), fork_from=attention["branch"])
    parents = [a["branch"], b["branch"]]
    experiment = begin(run, "ab", fork_from=parents, compose_mode="with_edit")
    assert experiment.prepare() is not None
    with pytest.raises(InputError, match="attention_heads"):
        experiment.commit()
    experiment.configure(changed(neural_bp={"attention_aug": True, "attention_heads": 2}))
    row = experiment.complete(runner=fake_runner)
    assert row["status"] == "ok"
    assert config_of(run, row["branch"]).neural_bp.attention_heads == 2


def test_a_merge_that_is_no_config_is_a_conflict_when_pure(run: Run) -> None:
    attention = play(run, "base", changed(neural_bp={"attention_aug": True}))
    a = play(
        run,
        "a",
        changed(neural_bp={"attention_aug": True, "attention_heads": 4}),
        fork_from=attention["branch"],
    )
    b = play(run, "b", changed(neural_bp={"attention_aug": False}), fork_from=attention["branch"])
    row = play(run, "ab", fork_from=[a["branch"], b["branch"]], compose_mode="pure")
    assert row["status"] == "compose_conflict"
    assert row["conflicting_files"] == ["experiment/neural_bp.yaml"]
    assert "attention_heads" in row["status_reason"]


def test_a_pure_composition_takes_no_edit(run: Run) -> None:
    a, b = play(run, "a", changed(head="mlp_small")), play(run, "b", changed(training={"epochs": 1}))
    experiment = begin(run, "ab", fork_from=[a["branch"], b["branch"]], compose_mode="pure")
    folder = experiment.prepare()
    with pytest.raises(InputError, match="pure"):
        experiment.configure(CONFIG)
    (folder / "autoqec" / "decoders" / "modules" / "gnn.py").write_text("EDITED = 1\n")
    row = experiment.complete(runner=never)
    assert row["status"] == "compile_error"
    assert "gnn.py (a pure composition is the merge itself)" in row["status_reason"]


def test_edited_modules_are_on_the_branch_and_in_the_folder_that_runs(run: Run) -> None:
    experiment = begin(run, "edit")
    folder = experiment.prepare()
    (folder / "autoqec" / "decoders" / "modules" / "new_gnn.py").write_text("NEW = 1\n")
    (folder / "ignored").mkdir()
    (folder / "ignored" / "sitecustomize.py").write_text("raise SystemExit\n")
    experiment.configure(CONFIG, commit_message="A better gnn\n\nwith reasons")
    seen = {}

    def runner(config: RunnerConfig) -> RoundMetrics:
        cwd = Path(config.code_cwd)
        seen["files"] = {str(path.relative_to(cwd)) for path in cwd.rglob("*") if path.is_file()}
        return fake_runner(config)

    row = experiment.complete(runner=runner)
    assert "autoqec/decoders/modules/new_gnn.py" in seen["files"]
    assert not any("sitecustomize" in name for name in seen["files"])
    git = run.repository.git
    assert git.file_at(row["commit_sha"], "autoqec/decoders/modules/new_gnn.py") == b"NEW = 1\n"
    message = git("log", "-1", "--format=%B", row["commit_sha"])
    assert message.startswith("A better gnn\n\nwith reasons")
    assert f"AutoQEC-Attempt: {row['round_attempt_id']}" in message


OUT_OF_SCOPE = {
    "autoqec/runner/train.py": "autoqec/runner/train.py",
    "README.md": "README.md",
    "sitecustomize.py": "sitecustomize.py",
    "autoqec/decoders/other.py": "autoqec/decoders/other.py",
    "autoqec/decoders/modules/.hidden.py": "hidden",
    "experiment/rounds/x/y.json": "record of another round",
    "autoqec/decoders/modules_evil/x.py": "modules_evil",
}


@pytest.mark.parametrize("path", OUT_OF_SCOPE)
def test_a_branch_that_changes_infrastructure_is_not_trained(run: Run, path: str) -> None:
    experiment = begin(run)
    target = experiment.prepare() / path
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text("x = 1\n")
    row = experiment.complete(CONFIG, runner=never)
    assert row["status"] == "compile_error"
    assert OUT_OF_SCOPE[path] in row["status_reason"]
    metrics = metrics_of(run, row)
    assert (metrics.status, metrics.branch, metrics.commit_sha) == (
        "compile_error",
        row["branch"],
        row["commit_sha"],
    )
    assert run.repository.git.branch(row["branch"]) is not None


def test_links_deletions_and_foreign_records_are_out_of_scope(run: Run) -> None:
    parent = play(run, "parent", CONFIG)
    experiment = begin(run, fork_from=parent["branch"])
    folder = experiment.prepare()
    (folder / "autoqec" / "runner" / "train.py").unlink()
    (folder / "autoqec" / "decoders" / "modules" / "link.py").symlink_to("/etc/passwd")
    pointer = ExperimentDir(folder).record(run.run_id, 1).pointer
    pointer.write_text(pointer.read_text().replace('"ok"', '"train_error"'))
    row = experiment.complete(CONFIG, runner=never)
    for said in (
        "autoqec/runner/train.py",
        "link.py (not a plain file)",
        "round_1_pointer.json (record of another round)",
    ):
        assert said in row["status_reason"]


def test_a_failed_round_is_a_result_with_branch_and_pointer(run: Run) -> None:
    def fails(config: RunnerConfig) -> RoundMetrics:
        fake_runner(config)
        failed = RoundMetrics(
            status="train_error",
            status_reason="NaN",
            round_attempt_id=config.round_attempt_id,
            fork_from="baseline",
        )
        Path(config.round_dir, "metrics.json").write_text(failed.model_dump_json())
        return failed

    row = begin(run).complete(CONFIG, runner=fails)
    assert row["status"] == "train_error"
    pointer = read_pointer(run.files.round(1).pointer.read_bytes(), where="x")
    assert pointer.artifact_paths.checkpoint is None
    assert pointer.provenance.checkpoint_sha256 is None
    assert pointer.metrics_summary.status == "train_error"


@pytest.mark.parametrize(
    ("claim", "said"),
    [
        ({"checkpoint_path": "/etc/passwd"}, "/etc/passwd"),
        ({"checkpoint_path": None}, "no checkpoint"),
        ({"training_log_path": "/nowhere/train.log"}, "/nowhere"),
        ({"status": "orphaned_branch"}, "orphaned_branch"),
        ({"status": "compose_conflict", "conflicting_files": []}, "compose_conflict"),
        ({"branch": "exp/20200101-000000/01-x", "commit_sha": "ab" * 20}, "abab"),
    ],
)
def test_what_a_round_cannot_say_of_itself_is_not_recorded(run: Run, claim: dict, said: str) -> None:
    row = begin(run).complete(CONFIG, runner=lambda config: fake_runner(config).model_copy(update=claim))
    assert row["status"] == "train_error"
    assert said in row["status_reason"]
    assert row["checkpoint_path"] is None


def test_a_checkpoint_that_is_a_link_is_not_recorded(run: Run, tmp_path: Path) -> None:
    def links(config: RunnerConfig) -> RoundMetrics:
        metrics = fake_runner(config)
        Path(metrics.checkpoint_path).rename(tmp_path / "elsewhere.pt")
        Path(metrics.checkpoint_path).symlink_to(tmp_path / "elsewhere.pt")
        return metrics

    assert begin(run).complete(CONFIG, runner=links)["status"] == "train_error"


def test_a_pointer_with_a_gap_is_refused(run: Run) -> None:
    play(run, "a", CONFIG)
    whole = json.loads(run.files.round(1).pointer.read_text())

    def gaps(value: dict, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
        for key, inner in value.items():
            yield (*path, key)
            if isinstance(inner, dict):
                yield from gaps(inner, (*path, key))

    for path in list(gaps(whole)):
        damaged = json.loads(json.dumps(whole))
        holder = damaged
        for key in path[:-1]:
            holder = holder[key]
        del holder[path[-1]]
        with pytest.raises(InputError, match=path[-1]):
            read_pointer(json.dumps(damaged).encode(), where="pointer")
    for change in ({"branch": "main"}, {"round_idx": 2}, {"commit_sha": "abc"}, {"extra": 1}):
        with pytest.raises(InputError):
            read_pointer(json.dumps({**whole, **change}).encode(), where="pointer")


def test_a_round_without_a_config_can_be_given_up(run: Run, checkout: Path) -> None:
    experiment = begin(run)
    experiment.prepare()
    experiment.fail(Failure("given_up", "the coder's answer was not a config three times"))
    row = experiment.complete()
    assert (row["status"], row["branch"], row["commit_sha"]) == ("compile_error", None, None)
    assert not run.repository.git.refs("refs/heads/exp/")
    assert not list((checkout / ".worktrees").iterdir())


def metrics_of(run: Run, row: dict) -> RoundMetrics:
    return load_model(run.files.round(row["round"]).metrics, RoundMetrics)


def test_a_round_that_was_given_up_has_metrics_with_its_reason(run: Run) -> None:
    experiment = begin(run)
    experiment.prepare()
    experiment.fail(Failure("given_up", "config: neural_bp.iterations: 0 is too few"))
    metrics = metrics_of(run, {"round": 1})  # before it is recorded, too
    row = experiment.complete()
    assert metrics == metrics_of(run, row)
    assert (metrics.status, metrics.status_reason) == ("compile_error", row["status_reason"])
    assert (metrics.round_attempt_id, metrics.fork_from) == (row["round_attempt_id"], "baseline")
    assert (metrics.branch, metrics.checkpoint_path, metrics.training_log_path) == (None, None, None)


def test_a_compose_conflict_has_metrics_with_its_files(run: Run) -> None:
    a = play(run, "a", changed(neural_bp={"iterations": 6}))
    b = play(run, "b", changed(neural_bp={"iterations": 9}))
    row = play(run, "ab", fork_from=[b["branch"], a["branch"]], compose_mode="pure")
    metrics = metrics_of(run, row)
    assert (metrics.status, metrics.conflicting_files) == ("compose_conflict", ["experiment/neural_bp.yaml"])
    assert metrics.status_reason == row["status_reason"]
    assert metrics.fork_from_canonical == f"{a['branch']}|{b['branch']}"
    assert metrics.fork_from_ordered == [b["branch"], a["branch"]]


def test_a_round_that_was_killed_while_it_ended_has_metrics_all_the_same(run: Run) -> None:
    experiment = begin(run)
    experiment.prepare()
    experiment.fail(Failure("given_up", "no config"))
    run.files.round(1).metrics.unlink()
    reconcile(run)
    assert metrics_of(run, {"round": 1}).status_reason == "no config"


def test_what_a_coder_committed_is_kept_when_the_round_is_given_up(run: Run) -> None:
    experiment = begin(run)
    folder = experiment.prepare()
    (folder / "autoqec" / "decoders" / "modules" / "idea.py").write_text("IDEA = 1\n")
    user_git(folder, "add", "-A")
    user_git(folder, "commit", "-q", "-m", "by the coder")
    experiment.fail(Failure("given_up", "no config"))
    experiment.complete()
    report = reconcile(run)
    assert [kind for kind, _ in report.actions] == ["quarantine_branch"]
    kept = f"quarantine/{run.run_id}/01-x"
    git = run.repository.git
    assert git.file_at(git.branch(kept), "autoqec/decoders/modules/idea.py") == b"IDEA = 1\n"


def test_an_invalid_config_is_refused_before_anything_is_committed(run: Run) -> None:
    experiment = begin(run)
    experiment.prepare()
    with pytest.raises(InputError, match="iterations"):
        experiment.configure(changed(neural_bp={"iterations": 0}))
    assert run.repository.git.branch(experiment.name.branch) == run.info.base_commit


def test_steps_can_be_called_twice_and_by_another_process(run: Run) -> None:
    proposal = Proposal(hypothesis="h", slug="x", round_attempt_id="once")
    for _ in range(2):
        assert Experiment.begin(run, proposal).name.round == 1
    again = Run.open(run.files.path)
    (experiment,) = Experiment.in_flight(again)
    trained: list[str] = []

    def runner(config: RunnerConfig) -> RoundMetrics:
        trained.append(config.branch)
        return fake_runner(config)

    for step, stage in (
        (lambda life: life.prepare(), "prepared"),
        (lambda life: life.configure(CONFIG), "prepared"),
        (lambda life: life.commit(), "committed"),
        (lambda life: life.train(runner), "pointed"),
        (lambda life: life.write_pointer(), "pointed"),
        (lambda life: life.record(verdict="candidate"), "recorded"),
    ):
        for _ in range(2):
            (experiment,) = Experiment.in_flight(Run.open(run.files.path))
            step(experiment)
        assert experiment.stage == stage
    experiment.close()
    assert len(trained) == 1
    assert len(run.history.rows()) == 1
    with pytest.raises(InputError, match="recorded already"):
        Experiment.begin(run, proposal)


def test_steps_out_of_order_say_what_is_missing(run: Run) -> None:
    experiment = begin(run)
    for step in (experiment.write_pointer, experiment.record, experiment.close):
        with pytest.raises(AutoQECError, match="round 1"):
            step()


def test_at_most_three_worktrees_are_active(run: Run) -> None:
    rounds = [begin(run, slug) for slug in ("a", "b", "c")]
    with pytest.raises(InputError, match="3 worktrees are active"):
        begin(run, "d")
    rounds[0].complete(CONFIG, runner=fake_runner)
    assert begin(run, "d").name.round == 4


def test_the_disk_budget_is_checked_first(run: Run) -> None:
    run.limits = Limits(min_free_gb=1e9)
    with pytest.raises(InputError, match="disk space"):
        begin(run)
    assert not run.journals()


def test_a_name_that_is_taken_halts(run: Run, checkout: Path) -> None:
    user_git(checkout, "branch", f"exp/{run.run_id}/01-x")
    assert begin(run).name.round == 2  # the number is used, so the next one is taken
    folder = checkout / ".worktrees" / f"exp-{run.run_id}-03-y"
    folder.mkdir(parents=True)
    (folder / "mine.txt").write_text("precious")
    with pytest.raises(InputError, match="already exists"):
        begin(run, "y")
    assert (folder / "mine.txt").read_text() == "precious"


@pytest.mark.parametrize(
    "fork", ["main", "HEAD", "-d", "exp/20200101-000000/01-x", "exp/../x", "refs/heads/main"]
)
def test_parents_that_are_no_branch_of_the_run_are_refused(run: Run, fork: str) -> None:
    with pytest.raises(InputError):
        begin(run, fork_from=fork)
    with pytest.raises(InputError):
        begin(run, fork_from=["baseline", fork], compose_mode="pure")
    assert not run.journals()


def test_a_parent_whose_history_was_rewritten_is_refused(run: Run, checkout: Path) -> None:
    row = play(run, "a", CONFIG)
    user_git(checkout, "branch", "-f", row["branch"], run.info.base_commit)
    with pytest.raises(InputError, match="rewritten"):
        begin(run, fork_from=row["branch"])
    user_git(checkout, "branch", "-D", row["branch"])
    with pytest.raises(InputError, match="gone"):
        begin(run, fork_from=row["branch"])


def test_a_parent_and_its_own_child_have_nothing_to_compose(run: Run) -> None:
    a = play(run, "a", CONFIG)
    b = play(run, "b", changed(head="mlp_small"), fork_from=a["branch"])
    with pytest.raises(InputError, match="nothing to compose"):
        begin(run, fork_from=[a["branch"], b["branch"]], compose_mode="pure")


def test_a_branch_that_moved_while_its_round_ran_is_left_for_a_person(run: Run, checkout: Path) -> None:
    def moves_it(config: RunnerConfig) -> RoundMetrics:
        user_git(checkout, "update-ref", f"refs/heads/{config.branch}", run.info.base_commit)
        return fake_runner(config)

    with pytest.raises(AutoQECError, match="git branch -f"):
        begin(run).complete(CONFIG, runner=moves_it)
    assert run.history.rows() == []


def test_an_environment_that_changed_in_mid_run_is_refused(
    run: Run, repository: Repository, tmp_path: Path
) -> None:
    from autoqec.envs.load import builtin_folder

    env = tmp_path / "my env.yaml"
    shutil.copy(builtin_folder() / "surface_d3_depol.yaml", env)
    run = Run.create(tmp_path / "w2", str(env), repository, limits=Limits(min_free_gb=0.0))
    assert play(run, "a", CONFIG)["status"] == "ok"
    env.write_text(env.read_text().replace("1e-3, 5e-3", "2e-3, 5e-3"))
    with pytest.raises(InputError, match="changed since the run started"):
        play(run, "b", CONFIG)


def _report(**fields: object) -> VerifyReport:
    told = {
        "verdict": "FAILED", "ler_holdout": 0.01, "ler_holdout_ci": (0.009, 0.011), "delta_ler_holdout": 0.01, "ler_shuffled": 0.02,
        "ablation_sanity_ok": True, "holdout_seeds_used": [9000], "seed_leakage_check_ok": True, "notes": "",
    }  # fmt: skip
    return VerifyReport.model_validate({**told, **fields})


@pytest.mark.parametrize("parents", [[], ["a"], ["a", "b"]])
def test_a_verified_round_is_on_the_front_with_its_parents(run: Run, parents: list[str]) -> None:
    configs = {"a": changed(head="mlp_small"), "b": changed(training={"epochs": 1})}
    branches = [play(run, name, configs[name])["branch"] for name in parents]
    fork_from = branches if len(branches) == 2 else branches[0] if branches else "baseline"
    mode = "pure" if len(branches) == 2 else None
    experiment = begin(run, "c", fork_from=fork_from, compose_mode=mode)
    if mode is None:
        experiment.configure(changed(training={"epochs": 2}))
    experiment.train(fake_runner)
    own = {"branch": experiment.name.branch, "commit_sha": experiment.journal.commit_sha}
    gain = {"delta_vs_baseline_holdout": 0.01, "delta_ler_ci_low": 0.005, "delta_ler_ci_high": 0.015}
    cost = {"flops_per_syndrome": 1000, "n_params": 10, "n_bytes": 40}
    experiment.record(report=_report(**own, **gain, cost=cost, verdict="VERIFIED", paired_eval_bundle_id="b"))
    (member,) = json.loads(run.files.pareto.read_text())
    assert (member["round"], member["fork_from"], member["compose_mode"]) == (
        experiment.name.round,
        fork_from,
        mode,
    )


def test_a_report_has_to_be_about_the_round_and_a_composition_needs_a_bundle(run: Run) -> None:
    a, b = play(run, "a", changed(head="mlp_small")), play(run, "b", changed(training={"epochs": 1}))
    experiment = begin(run, "ab", fork_from=[a["branch"], b["branch"]], compose_mode="pure")
    experiment.train(fake_runner)
    with pytest.raises(InputError, match="is about"):
        experiment.record(
            report=_report(branch=a["branch"], commit_sha=a["commit_sha"], paired_eval_bundle_id="b")
        )
    own = {"branch": experiment.name.branch, "commit_sha": experiment.journal.commit_sha}
    with pytest.raises(InputError, match="bundle"):
        experiment.record(report=_report(**own))
    assert experiment.record(report=_report(**own, paired_eval_bundle_id="b"))["verdict"] == "FAILED"


def test_the_clock_may_go_backwards(
    repository: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from autoqec.runs import run as run_module

    class Clock:
        hour = 12

        @classmethod
        def now(cls, _: object) -> object:
            from datetime import UTC, datetime

            return datetime(2026, 1, 1, cls.hour, 0, 0, tzinfo=UTC)

    monkeypatch.setattr(run_module, "datetime", Clock)
    first, second = (make_run(tmp_path / "w", repository) for _ in range(2))
    assert (first.run_id, second.run_id) == ("20260101-120000", "20260101-120001")
    play(first, "a", CONFIG)
    Clock.hour = 3
    monkeypatch.setattr("autoqec.runs.experiment.timestamp", lambda: "1970-01-01T00:00:00.000+00:00")
    row = play(first, "b", CONFIG)
    assert row["round"] == 2
    assert [r["round"] for r in first.history.rows()] == [1, 2]
    assert make_run(tmp_path / "w", repository).run_id == "20260101-030000"


@pytest.fixture
def mount(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "mounted"
    folder.mkdir()
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=400k", "tmpfs", folder], capture_output=True, check=False
    )
    if done.returncode != 0:
        pytest.skip("mounting a small disk takes privileges")
    yield folder
    subprocess.run(["umount", folder], check=True)


def test_a_full_disk_stops_the_round_and_space_lets_it_go_on(mount: Path, repository: Repository) -> None:
    run = make_run(mount, repository)
    play(run, "a", changed(head="mlp_small"))
    experiment = begin(run, "b")
    filler = mount / "filler"
    free = shutil.disk_usage(mount).free
    filler.write_bytes(b"x" * free)
    with pytest.raises((AutoQECError, OSError)):
        experiment.complete(CONFIG, runner=fake_runner)
    filler.unlink()
    (again,) = Experiment.in_flight(Run.open(run.files.path))
    assert again.complete(CONFIG, runner=fake_runner)["status"] == "ok"
    assert [row["round"] for row in run.history.rows()] == [1, 2]


def test_a_read_only_runs_folder_is_said_and_changes_nothing(mount: Path, repository: Repository) -> None:
    run = make_run(mount, repository)
    subprocess.run(["mount", "-o", "remount,ro", mount], check=True)
    with pytest.raises((AutoQECError, OSError), match=r"(?i)read-only"):
        begin(run)
    with pytest.raises(InputError, match=r"(?i)read-only"):
        make_run(mount, repository)
    assert not run.repository.git.refs("refs/heads/exp/")
    subprocess.run(["mount", "-o", "remount,rw", mount], check=True)


def test_a_checkout_of_the_users_branch_cannot_be_the_experiment(run: Run, checkout: Path) -> None:
    row = play(run, "a", CONFIG)
    user_git(checkout, "checkout", "-q", row["branch"])
    child = play(run, "b", changed(head="mlp_small"), fork_from=row["branch"])
    assert child["status"] == "ok"
    assert user_git(checkout, "rev-parse", "HEAD").strip() == run.repository.git.branch(row["branch"])
    assert open_checkout(checkout).root == checkout.resolve()
