"""`autoqec decode` on shots that the real `stim` command wrote, in each of its formats."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import stim
import warm_processes

from autoqec import PerShotMatching

STIM = [sys.executable, "-c", "import stim, sys; sys.exit(stim.main(command_line_args=sys.argv[1:]))"]
FORMATS = ["01", "b8", "r8", "hits", "dets", "ptb64"]
SHOTS = 640  # a multiple of 64, as ptb64 asks


def autoqec(*arguments: str, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    return warm_processes.autoqec("decode", *arguments, stdin=stdin)


@pytest.fixture(scope="module")
def files(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("decode")
    circuit = stim.Circuit.generated(
        "surface_code:rotated_memory_z", distance=3, rounds=3, after_clifford_depolarization=0.02
    )
    circuit.to_file(folder / "c.stim")
    circuit.detector_error_model(decompose_errors=True).to_file(folder / "m.dem")
    for form in FORMATS:
        command = [
            "detect",
            "--shots",
            str(SHOTS),
            "--seed",
            "7",
            "--in",
            str(folder / "c.stim"),
            "--out_format",
            form,
        ]
        subprocess.run([*STIM, *command, "--out", str(folder / f"shots.{form}")], check=True)
    subprocess.run(
        [
            *STIM,
            "detect",
            "--shots",
            str(SHOTS),
            "--seed",
            "7",
            "--in",
            str(folder / "c.stim"),
            "--append_observables",
        ]
        + ["--out_format", "b8", "--out", str(folder / "with_obs.b8")],
        check=True,
    )
    return folder


@pytest.fixture(scope="module")
def reference(files: Path) -> str:
    done = autoqec(
        "--dem",
        str(files / "m.dem"),
        "--in",
        str(files / "shots.01"),
        "--decoder",
        "pymatching",
        "--out",
        "-",
    )
    assert done.returncode == 0, done.stderr
    text = done.stdout.decode()
    assert len(text.splitlines()) == SHOTS
    assert "1" in text
    return text


@pytest.mark.parametrize("form", FORMATS)
def test_every_format_in(files: Path, reference: str, form: str) -> None:
    done = autoqec(
        "--dem", str(files / "m.dem"), "--in", str(files / f"shots.{form}"), "--in-format", form,
        "--decoder", "pymatching", "--out", "-",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.decode() == reference


@pytest.mark.parametrize("form", FORMATS)
def test_every_format_out(files: Path, reference: str, tmp_path: Path, form: str) -> None:
    out = tmp_path / "obs"
    done = autoqec(
        "--dem", str(files / "m.dem"), "--in", str(files / "shots.01"), "--decoder", "pymatching",
        "--out", str(out), "--out-format", form,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    read = stim.read_shot_data_file(path=str(out), format=form, num_observables=1)
    assert "".join("1\n" if bit else "0\n" for bit in read[:, 0]) == reference


def test_piped_from_stim(files: Path) -> None:
    piped = subprocess.run(
        [
            *STIM,
            "detect",
            "--shots",
            "200",
            "--in",
            str(files / "c.stim"),
            "--append_observables",
            "--out_format",
            "b8",
        ],
        check=True,
        capture_output=True,
    ).stdout
    done = autoqec(
        "--dem", str(files / "m.dem"), "--in", "-", "--in-format", "b8", "--decoder", "belief_matching",
        "--out", "-", "--in-includes-observables", stdin=piped,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) == 200
    assert b"failures in 200 shots" in done.stderr


def test_bad_input_is_one_error_and_no_file(files: Path, tmp_path: Path) -> None:
    good = {
        "--dem": str(files / "m.dem"),
        "--in": str(files / "shots.b8"),
        "--in-format": "b8",
        "--decoder": "pymatching",
    }
    cut = tmp_path / "cut.b8"
    cut.write_bytes((files / "shots.b8").read_bytes()[:-1])
    other = tmp_path / "other.dem"
    other.write_text("error(0.1) D30 L0\n")
    short = tmp_path / "short.01"
    short.write_text("0101\n")
    cases = {
        "truncated": {"--in": str(cut)},
        "wrong detector count": {"--in": str(short), "--in-format": "01"},
        "missing shots": {"--in": str(tmp_path / "none")},
        "missing model": {"--dem": str(tmp_path / "none.dem")},
        "unknown decoder": {"--decoder": "oracle"},
        "order of a decoder without": {"--decoder": "pymatching-3"},
    }
    out = tmp_path / "out.01"
    for case, changes in cases.items():
        arguments = [part for pair in {**good, **changes}.items() for part in pair]
        done = autoqec(*arguments, "--out", str(out))
        assert done.returncode == 2, case
        assert done.stderr.decode().startswith("error: "), case
        assert b"Traceback" not in done.stderr, case
        assert not out.exists(), case
    assert (
        b"pymatching_correlated"
        in autoqec(
            *[part for pair in {**good, "--decoder": "oracle"}.items() for part in pair], "--out", str(out)
        ).stderr
    )


def test_a_pipe_of_the_shell_is_read_like_standard_input(files: Path) -> None:
    words = f"decode --dem {files}/m.dem --in-format b8 --decoder pymatching --out -"
    program = f"{sys.executable} -m autoqec {words}"
    outs = [
        subprocess.run(["bash", "-c", line], capture_output=True, check=True, env=os.environ).stdout
        for line in (f"{program} --in <(cat {files}/shots.b8)", f"{program} --in - < {files}/shots.b8")
    ]
    assert outs[0] == outs[1]
    assert outs[0].count(b"\n") == SHOTS


def test_ctrl_c_ends_a_command_as_the_shell_expects(files: Path, tmp_path: Path) -> None:
    words = f"decode --dem {files}/m.dem --in - --in-format b8 --decoder pymatching --out {tmp_path}/out.01"
    process = subprocess.Popen(
        [sys.executable, "-m", "autoqec", *words.split()], stdin=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdin is not None
    process.stdin.write(bytes(1 << 20))  # more than a pipe holds: the command reads by now
    process.send_signal(signal.SIGINT)
    _, told = process.communicate(timeout=600)
    assert (process.returncode, told) == (130, b"Interrupted\n")
    assert not (tmp_path / "out.01").exists()


def test_a_circuit_in_the_place_of_its_error_model_is_named(files: Path, tmp_path: Path) -> None:
    done = autoqec(
        "--dem",
        str(files / "c.stim"),
        "--in",
        str(files / "shots.b8"),
        "--decoder",
        "pymatching",
        "--out",
        "-",
    )
    assert done.returncode == 2
    assert b"is a Stim circuit" in done.stderr
    (hint,) = (line for line in done.stderr.decode().splitlines() if "hint:" in line)
    command = hint.split("`")[1].split()
    paths = {"circuit.stim": str(files / "c.stim"), "model.dem": str(tmp_path / "model.dem")}
    subprocess.run([*STIM, *(paths.get(word, word) for word in command[1:])], check=True)
    assert stim.DetectorErrorModel.from_file(tmp_path / "model.dem").num_detectors == 24


@pytest.mark.parametrize("ending", ["npy", "txt"])
def test_confidence_beside_the_predictions(files: Path, reference: str, tmp_path: Path, ending: str) -> None:
    sure = tmp_path / f"sure.{ending}"
    done = autoqec(
        "--dem", str(files / "m.dem"), "--in", str(files / "shots.01"), "--decoder", "pymatching",
        "--out", "-", "--confidence", str(sure),
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.decode() == reference
    log_odds = np.load(sure) if ending == "npy" else np.loadtxt(sure)
    assert log_odds.shape == (SHOTS,)
    assert ending == "txt" or log_odds.dtype == np.float32
    matching = PerShotMatching(stim.DetectorErrorModel.from_file(files / "m.dem"))
    shots = stim.read_shot_data_file(
        path=str(files / "shots.01"), format="01", num_detectors=matching.n_detectors
    )
    predicted, wanted = matching.decode_with_confidence(shots)
    np.testing.assert_allclose(log_odds, wanted, atol=1e-3)
    clear = wanted > 1e-3  # of ties either answer will do
    told = np.array([line == "1" for line in reference.split()])
    assert np.array_equal(told[clear], predicted[clear, 0].astype(bool))


def test_confidence_that_cannot_be_had_writes_nothing(files: Path, tmp_path: Path) -> None:
    given = [
        "--dem",
        str(files / "m.dem"),
        "--in",
        str(files / "shots.01"),
        "--out",
        str(tmp_path / "out.01"),
    ]
    for decoder, name, message in (
        ("pymatching_correlated", "sure.npy", b"does not say how sure it is"),
        ("pymatching", "out.01", b"is the file of --out"),
        ("pymatching", "nowhere/sure.npy", b"does not exist"),
    ):
        done = autoqec(*given, "--decoder", decoder, "--confidence", str(tmp_path / name))
        assert done.returncode == 2
        assert message in done.stderr
        assert not list(tmp_path.iterdir())
