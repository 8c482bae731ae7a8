"""What a round trains on: error model, process or recorded shots, and which of them it takes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import stim
import torch

from autoqec.decoders import checkpoint
from autoqec.envs.environment import Environment
from autoqec.envs.load import load_env
from autoqec.envs.packing import pack, unpack
from autoqec.envs.sampling import Shots
from autoqec.envs.schema import EnvSpec
from autoqec.envs.shot_files import FORMATS
from autoqec.errors import InputError
from autoqec.io.hashing import sha256_bytes
from autoqec.layout import RoundDir
from autoqec.runner import recorded
from autoqec.runner.execute import Round
from autoqec.runner.recorded import Recorded
from autoqec.runner.safety import Safety
from autoqec.runner.schema import RunnerConfig
from autoqec.runner.shot_sources import ProcessSource, RecordedSource, make_source, trained_on
from autoqec.runner.supervise import run_round

P = 0.01
CPU = torch.device("cpu")
CONFIG = {
    "type": "neural_bp",
    "output_mode": "soft_priors",
    "neural_bp": {"iterations": 2},
    "training": {"loss": "backend_gap", "epochs": 1, "batch_size": 64, "learning_rate": 1e-3},
}


def small(**noise: object) -> Environment:
    """A surface code of distance 3; a round on it takes 6 steps."""
    spec = load_env("surface_d3_depol").spec.model_dump()
    spec["noise"] |= {"p": [P / 2, P], "reference_p": P, **noise}
    spec["eval_protocol"] |= {"min_shots_train": 4000, "min_shots_val": 2000}
    return Environment(EnvSpec.model_validate({**spec, "baseline_decoders": ["pymatching"]}))


@pytest.mark.parametrize("with_faults", [True, False])
def test_shots_above_the_reference_do_not_outnumber_the_hard_ones_at_it(with_faults: bool) -> None:
    """A loss on hard shots sees more of them the larger p is, so fewer shots are drawn there; a loss on marginals learns from all shots."""
    env = small(p=[P / 2, P, 2 * P])
    problems = [env.problem(p) for p in env.spec.noise.p]
    source = make_source("model", env, problems, CPU, recorded=None, at=P, with_faults=with_faults)
    drawn = np.bincount(source.sample(20_000, 1).which.numpy(), minlength=3)
    assert drawn[1] / drawn[0] == pytest.approx(0.7 / 0.15, rel=0.01)
    assert drawn[0] / drawn[2] == pytest.approx(1.0 if with_faults else 8.0, rel=0.02)


LEAKING = {"type": "leakage", "leakage": {"leak": 0.5, "seep": 0.05, "spread": 0.05}}


def config(folder: Path, *, loss: str = "backend_gap", **fields: object) -> RunnerConfig:
    data = {**CONFIG, "training": {**CONFIG["training"], "loss": loss}}
    return RunnerConfig(env_name="x", predecoder_config=data, round_dir=str(folder), **fields)


def write(path: Path, shots: Shots, env: Environment) -> Path:
    """Detectors and observables of each shot, in the format of the name's ending."""
    circuit = env.circuit(P)
    assert circuit is not None
    n, k = circuit.num_detectors, circuit.num_observables
    bits = np.concatenate([unpack(shots.detectors, n), unpack(shots.observables, k)], axis=1).astype(bool)
    sizes = {"num_detectors": n, "num_observables": k}
    stim.write_shot_data_file(data=bits, path=path, format=path.suffix[1:], **sizes)
    return path


@pytest.mark.parametrize(
    ("noise", "loss_needs_faults", "expected"),
    [
        ({}, False, "model"),
        (LEAKING, False, "process"),
        (LEAKING, True, "model"),
        ({"type": "leakage", "leakage": {"leak": 0.0}}, False, "model"),
        ({"type": "biased"}, False, "process"),
    ],
)
def test_losses_through_the_backend_take_the_process_where_the_model_is_not_exact(
    noise: dict[str, object], loss_needs_faults: bool, expected: str
) -> None:
    env = small(**noise)
    assert trained_on(env, P, needs_faults=loss_needs_faults, is_recorded=False) == expected


def test_a_process_batch_has_the_shots_of_the_environment_at_each_p() -> None:
    env = small(**LEAKING)
    problems = [env.problem(p) for p in env.spec.noise.p]
    source = ProcessSource(env, problems, CPU, shares=[0.25, 0.75])
    batch = source.sample(20_000, seed=4)
    assert torch.bincount(batch.which).tolist() == [5_000, 15_000]
    assert torch.equal(batch.syndrome, source.sample(20_000, seed=4).syndrome)
    assert torch.equal(batch.given["prior_p"][-1], torch.from_numpy(problems[1].priors).float())
    fresh = unpack(env.sampler(P).sample(15_000, 9).detectors, problems[1].n_checks).mean(axis=0)
    rates = batch.syndrome[batch.which == 1].mean(dim=0).numpy()
    sigma = np.sqrt(2 * fresh * (1 - fresh) / 15_000)
    assert np.abs(rates - fresh).max() < 5 * sigma.max()  # 24 detectors: a false alarm in 7e4


def test_recorded_shots_come_once_before_one_comes_again() -> None:
    env = small()
    shots = env.sampler(P).sample(300, 1)
    source = RecordedSource(shots, env.problem(P), CPU)
    batch = source.sample(300, seed=2)
    bits = [pack(batch.syndrome.numpy().astype(np.uint8)), pack(batch.observables.numpy().astype(np.uint8))]
    drawn, given = (np.concatenate(list(part), axis=1) for part in (bits, shots))
    assert sorted(map(bytes, drawn)) == sorted(map(bytes, given))
    assert len(source.sample(1000, seed=2)) == 1000


def test_selection_uses_other_recorded_shots_than_training() -> None:
    rows = np.arange(1000, dtype=np.uint8)[:, None]
    training, selecting = Recorded(Shots(rows, rows), "").split(most=1000)
    assert len(training.detectors) == 800
    assert len(selecting.detectors) == 200
    assert (np.concatenate([training.detectors, selecting.detectors]) == rows).all()
    assert len(Recorded(Shots(rows, rows), "").split(most=30)[1].detectors) == 30


@pytest.mark.parametrize("form", ["b8", "01", "dets"])
def test_recorded_shots_are_read_in_formats_of_stim(form: str, tmp_path: Path) -> None:
    env = small()
    shots = env.sampler(P).sample(500, 1)
    path = write(tmp_path / f"shots.{form}", shots, env)
    found = recorded.named(config(tmp_path, train_shots=str(path)), env)
    assert found is not None
    assert (found.shots.detectors == shots.detectors).all()
    assert (found.shots.observables == shots.observables).all()
    assert found.sha256 == sha256_bytes(shots.detectors.tobytes() + shots.observables.tobytes())


@pytest.mark.parametrize("form", FORMATS)
def test_both_files_are_read_as_stim_writes_them(form: str, tmp_path: Path) -> None:
    env = small()
    names = {"train_shots": str(tmp_path / f"d.{form}"), "train_observables": str(tmp_path / f"o.{form}")}
    env.circuit(P).compile_detector_sampler(seed=5).sample_write(
        512, filepath=names["train_shots"], format=form, obs_out_filepath=names["train_observables"],
        obs_out_format=form,
    )  # fmt: skip
    found = recorded.named(config(tmp_path, **names), env)
    detectors, observables = (
        env.circuit(P)
        .compile_detector_sampler(seed=5)
        .sample(512, separate_observables=True, bit_packed=True)
    )
    assert observables.any()
    assert (found.shots.detectors == detectors).all()
    assert (found.shots.observables == observables).all()


def test_observables_may_have_a_file_of_their_own(tmp_path: Path) -> None:
    env = small()
    shots = env.sampler(P).sample(500, 1)
    for name, part in (
        ("d.b8", shots.detectors),
        ("o.b8", shots.observables),
        ("few.b8", shots.observables[:9]),
    ):
        (tmp_path / name).write_bytes(part.tobytes())
    names = {"train_shots": str(tmp_path / "d.b8"), "train_observables": str(tmp_path / "o.b8")}
    found = recorded.named(config(tmp_path, **names), env)
    assert found is not None
    assert (found.shots.observables == shots.observables).all()
    (tmp_path / "o.01").write_text("2\n")
    with pytest.raises(InputError, match=r"not 01 shots of 1 observables"):
        recorded.named(config(tmp_path, **{**names, "train_observables": str(tmp_path / "o.01")}), env)
    with pytest.raises(InputError, match=r"500 shots of detectors and 9 of observables"):
        recorded.named(config(tmp_path, **{**names, "train_observables": str(tmp_path / "few.b8")}), env)


def test_shots_that_cannot_train_are_refused_with_one_error(tmp_path: Path) -> None:
    env = small()
    good = write(tmp_path / "good.b8", env.sampler(P).sample(500, 1), env)
    few = write(tmp_path / "few.b8", env.sampler(P).sample(50, 1), env)
    torn, text = tmp_path / "torn.b8", tmp_path / "text.01"
    torn.write_bytes(good.read_bytes()[:-1])
    text.write_text("0102\n")
    nameless = tmp_path / "nameless"
    nameless.write_bytes(good.read_bytes())
    for path, said in (
        (tmp_path / "missing.b8", "does not exist"),
        (tmp_path, "not a regular file"),
        (torn, "not b8 shots of 24 detectors and 1 observables"),
        (text, "not 01 shots"),
        (few, "50 shots, and it takes at least 100"),
        (nameless, "does not say its format"),
    ):
        with pytest.raises(InputError, match=said) as caught:
            recorded.named(config(tmp_path, train_shots=str(path)), env)
        assert str(path) in str(caught.value)
    with pytest.raises(InputError, match=r"bce learns which faults happened"):
        recorded.named(config(tmp_path, loss="bce", train_shots=str(good)), env)
    for option, value in (("train_observables", str(good)), ("train_shots_format", "b8")):
        with pytest.raises(InputError, match="of which shots") as caught:
            recorded.named(config(tmp_path, **{option: value}), env)
        assert option in str(caught.value)


def test_a_state_of_other_shots_is_not_resumed(tmp_path: Path) -> None:
    files = RoundDir(tmp_path)
    shots = small().sampler(P).sample(200, 1)
    first, other = Recorded(shots, "1" * 64), Recorded(shots, "2" * 64)
    recorded.keep(files, first)
    states = files.training_state, RoundDir(files.confined).training_state
    files.confined.mkdir()
    for state in states:
        state.write_bytes(b"state")
    recorded.keep(files, first)
    assert all(state.exists() for state in states)
    recorded.keep(files, other)
    assert not any(state.exists() for state in states)
    files.training_state.write_bytes(b"state")
    recorded.keep(files, None)
    assert not files.training_state.exists()
    assert not files.train_shots.exists()


def test_a_state_of_another_config_is_not_resumed(tmp_path: Path) -> None:
    files = RoundDir(tmp_path)
    states = files.training_state, RoundDir(files.confined).training_state
    files.confined.mkdir()
    for state in states:
        state.write_bytes(b"state")
    refused = RunnerConfig(env_name="x", predecoder_config={"type": "none"}, round_dir=str(tmp_path))
    assert run_round(refused, small()).status == "compile_error"
    assert not any(state.exists() for state in states)


@pytest.mark.parametrize("loss", ["backend_gap", "failures"])
def test_recorded_shots_are_looked_through_once_for_hard_ones(loss: str, tmp_path: Path) -> None:
    env = small()
    quiet = Shots(*(np.zeros_like(part) for part in env.sampler(P).sample(1000, 1)))
    metrics = Round(
        config(tmp_path, loss=loss), env, Safety(), workers=1, recorded=Recorded(quiet, "3" * 64)
    ).run()
    # the other 200 choose among training states
    assert metrics.status == "compile_error"
    looked = {"backend_gap": "800", "failures": "1,024"}[loss]  # of failures: four times 256
    assert f"no hard shot among {looked}" in (metrics.status_reason or "")


@pytest.mark.parametrize("kind", ["process", "recorded"])
def test_a_round_says_what_it_trained_on(kind: str, tmp_path: Path) -> None:
    env = small(**LEAKING)
    shots = None if kind == "process" else Recorded(env.sampler(P).sample(3000, 7), "5" * 64)
    metrics = Round(config(tmp_path), env, Safety(), workers=1, recorded=shots).run()
    assert metrics.status == "ok", metrics.status_reason
    assert metrics.trained_on == kind
    assert metrics.train_batches_total > 0
    said = {"process": "the environment's own process", "recorded": "recorded shots"}[kind]
    assert f"trained on {said}" in (metrics.training_note or "")
    info, _ = checkpoint.read(RoundDir(tmp_path).checkpoint)
    assert info.train_shots == (None if shots is None else shots.sha256)
    assert info.train_labels == (env.spec.noise.seed_policy.train if shots is None else (0, -1))
