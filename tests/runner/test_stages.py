"""The stages of a cascade in training: gates from shots, open shots, and a round that resumes in a later stage."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from autoqec.decoders import checkpoint
from autoqec.decoders.backends import make_backend
from autoqec.decoders.compiler import compile_predecoder
from autoqec.decoders.dsl_schema import PredecoderDSL
from autoqec.decoders.gates import EVERY_SHOT, Staged
from autoqec.decoders.pipeline import PredecoderPipeline
from autoqec.envs.environment import Environment
from autoqec.envs.load import load_env
from autoqec.runner.bits import packed
from autoqec.runner.data import FaultSampler
from autoqec.runner.execute import Round
from autoqec.runner.failures import FailureObjective
from autoqec.runner.losses import MARGINAL_LOSSES
from autoqec.runner.objective import MarginalObjective
from autoqec.runner.profiles import PROFILES
from autoqec.runner.recorded import Recorded
from autoqec.runner.safety import Safety
from autoqec.runner.schema import RoundMetrics, RunnerConfig
from autoqec.runner.stages import LeftOpen, OpenSource, same_weights, set_threshold, threshold
from autoqec.runner.train import Schedule, TrainingReport, finished_stages, joined

SHARE = 0.02
CONFIG = {
    "type": "cascade",
    "output_mode": "soft_priors",
    "stages": [
        {"type": "neural_bp", "neural_bp": {"iterations": 2}},
        {"type": "gnn", "gnn": {"layers": 1, "hidden_dim": 4}, "share": SHARE},
    ],
    "training": {"loss": "backend_gap", "epochs": 1, "batch_size": 64, "learning_rate": 1e-2},
}


@pytest.fixture(scope="module")
def env() -> Environment:
    found = load_env("surface_d3_depol")
    noise = found.spec.noise.model_copy(update={"p": [5e-3, 0.01], "reference_p": 0.01})
    shots = {"min_shots_train": 6_400, "min_shots_val": 20_000}
    protocol = found.spec.eval_protocol.model_copy(update=shots)
    spec = found.spec.model_copy(
        update={"noise": noise, "eval_protocol": protocol, "baseline_decoders": ["pymatching"]}
    )
    return Environment(spec, root=found.root)


def with_loss(loss: str) -> dict[str, Any]:
    return {"training": {**CONFIG["training"], "loss": loss}}


def played(
    env: Environment,
    folder: Path,
    progress: Callable[[int, int, float], None] | None = None,
    recorded: Recorded | None = None,
    **changes,
) -> RoundMetrics:
    config = RunnerConfig(
        env_name=env.spec.name, predecoder_config={**CONFIG, **changes}, round_dir=str(folder)
    )
    return Round(config, env, Safety(), workers=1, progress=progress, recorded=recorded).run()


def opened(env: Environment, folder: Path) -> LeftOpen:
    """Which shots the first stage of a trained cascade leaves open."""
    problem = env.problem(0.01)
    _, module = checkpoint.load(folder / "checkpoint.pt", problem)
    return LeftOpen(module, make_backend(problem, "mwpm"), torch.device("cpu"))


@pytest.fixture(scope="module")
def done(env, tmp_path_factory) -> tuple[Path, RoundMetrics]:
    folder = tmp_path_factory.mktemp("cascade")
    return folder, played(env, folder)


def test_a_round_trains_its_stages_in_turn_and_says_what_each_costs(env, done) -> None:
    folder, metrics = done
    assert metrics.status == "ok", metrics.status_reason
    assert metrics.train_batches_total == metrics.training_steps_planned == 20
    assert "stage 1: all steps done" in metrics.training_note
    assert "stage 2: all steps done" in metrics.training_note
    found = metrics.cascade
    assert [row.p for row in found.per_p] == [5e-3, 0.01]
    low, high = (row.shares for row in found.per_p)
    assert low[0] == high[0] == 1.0
    # set on training shots, met on others; less noise leaves fewer shots open
    assert low[1] < high[1] == pytest.approx(SHARE, abs=0.01)
    assert metrics.flops_per_syndrome == found.per_p[1].flops_per_syndrome
    expected = found.stage_flops[0] + high[1] * found.stage_flops[1]
    assert metrics.flops_per_syndrome == pytest.approx(expected, abs=1)
    assert found.worst_flops == sum(found.stage_flops)
    steps = [line.split("\t")[0] for line in (folder / "train.log").read_text().splitlines()]
    assert steps == [str(step) for step in range(1, 21)]


def test_the_checkpoint_holds_the_thresholds_and_decodes_by_them(env, done) -> None:
    folder, metrics = done
    problem = env.problem(0.01)
    _, module = checkpoint.load(folder / "checkpoint.pt", problem)
    assert module.thresholds.tolist() == metrics.cascade.thresholds
    shots = env.sampler(0.01).sample(3000, 1)
    found = PredecoderPipeline(module, make_backend(problem, "mwpm")).staged(shots.detectors)
    assert found.reached(2)[1] / 3000 == pytest.approx(SHARE, abs=0.01)


@pytest.fixture(scope="module")
def searched(env, tmp_path_factory) -> tuple[Path, RoundMetrics, list[FailureObjective]]:
    """A cascade that trains by failure counts, with the objective of each stage."""
    objectives: list[FailureObjective] = []

    def made(*parts) -> FailureObjective:
        objectives.append(FailureObjective(*parts))
        return objectives[-1]

    folder = tmp_path_factory.mktemp("searched")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("autoqec.runner.training.FailureObjective", made)
        return folder, played(env, folder, **with_loss("failures")), objectives


@pytest.mark.slow
def test_failures_are_counted_on_open_shots_in_a_later_stage(env, searched) -> None:
    folder, metrics, objectives = searched
    assert metrics.status == "ok", metrics.status_reason
    first, second = (each.shots.buffer for each in objectives)
    is_open = opened(env, folder)
    assert not is_open(*first.packed(np.arange(len(first)))).all()
    assert is_open(*second.packed(np.arange(len(second)))).all()


@pytest.mark.slow
@pytest.mark.parametrize("loss", ["backend_gap", "failures"])
def test_killed_in_a_later_stage_it_resumes_there(env, loss, tmp_path, monkeypatch, request) -> None:
    class Killed(BaseException):
        pass

    def kill_at(step: int, _steps: int, _loss: float) -> None:
        seen.append(step)
        if len(seen) == 15:
            raise Killed

    def scheduled(**fields) -> Schedule:
        limits.append(fields["seconds"])
        return Schedule(**fields, save_seconds=0.0)

    seen: list[int] = []
    limits: list[float] = []
    monkeypatch.setattr("autoqec.runner.training.Schedule", scheduled)
    with pytest.raises(Killed):
        played(env, tmp_path, kill_at, **with_loss(loss))
    (finished,) = finished_stages(tmp_path / "training_state.pt")
    resumed: list[int] = []
    again = played(env, tmp_path, lambda step, *_: resumed.append(step), **with_loss(loss))
    assert again.status == "ok", again.status_reason
    assert resumed[0] == 5
    folder, first, *_ = request.getfixturevalue({"backend_gap": "done", "failures": "searched"}[loss])
    assert (tmp_path / "train.log").read_text() == (folder / "train.log").read_text()
    assert again.cascade == first.cascade
    for name in (
        "train_batches_total",
        "train_loss_initial",
        "train_loss_final",
        "training_kept_step",
        "training_note",
    ):
        assert getattr(again, name) == getattr(first, name), name
    assert again.train_batches_total == 20
    assert again.train_wallclock_s > finished.seconds > 0
    assert limits[-1] < PROFILES["dev"].train_seconds - finished.seconds
    assert not (tmp_path / "training_state.pt").exists()


def test_untrained_stages_still_get_their_gate(env, tmp_path) -> None:
    metrics = played(env, tmp_path, training={"epochs": 0})
    assert metrics.status == "ok", metrics.status_reason
    assert metrics.training_stopped == "no_epochs"
    assert metrics.cascade.per_p[1].shares[1] == pytest.approx(SHARE, abs=0.01)


def test_the_gate_is_set_on_recorded_shots_where_those_train(env, tmp_path) -> None:
    shots = env.sampler(5e-3).sample(4000, 11)  # of a machine with less noise than the environment says
    given = Recorded(shots, "1" * 64)
    metrics = played(env, tmp_path, recorded=given, training={"epochs": 0})
    assert metrics.status == "ok", metrics.status_reason
    training = given.split(most=4000)[0]
    assert opened(env, tmp_path)(*training).mean() == pytest.approx(SHARE, abs=1e-3)


def test_a_gate_that_moves_leaves_the_stages_as_they_were_and_training_does_not(env) -> None:
    module = compile_predecoder(PredecoderDSL.model_validate(CONFIG), env.problem(0.01))
    before = {name: value.clone() for name, value in module.state_dict().items()}
    module.thresholds.fill_(3.0)
    assert same_weights(module, before)
    with torch.no_grad():
        next(module.stages[1].parameters()).add_(1e-3)
    assert not same_weights(module, before)


def test_it_stopped_as_the_last_stage_that_trained() -> None:
    first, second = TrainingReport(steps=3, stopped="patience"), TrainingReport(stopped="no_epochs")
    assert joined([first, second]).stopped == "patience"
    assert joined([second, second]).stopped == "no_epochs"


def test_a_mean_cost_below_the_first_stage_is_refused(env, tmp_path) -> None:
    stages = [CONFIG["stages"][0], {"type": "gnn", "gnn": {"layers": 1, "hidden_dim": 4}}]
    metrics = played(env, tmp_path, stages=stages, mean_flops=10)
    assert metrics.status == "compile_error"
    assert "first stage alone" in metrics.status_reason
    assert metrics.failure_where == "mean_flops"


def test_a_threshold_lets_no_more_go_on_than_it_should() -> None:
    sure = np.array([0.5, 3.0, 1.0, np.inf, 2.0, 2.0, np.inf, 4.0, 5.0, 6.0])
    found = Staged(np.zeros((10, 1), np.uint8), sure, sure, np.zeros(10, np.int64))
    for share in (0.0, 0.1, 0.25, 0.3, 0.4, 0.8, 1.0):
        assert (sure < threshold(found, 0, share)).mean() <= share
    assert (sure < threshold(found, 0, 0.2)).sum() == 2
    assert threshold(found, 0, 0.9) == threshold(found, 0, 1.0) == EVERY_SHOT


def test_later_stages_train_on_open_shots_alone(env) -> None:
    problem = env.problem(0.01)
    backend, cpu = make_backend(problem, "mwpm"), torch.device("cpu")
    module = compile_predecoder(PredecoderDSL.model_validate(CONFIG), problem)
    module.train_stage(0)
    set_threshold(module, backend, env.sampler(0.01).sample(2000, 3).detectors, cpu, SHARE)
    module.train_stage(1)
    is_open = LeftOpen(module, backend, cpu)
    sampler = FaultSampler([problem], "cpu")
    batch = OpenSource(sampler, is_open).sample(32, 7)
    assert len(batch) == 32
    assert batch.faults.shape == (problem.n_faults, 32)
    assert is_open(packed(batch.syndrome), packed(batch.observables)).all()
    fresh = sampler.sample(500, 9)
    assert not is_open(packed(fresh.syndrome), packed(fresh.observables)).all()
    # only the stage that trains learns
    module.train()
    module.backend_weights(batch.syndrome, batch.given).sum().backward()
    learned = {name.split(".")[1] for name, each in module.named_parameters() if each.grad is not None}
    assert learned == {"1"}
    assert not module.stages[0].training


def test_batches_drawn_ahead_are_those_of_their_step(env: Environment) -> None:
    """Beside a step, and out of order where a training resumes: each step has the shots of its own seed."""
    problem = env.problem(0.01)
    dsl = PredecoderDSL.model_validate({**CONFIG, **with_loss("bce")})

    def losses(ahead: bool, steps: list[int]) -> list[float]:
        module = compile_predecoder(dsl, problem)
        backend, cpu = make_backend(problem, "mwpm"), torch.device("cpu")
        module.train_stage(0)
        set_threshold(module, backend, env.sampler(0.01).sample(2000, 3).detectors, cpu, SHARE)
        module.train_stage(1)
        module.train()
        is_open = LeftOpen(module, backend, cpu)
        source = OpenSource(FaultSampler([problem], "cpu"), is_open)
        objective = MarginalObjective(source, lambda step: 50 + step, 16, MARGINAL_LOSSES["bce"], ahead=ahead)
        return [float(objective.step(module, step)) for step in steps]

    assert losses(True, [0, 1, 2, 5, 6]) == losses(False, [0, 1, 2, 5, 6])
    assert len(set(losses(True, [0, 1, 2]))) == 3
