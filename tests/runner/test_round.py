"""Rounds as a user runs them: real training in a real child process, and every way to fail."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
import torch
import yaml

from autoqec.decoders import checkpoint
from autoqec.decoders.compiler import compile_predecoder
from autoqec.decoders.dsl_schema import PredecoderDSL
from autoqec.envs.environment import Environment
from autoqec.envs.load import load_env
from autoqec.errors import AutoQECError, InputError, RunnerCallPathError
from autoqec.io.locks import locked
from autoqec.layout import RoundDir
from autoqec.runner.data import FaultSampler
from autoqec.runner.gap import MatchingPairs
from autoqec.runner.hard_shots import HardShots
from autoqec.runner.objective import GapObjective
from autoqec.runner.safety import Safety
from autoqec.runner.schema import RoundMetrics, RunnerConfig
from autoqec.runner.supervise import run_round
from autoqec.runner.train import Schedule, train
from autoqec.sandbox.kinds import strongest

pytestmark = pytest.mark.slow

CONFIG = {
    "type": "neural_bp",
    "output_mode": "soft_priors",
    "neural_bp": {"iterations": 4, "weight_sharing": "per_check", "damping": "learnable_per_iter"},
    "training": {"loss": "backend_gap", "epochs": 1, "batch_size": 64, "learning_rate": 1e-3},
}


def small_env() -> Environment:
    env = load_env("surface_d3_depol")
    noise = env.spec.noise.model_copy(update={"p": [0.01], "reference_p": 0.01})
    protocol = env.spec.eval_protocol.model_copy(update={"min_shots_train": 20_000, "min_shots_val": 20_000})
    return Environment(env.spec.model_copy(update={"noise": noise, "eval_protocol": protocol}), root=env.root)


def config(folder: Path, seed: int = 0, **changes) -> RunnerConfig:
    data = {**CONFIG, **changes}
    return RunnerConfig(env_name="surface_d3_depol", predecoder_config=data, round_dir=str(folder), seed=seed)


def training(**changes) -> dict:
    return {"training": {**CONFIG["training"], **changes}}


@pytest.fixture(scope="module")
def done(tmp_path_factory) -> tuple[Path, RoundMetrics]:
    folder = tmp_path_factory.mktemp("round")
    wanted = config(folder).model_copy(update={"commit_message": "Try a thing"})
    return folder, run_round(wanted, small_env())


def test_a_round_leaves_its_files_and_true_metrics(done) -> None:
    folder, metrics = done
    assert metrics.status == "ok", metrics.status_reason
    on_disk = RoundMetrics.model_validate_json((folder / "metrics.json").read_text())
    assert on_disk == metrics
    assert Path(metrics.checkpoint_path).is_file()
    assert Path(metrics.training_log_path).read_text().splitlines()[0].split("\t")[0] == "1"
    assert 0 < metrics.train_batches_total <= 2000 // 64
    assert metrics.train_loss_initial > 0
    assert metrics.n_params > 0
    assert metrics.flops_per_syndrome > 1000
    assert metrics.train_wallclock_s > 0
    assert metrics.eval_wallclock_s > 0
    assert metrics.delta_ler == pytest.approx(metrics.ler_plain_classical - metrics.ler_predecoder)
    assert metrics.delta_ler_ci_low < metrics.delta_ler < metrics.delta_ler_ci_high
    assert metrics.per_p[0]["shots"] == 4000
    assert metrics.failure_kind is None
    assert metrics.training_stopped in ("all_steps", "patience")
    assert metrics.training_steps_planned == 2000 // 64
    assert f"kept step {metrics.training_kept_step} of" in metrics.training_note
    assert yaml.safe_load((folder / "config.yaml").read_text()) == CONFIG
    manifest = json.loads((folder / "artifact_manifest.json").read_text())
    assert manifest["commit_message"] == "Try a thing"
    assert set(manifest["artifacts"]) == {"config.yaml", "train.log", "checkpoint.pt", "metrics.json"}


def test_a_round_over_both_budgets_runs_and_is_marked(tmp_path: Path) -> None:
    env = small_env()
    tight = env.spec.constraints.model_copy(update={"latency_flops_budget": 1000, "param_budget": 1})
    env = Environment(env.spec.model_copy(update={"constraints": tight}), root=env.root)
    metrics = run_round(config(tmp_path, **training(epochs=0)), env)
    assert metrics.status == "ok", metrics.status_reason
    assert (metrics.training_stopped, metrics.training_kept_step) == ("no_epochs", None)
    assert metrics.over_budget == [
        f"flops_per_syndrome {metrics.flops_per_syndrome} > 1000",
        f"n_params {metrics.n_params} > 1",
    ]


def test_belief_propagation_is_not_worse_than_plain_matching_at_d3(done) -> None:
    """Its gain there is smaller than the noise of so few shots, which another machine's last digits change."""
    _, metrics = done
    assert metrics.delta_ler_ci_high > 0


def test_checkpoint_says_what_it_is(done) -> None:
    folder, _ = done
    info, state = checkpoint.read(folder / "checkpoint.pt")
    assert info.env_hash == small_env().content_hash
    assert info.dsl.type == "neural_bp"
    low, high = info.train_labels
    assert 1 <= low <= high <= 999
    assert state.keys() == torch.load(folder / "checkpoint.pt", weights_only=True)["state"].keys()
    from safetensors.torch import load_file

    twin = load_file(folder / "checkpoint.safetensors")
    assert all((twin[name] == tensor).all() for name, tensor in state.items())


def test_seeds_determine_the_round(done, tmp_path) -> None:
    folder, metrics = done
    again = run_round(config(tmp_path / "again"), small_env())
    other = run_round(config(tmp_path / "other", seed=1), small_env())
    _, first = checkpoint.read(folder / "checkpoint.pt")
    _, second = checkpoint.read(tmp_path / "again" / "checkpoint.pt")
    assert all((first[name] == second[name]).all() for name in first)
    assert again.ler_predecoder == metrics.ler_predecoder
    assert other.train_loss_final != metrics.train_loss_final


@pytest.mark.parametrize(
    ("changes", "status", "kind", "reason"),
    [
        ({"neural_bp": {"iterations": 0}}, "compile_error", "config_invalid", "iterations"),
        ({"type": "gnn"}, "compile_error", "config_invalid", "gnn"),
        (training(learning_rate=1e30), "train_error", "nan_loss", "learning_rate"),
        (training(batch_size=10**9), "killed_by_safety", "memory_estimate", "batch_size"),
    ],
)
def test_failures_are_statuses_with_kinds_and_reasons(tmp_path, changes, status, kind, reason) -> None:
    metrics = run_round(config(tmp_path, **changes), small_env())
    assert (metrics.status, metrics.failure_kind) == (status, kind)
    assert reason in metrics.status_reason
    assert metrics.checkpoint_path is None
    assert RoundMetrics.model_validate_json((tmp_path / "metrics.json").read_text()).status == status


def test_a_round_past_its_deadline_is_killed(tmp_path) -> None:
    metrics = run_round(config(tmp_path, **training(epochs=10_000)), small_env(), Safety(wall_clock_s=8))
    assert metrics.status == "killed_by_safety"
    assert (metrics.failure_kind, metrics.failure_facts) == ("wall_clock", {"limit_s": 8.0})
    assert "8 s" in metrics.status_reason


def test_a_process_that_the_system_kills_is_a_status(tmp_path) -> None:
    """What the kernel does to a process that runs out of memory: SIGKILL, without a message."""

    def strike() -> None:
        log = tmp_path / "train.log"
        while not (log.exists() and log.stat().st_size):
            time.sleep(0.1)
        for process in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                parent = (process / "stat").read_text().rpartition(")")[2].split()[1]
                if (
                    parent == str(os.getpid())
                    and b"autoqec.runner.child" in (process / "cmdline").read_bytes()
                ):
                    os.kill(int(process.name), signal.SIGKILL)

    killer = threading.Thread(target=strike, daemon=True)
    killer.start()
    metrics = run_round(config(tmp_path, **training(epochs=10_000)), small_env(), Safety(wall_clock_s=120))
    killer.join()
    assert metrics.status == "killed_by_safety"
    assert (metrics.failure_kind, metrics.failure_facts) == ("out_of_memory", {"certain": False})
    assert "memory" in metrics.status_reason


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
def test_the_training_ends_with_its_command(tmp_path, how) -> None:
    """The lock on the folder is the training's as well: once it is free, nothing writes there."""
    files, temporary = RoundDir(tmp_path / "round"), tmp_path / "temporary"
    temporary.mkdir()
    (tmp_path / "config.yaml").write_text(yaml.safe_dump({**CONFIG, **training(epochs=10_000)}))
    arguments = ["run-round", "surface_d3_depol", str(tmp_path / "config.yaml"), str(files.path)]
    process = subprocess.Popen(
        [sys.executable, "-m", "cli.autoqec", *arguments], env={**os.environ, "TMPDIR": str(temporary)}
    )
    while not (files.train_log.exists() and files.train_log.stat().st_size):
        assert process.poll() is None
        time.sleep(0.1)
    with pytest.raises(AutoQECError, match="locked"), locked(files.lock, wait=False):
        pass
    process.send_signal(how)
    assert process.wait() == (143 if how == signal.SIGTERM else -how)
    with locked(files.lock):
        assert not list(temporary.glob("autoqec-*")) or how == signal.SIGKILL


def test_an_attempt_that_was_trained_is_not_trained_again(tmp_path) -> None:
    changes = {"round_attempt_id": "a", "fork_from": "baseline", "fork_from_canonical": "baseline"}
    wanted = config(tmp_path, **training(epochs=0)).model_copy(update=changes)
    first = run_round(wanted, small_env())
    assert run_round(wanted, small_env()) == first  # to the clock
    other = run_round(wanted.model_copy(update={"round_attempt_id": "b"}), small_env())
    assert other.eval_wallclock_s != first.eval_wallclock_s


@pytest.mark.parametrize("report", ["verification_report.json", "verification_report.md"])
def test_the_checkpoint_beside_a_verification_report_is_not_replaced(tmp_path, report) -> None:
    for name in ("checkpoint.pt", report):
        (tmp_path / name).write_text(f"this is {name}")
    with pytest.raises(InputError, match="another round would replace it"):
        run_round(config(tmp_path), small_env())
    left = {path.name: path.read_text() for path in tmp_path.iterdir() if not path.name.startswith(".")}
    assert left == {name: f"this is {name}" for name in ("checkpoint.pt", report)}


def test_baselines_stand_beside_the_round_on_its_shots(tmp_path) -> None:
    metrics = run_round(config(tmp_path, **training(epochs=0)), small_env())
    beside = {row["plain"]: row for row in metrics.baselines}
    assert {"pymatching", "pymatching_correlated", "belief_matching"} <= beside.keys()
    assert beside["pymatching"]["ler_plain"] == metrics.ler_plain_classical
    assert all(row["ler_predecoder"] == metrics.ler_predecoder for row in beside.values())


def test_hard_flips_report_what_they_leave_to_the_backend(tmp_path) -> None:
    changes = {"output_mode": "hard_flip", "hard_flip": {"confidence": 0.7}, **training(epochs=0, loss="bce")}
    metrics = run_round(config(tmp_path, **changes), small_env())
    assert 0 < metrics.hard_flip["residual_density"] < 1
    assert metrics.hard_flip["backend_speedup"] > 0


def test_a_killed_training_resumes_where_it_was(tmp_path) -> None:
    """Stopped at any step and called again, training ends in the very weights of one that was never stopped."""
    problem = small_env().problem(0.01)
    sampler = FaultSampler([problem], "cpu")

    def start(folder: str, stop_at: int | None):
        (tmp_path / folder).mkdir(exist_ok=True)
        module = compile_predecoder(PredecoderDSL.model_validate(CONFIG), problem)
        pairs = MatchingPairs(problem, 1)
        shots = HardShots(sampler, lambda i: 77 + i, pairs.is_hard, size=600, draw=256)
        objective = GapObjective(shots, 64, pairs)

        def progress(step: int, steps: int, loss: float) -> None:
            if step == stop_at:
                raise KeyboardInterrupt

        report = train(
            module,
            objective,
            Schedule(steps=70, per_epoch=70, learning_rate=1e-3, seconds=600, save_seconds=0.0),
            select=lambda m: float(m.bp.readout.sum()),
            log=tmp_path / folder / "train.log",
            state_path=tmp_path / folder / "state.pt",
            progress=progress,
        )
        return module, report

    whole, report = start("whole", None)
    for stop in (40, 66):
        with pytest.raises(KeyboardInterrupt):
            start("cut", stop)
    resumed, again = start("cut", None)
    assert all(
        torch.equal(a, b)
        for a, b in zip(whole.state_dict().values(), resumed.state_dict().values(), strict=True)
    )
    assert again.losses == report.losses
    assert report.earlier_s == 0 < again.earlier_s < again.seconds
    assert (tmp_path / "cut" / "train.log").read_text() == (tmp_path / "whole" / "train.log").read_text()
    assert not (tmp_path / "cut" / "state.pt").exists()


def test_code_of_another_checkout_is_refused(tmp_path) -> None:
    elsewhere = config(tmp_path).model_copy(update={"code_cwd": str(tmp_path), "branch": "exp/x/01-y"})
    with pytest.raises(RunnerCallPathError, match="worktree"):
        run_round(elsewhere, small_env())


CUSTOM = {
    "type": "hybrid",
    "output_mode": "soft_priors",
    "neural_bp": {"iterations": 2},
    "gnn": {
        "layers": 1,
        "hidden_dim": 4,
        "message_fn": {
            "type": "custom",
            "code": "def message(x_src, x_dst, e_ij, params):\n    return torch.tanh(params.W(x_src) + e_ij)\n",
            "params_declared": {"W": "Linear(hidden, hidden)"},
        },
    },
    "training": {"loss": "bce", "epochs": 1, "batch_size": 256},
}


@pytest.mark.skipif(not strongest().confines, reason="no sandbox works on this machine")
def test_tier_2_trains_inside_the_sandbox(tmp_path) -> None:
    cfg = RunnerConfig(env_name="x", predecoder_config=CUSTOM, round_dir=str(tmp_path / "r"))
    metrics = run_round(cfg, small_env(), Safety(wall_clock_s=300))
    assert metrics.status == "ok", (metrics.status_reason, (tmp_path / "r" / "runner.log").read_text())
    hostile = json.loads(json.dumps(CUSTOM))
    hostile["gnn"]["message_fn"]["code"] = (
        "def message(x_src, x_dst, e_ij, params):\n    return torch.os.listdir()\n"
    )
    refused = run_round(cfg.model_copy(update={"predecoder_config": hostile}), small_env())
    assert refused.status == "compile_error"
    assert (refused.failure_kind, refused.failure_where) == ("code_refused", "gnn.message_fn")
    assert "line 2" in refused.status_reason


def test_the_command_prints_metrics_and_exits_by_status(tmp_path) -> None:
    path = tmp_path / "config.yaml"
    path.write_text(yaml.safe_dump({**CONFIG, "training": {"epochs": 0}}))
    arguments = ["run-round", "surface_d3_depol", str(path), str(tmp_path / "round"), "--json"]
    done = subprocess.run(
        [sys.executable, "-m", "cli.autoqec", *arguments],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["status"] == "ok"
    path.write_text("type: gnn\n")
    refused = subprocess.run(
        [sys.executable, "-m", "cli.autoqec", *arguments],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ,
    )
    assert refused.returncode == 2
    assert "config.yaml" in refused.stderr
