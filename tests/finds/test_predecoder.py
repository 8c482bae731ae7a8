"""A find gives the same predictions wherever it is used, and is refused where it does not belong."""

import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pymatching
import pytest
import stim
from finds.conftest import BOTH_HALVES, QLDPC, SURFACE, Maker

import autoqec
from autoqec.decoders import checkpoint
from autoqec.decoders.backends import make_backend
from autoqec.decoders.pipeline import PredecoderPipeline
from autoqec.errors import InputError

pytestmark = pytest.mark.slow

SHOTS = 2_000
EVERYWHERE = [
    ("weights", SURFACE),
    ("flips", SURFACE),
    ("custom", SURFACE),
    ("weights", QLDPC),
    ("flips", QLDPC),
    ("turbo", BOTH_HALVES),
]


def expected(folder: Path, env: autoqec.Environment, p: float, detectors: np.ndarray) -> np.ndarray:
    """The pipeline that training validates, built by hand."""
    problem = env.problem(p)
    _, module = checkpoint.load(folder / "checkpoint.pt", problem)
    return PredecoderPipeline(module, make_backend(problem, env.spec.classical_backend)).decode(detectors)


@pytest.mark.parametrize(("config", "name"), EVERYWHERE)
def test_python_sinter_and_the_command_agree_with_the_pipeline(
    find: Maker, config: str, name: str, tmp_path: Path
) -> None:
    folder, env = find(config, name), autoqec.load_env(name)
    p = max(env.spec.noise.p)
    packed = env.sample(p, SHOTS, seed=11, bit_packed=True)
    wanted = expected(folder, env, p, packed.detectors)
    assert wanted.any()
    found = autoqec.load_predecoder(folder, p=p)
    in_python = found.decode(packed.detectors, bit_packed_shots=True, bit_packed_predictions=True)
    assert np.array_equal(in_python, wanted)

    circuit = env.circuit(p)
    decompose = env.spec.classical_backend == "mwpm"
    dem = circuit.detector_error_model(decompose_errors=decompose, approximate_disjoint_errors=True)
    compiled = pickle.loads(pickle.dumps(found.as_sinter())).compile_decoder_for_dem(dem=dem)
    in_sinter = compiled.decode_shots_bit_packed(bit_packed_detection_event_data=packed.detectors)
    assert np.array_equal(in_sinter, wanted)

    (tmp_path / "shots.b8").write_bytes(packed.detectors.tobytes())
    command = ["decode", "--predecoder", folder, "--p", p, "--in", tmp_path / "shots.b8", "--in-format", "b8"]
    command += ["--out", tmp_path / "out.b8", "--out-format", "b8"]
    subprocess.run([sys.executable, "-m", "autoqec", *map(str, command)], check=True)
    by_command = np.frombuffer((tmp_path / "out.b8").read_bytes(), np.uint8).reshape(wanted.shape)
    assert np.array_equal(by_command, wanted)


def test_unpacked_shots_as_stim_gives_them(find: Maker) -> None:
    found = autoqec.load_predecoder(find("weights"))
    circuit = found.env.circuit(found.p)
    shots, observables = circuit.compile_detector_sampler(seed=3).sample(500, separate_observables=True)
    predicted = found.decode(shots)
    assert predicted.shape == observables.shape
    assert np.array_equal(np.packbits(predicted, axis=1, bitorder="little"),
                          found.decode(shots, bit_packed_predictions=True))  # fmt: skip
    for wrong in (shots[:, :-1], shots.astype(float), 2 * shots.astype(np.uint8), shots[0]):
        with pytest.raises(InputError, match="shots"):
            found.decode(wrong)


def test_an_error_rate_between_those_of_the_sweep(find: Maker) -> None:
    """Sinter's model has other probabilities, and another order of faults: priors follow, and hardly change anything close by."""
    found = autoqec.load_predecoder(find("weights"), p=0.01)
    env = found.env
    detectors = env.sample(0.01, SHOTS, seed=12, bit_packed=True).detectors
    near = [
        found.build_for(env.circuit(p).detector_error_model(decompose_errors=True))
        for p in (0.01, 0.0100001, 0.002)
    ]
    same, close, far = (decoder.decode(detectors) for decoder in near)
    assert np.array_equal(same, found.decode(detectors, bit_packed_shots=True, bit_packed_predictions=True))
    assert (close != same).mean() < 0.01
    assert (far != same).any()


@pytest.mark.parametrize("config", ["weights", "flips"])
def test_the_least_certain_shots_fail_most(find: Maker, config: str) -> None:
    found = autoqec.load_predecoder(find(config), p=0.01)
    shots = found.env.sample(found.p, SHOTS, seed=13)
    predicted, sure = found.decode_with_confidence(shots.detectors)
    assert np.array_equal(predicted, found.decode(shots.detectors))
    wrong = (predicted != shots.observables)[:, 0]
    order = np.argsort(sure)
    assert wrong[order[: SHOTS // 10]].mean() > 2 * wrong[order[SHOTS // 10 :]].mean()


def test_the_confidence_is_that_of_pymatching_with_the_observable_as_a_detector(find: Maker) -> None:
    """Independent path: without applied faults, the gap of flips is the difference of two matchings on fixed weights."""
    found = autoqec.load_predecoder(find("flips"), p=0.01)
    env = found.env
    dem = env.circuit(0.01).detector_error_model(decompose_errors=True)
    n = dem.num_detectors
    tied = stim.DetectorErrorModel(str(dem).replace("L0", f"D{n}"))
    matching = pymatching.Matching.from_detector_error_model(tied)
    shots = env.sample(0.01, 300, seed=14).detectors
    decoder = found.build(env.problem(0.01))
    kind, faults = decoder.answers(np.packbits(shots, axis=1, bitorder="little"))
    idle = ~np.unpackbits(faults, axis=1).any(axis=1)
    assert kind == "faults"
    assert idle.sum() > 50
    _, log_odds = decoder.decode_with_confidence(np.packbits(shots[idle], axis=1, bitorder="little"))
    for shot, value in zip(shots[idle], log_odds, strict=True):
        weights = [matching.decode(np.append(shot, bit), return_weight=True)[1] for bit in (0, 1)]
        assert abs(weights[1] - weights[0]) == pytest.approx(value, abs=1e-3)


@pytest.mark.parametrize("config", ["weights", "flips"])
def test_several_observables_and_ordered_statistics_have_a_confidence(find: Maker, config: str) -> None:
    found = autoqec.load_predecoder(find(config, QLDPC))
    shots = found.env.sample(found.p, 200, seed=15)
    predicted, log_odds = found.decode_with_confidence(shots.detectors)
    assert np.array_equal(predicted, found.decode(shots.detectors))
    assert log_odds.shape == (200,)
    assert (log_odds > 0).mean() > 0.9


def test_a_find_on_the_wrong_problem_is_refused_everywhere(find: Maker, tmp_path: Path) -> None:
    found = autoqec.load_predecoder(find("weights"))
    other = autoqec.load_env("surface_d5_depol")
    dem = other.circuit(0.005).detector_error_model(decompose_errors=True)
    with pytest.raises(InputError, match="another problem"):
        found.as_sinter().compile_decoder_for_dem(dem=dem)
    with pytest.raises(InputError, match="trained on surface_d3_depol"):
        autoqec.compare(other, [found], p=0.005, shots=10)
    with pytest.raises(InputError, match="belongs to surface_d3_depol"):
        autoqec.load_predecoder(find("weights"), env=other)
    dem.to_file(tmp_path / "m.dem")
    (tmp_path / "shots.01").write_text("")
    command = [
        "decode",
        "--predecoder",
        find("weights"),
        "--dem",
        tmp_path / "m.dem",
        "--in",
        tmp_path / "shots.01",
        "--out",
        "-",
    ]
    done = subprocess.run(
        [sys.executable, "-m", "autoqec", *map(str, command)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert "another problem" in done.stderr


def test_faults_that_differ_are_counted(find: Maker) -> None:
    found = autoqec.load_predecoder(find("weights"))
    dem = found.env.circuit(found.p).detector_error_model(decompose_errors=True)
    lines = str(dem).splitlines()
    first = next(i for i, line in enumerate(lines) if line.startswith("error"))
    lines[first] = "error(0.01) D0 D1 D2 D3 D4 ^ D5"
    with pytest.raises(InputError, match="faults"):
        found.build_for(stim.DetectorErrorModel("\n".join(lines)))


def test_a_checkpoint_that_was_replaced_is_not_used(find: Maker, tmp_path: Path) -> None:
    folder = tmp_path / "r"
    folder.mkdir()
    path = folder / "checkpoint.pt"
    path.write_bytes((find("weights") / "checkpoint.pt").read_bytes())
    found = autoqec.load_predecoder(path, name="mine")
    assert found.name == "mine"
    path.write_bytes((find("flips") / "checkpoint.pt").read_bytes())
    with pytest.raises(InputError, match="replaced"):
        found.decode(found.env.sample(found.p, 1).detectors)


def test_what_is_not_a_round_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"no checkpoint\.pt"):
        autoqec.load_predecoder(tmp_path)
    with pytest.raises(InputError, match="is not there"):
        autoqec.load_predecoder(tmp_path / "none.pt")
