"""A round whose branch edits the package's modules decodes with that code, in the sandbox, or not at all."""

import json
import pickle
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from finds.conftest import SURFACE, write_round

import autoqec
from autoqec.decoders.backends import make_backend
from autoqec.errors import UnavailableError

pytestmark = pytest.mark.slow

SHOTS = 2_000
CONFIG = {"type": "neural_bp", "output_mode": "soft_priors", "neural_bp": {"iterations": 3}}
# What calls itself learned belief propagation is the plain backend.
EDIT = """

class _Plain(NeuralBpPredecoder):
    def edge_log_odds(self, syndrome, ctx):
        return self._edge_prior(self.edges, syndrome, ctx).T

PREDECODERS["neural_bp"] = _Plain
"""


def git(folder: Path, *words: str) -> str:
    settings = ["-c", "user.name=T", "-c", "user.email=t@localhost", "-c", "commit.gpgSign=false"]
    return subprocess.run(
        ["git", *settings, "-C", str(folder), *words], capture_output=True, text=True, check=True
    ).stdout.strip()


@pytest.fixture(scope="module")
def edited(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A round, and the repository of its commit."""
    root = tmp_path_factory.mktemp("edited")
    repo = root / "repository"
    package = Path(autoqec.__file__).parent
    shutil.copytree(package, repo / "autoqec", ignore=shutil.ignore_patterns("__pycache__"))
    with (repo / "autoqec/decoders/modules/predecoders.py").open("a") as file:
        file.write(EDIT)
    git(repo, "init", "--quiet")
    git(repo, "add", "--all")
    git(repo, "commit", "--quiet", "-m", "edit")
    folder = write_round(root / "round_1", autoqec.load_env(SURFACE), CONFIG, branch="exp/mine/01-edit")
    claims = {"status": "ok", "branch": "exp/mine/01-edit", "commit_sha": git(repo, "rev-parse", "HEAD")}
    (folder / "metrics.json").write_text(json.dumps(claims))
    return folder, repo


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AUTOQEC_HOME", str(tmp_path / "home"))


def autoqec_command(*words: object) -> subprocess.CompletedProcess:
    return subprocess.run(
        [sys.executable, "-m", "autoqec", *map(str, words)], capture_output=True, text=True, check=False
    )


def test_it_decodes_with_its_own_code_everywhere(edited: tuple[Path, Path], tmp_path: Path) -> None:
    folder, repo = edited
    find = autoqec.load_predecoder(folder, repo=repo, p=0.01)
    env, shots = find.env, find.env.sample(0.01, SHOTS, seed=3, bit_packed=True).detectors
    plain = make_backend(env.problem(0.01), "mwpm").decode(shots)
    found = find.decode(shots, bit_packed_shots=True, bit_packed_predictions=True)
    installed = autoqec.load_predecoder(write_round(tmp_path / "installed", env, CONFIG), p=0.01)
    by_installed = installed.decode(shots, bit_packed_shots=True, bit_packed_predictions=True)
    assert 4 * (found != plain).sum() < (found != by_installed).sum()  # ties fall as rounding has it

    dem = env.circuit(0.01).detector_error_model(decompose_errors=True)
    compiled = pickle.loads(pickle.dumps(find.as_sinter())).compile_decoder_for_dem(dem=dem)
    assert np.array_equal(compiled.decode_shots_bit_packed(bit_packed_detection_event_data=shots), found)
    (tmp_path / "shots.b8").write_bytes(shots.tobytes())
    words = ["--in", tmp_path / "shots.b8", "--in-format", "b8", "--out", tmp_path / "out.b8"]
    words += ["--out-format", "b8", "--p", "0.01", "--repo", repo]
    done = autoqec_command("decode", "--predecoder", folder, *words)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "out.b8").read_bytes() == found.tobytes()


def test_it_has_no_onnx_file(edited: tuple[Path, Path], tmp_path: Path) -> None:
    folder, repo = edited
    find = autoqec.load_predecoder(folder, repo=repo)
    with pytest.raises(UnavailableError, match="modules of its branch, for the sandbox only"):
        find.to_onnx(tmp_path / "m.onnx")
    done = autoqec_command("export", folder, "--repo", repo, "--onnx", tmp_path / "m.onnx")
    assert done.returncode == 2
    assert "modules of its branch, for the sandbox only" in done.stderr
    assert not (tmp_path / "m.onnx").exists()
    weights = tmp_path / "m.safetensors"  # which are data
    assert autoqec_command("export", folder, "--repo", repo, "--safetensors", weights).returncode == 0
    assert weights.read_bytes() == (folder / "checkpoint.safetensors").read_bytes()


def test_without_its_repository_it_is_refused(
    edited: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, _ = edited
    monkeypatch.chdir(tmp_path)
    out = tmp_path / "m.onnx"
    for words in (
        ["export", folder, "--onnx", out],
        ["decode", "--predecoder", folder, "--in", "-", "--out", out],
        ["baseline", SURFACE, "--with", folder, "--shots", "10"],
    ):
        done = autoqec_command(*words)
        assert done.returncode == 2, words
        assert "not in the repository" in done.stderr or "give its repository" in done.stderr
        assert "Traceback" not in done.stderr
    with pytest.raises(autoqec.AutoQECError, match="repository"):
        autoqec.sinter_decoders([folder])
    assert not out.exists()


def test_a_script_that_ends_with_it_ends_in_silence(edited: tuple[Path, Path]) -> None:
    code = (
        "import autoqec, sys\n"
        "find = autoqec.load_predecoder(sys.argv[1], repo=sys.argv[2])\n"
        "print(find.decode(find.env.sample(find.p, 10).detectors).shape)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *map(str, edited)], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "(10, 1)\n", "")


def test_its_checkpoint_alone_is_refused(edited: tuple[Path, Path], tmp_path: Path) -> None:
    """Weights of an edited module mean something else, or nothing, in the installed one."""
    alone = tmp_path / "checkpoint.pt"
    alone.write_bytes((edited[0] / "checkpoint.pt").read_bytes())
    with pytest.raises(autoqec.AutoQECError, match="trained by code of its branch, exp/mine/01-edit"):
        autoqec.load_predecoder(alone)
