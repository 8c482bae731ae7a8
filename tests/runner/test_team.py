"""One model, trained by two processes on CPUs (gloo)."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import torch

from autoqec.decoders.compiler import compile_predecoder
from autoqec.decoders.dsl_schema import PredecoderDSL
from autoqec.envs.environment import Environment
from autoqec.envs.load import load_env
from autoqec.errors import InputError
from autoqec.io.validate import validate_model
from autoqec.runner.profiles import PROFILES
from autoqec.runner.safety import Safety
from autoqec.runner.schema import RunnerConfig
from autoqec.runner.supervise import run_round
from autoqec.runner.team import joined
from autoqec.runner.train import Schedule, train

CONFIG = {
    "type": "neural_bp",
    "output_mode": "soft_priors",
    "neural_bp": {"iterations": 2, "weight_sharing": "per_check"},
    "training": {"loss": "backend_gap", "epochs": 1, "batch_size": 1024, "learning_rate": 1e-3},
}
STEPS = 6


class Pull:
    """Gradients that depend on the step and on who computes them; their mean over `ranks` is that of a team."""

    def __init__(self, *ranks: int) -> None:
        self._ranks = ranks

    def prepare(self, step: int) -> None:
        pass

    def step(self, module: torch.nn.Module, step: int) -> torch.Tensor:
        loss = sum(
            (each.flatten() * torch.sin(torch.arange(each.numel()) * (rank + 1.0) + step)).sum()
            for each in module.parameters()
            for rank in self._ranks
        ) / len(self._ranks)
        loss.backward()
        return torch.tensor(float(self._ranks[0] + step))


def trained(folder: Path, objective: Pull, **options: object) -> tuple[torch.nn.Module, list[float]]:
    folder.mkdir(exist_ok=True)
    dsl = PredecoderDSL.model_validate(CONFIG)
    module = compile_predecoder(dsl, load_env("surface_d3_depol").problem(0.01))
    scores = iter(range(100, 0, -1))
    report = train(
        module,
        objective,
        Schedule(steps=STEPS, per_epoch=STEPS, learning_rate=1e-2, seconds=1e6),
        select=lambda _: float(next(scores)),
        log=folder / "train.log",
        state_path=folder / "state.pt",
        **options,
    )
    return module, report.losses


def one_of_two(rank: int, folder: Path) -> None:
    """What each of the two processes of the test below does."""
    with joined(folder / "meeting", rank, 2) as team:
        module, losses = trained(folder / str(rank), Pull(rank), team=team)
    torch.save({"state": module.state_dict(), "losses": losses}, folder / f"{rank}.pt")


@pytest.mark.slow
def test_two_processes_take_the_steps_of_one_with_both_their_gradients(tmp_path: Path) -> None:
    code = f"import sys; sys.path.insert(0, {str(Path(__file__).parent)!r})\nfrom pathlib import Path\nimport test_team\n"
    both = [
        subprocess.Popen(
            [sys.executable, "-c", f"{code}test_team.one_of_two({rank}, Path({str(tmp_path)!r}))"]
        )
        for rank in (0, 1)
    ]
    try:
        codes = [each.wait(timeout=600) for each in both]
    finally:
        for each in both:  # one that waits for another which is gone
            each.kill()
            each.wait()
    assert codes == [0, 0]
    first, second = (torch.load(tmp_path / f"{rank}.pt", weights_only=True) for rank in (0, 1))
    alone, _ = trained(tmp_path / "alone", Pull(0, 1))
    assert first["losses"] == second["losses"] == [0.5 + step for step in range(STEPS)]
    for name, value in alone.state_dict().items():
        assert torch.equal(first["state"][name], second["state"][name])
        torch.testing.assert_close(first["state"][name], value, rtol=1e-5, atol=1e-6)
    assert (tmp_path / "0" / "train.log").read_text().count("\n") == STEPS


FAILED_HELPERS = """
import subprocess, sys, threading
from autoqec.runner import team

def watched(is_over):
    helper = subprocess.Popen([sys.executable, "-c", "raise SystemExit(3)"])
    thread = threading.Thread(target=team._watch, args=(1, helper, is_over))
    thread.start()
    return thread

class Asked(threading.Event):
    def wait(self, timeout=None):
        asked.set()
        return super().wait(timeout)

asked, is_over = threading.Event(), Asked()
thread = watched(is_over)
asked.wait()  # the other process has failed, and this one is still there
is_over.set()
thread.join()
print("said why", flush=True)
team._LAST_WORDS_S = 0
watched(threading.Event()).join()
print("nobody ended this one", flush=True)
"""


def test_the_first_process_says_why_before_it_ends_with_another_one() -> None:
    command = [sys.executable, "-c", FAILED_HELPERS]
    ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert ended.stdout == "said why\n", ended.stderr
    assert ended.returncode == 1
    assert ended.stderr.count("training process 1 ended with code 3") == 2


@pytest.mark.slow
def test_a_campaign_whose_processes_all_fail_has_their_reason(tmp_path: Path) -> None:
    config = RunnerConfig(
        env_name="x", predecoder_config=CONFIG, round_dir=str(tmp_path), campaign=True, processes=2
    )
    metrics = run_round(config, load_env("surface_d3_depol"), Safety(memory_gb=1e-6))
    assert metrics.failure_kind == "memory_estimate", (tmp_path / "runner.log").read_text()


@pytest.mark.slow
def test_a_campaign_of_two_processes(tmp_path: Path) -> None:
    spec = load_env("surface_d3_depol").spec
    noise = spec.noise.model_copy(update={"p": [0.01], "reference_p": 0.01})
    protocol = spec.eval_protocol.model_copy(update={"min_shots_train": 1000, "min_shots_val": 2000})
    changes = {"noise": noise, "eval_protocol": protocol, "baseline_decoders": ["pymatching"]}
    config = RunnerConfig(
        env_name="x", predecoder_config=CONFIG, round_dir=str(tmp_path), campaign=True, processes=2
    )
    metrics = run_round(config, Environment(spec.model_copy(update=changes)))
    output = (tmp_path / "runner.log").read_text()
    assert metrics.status == "ok", output
    assert metrics.training_profile == "campaign"
    assert metrics.train_batches_total == 10_000 // 1024
    assert [row["shots"] for row in metrics.per_p] == [1_000_000]
    assert "process 1 of 2" in output
    assert "process 2 of 2" in output


def test_dev_and_prod_keep_their_budgets_and_have_one_process() -> None:
    protocol = load_env("surface_d5_depol").spec.eval_protocol
    sizes = {name: (each.train_shots(protocol), each.val_shots(protocol)) for name, each in PROFILES.items()}
    assert sizes == {
        "dev": (100_000, 20_000),
        "prod": (1_000_000, 100_000),
        "campaign": (10_000_000, 1_000_000),
    }
    with pytest.raises(InputError, match="processes = 2 belongs to a campaign"):
        validate_model(
            {"env_name": "x", "predecoder_config": {}, "round_dir": "r", "processes": 2},
            RunnerConfig,
            where="x",
        )
