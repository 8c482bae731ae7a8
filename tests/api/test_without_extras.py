"""What needs no optional library works without one, and what does says which. PyMatching brings matplotlib along."""

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow  # a process each, which loads much of the package

EXTRAS = (
    "torch",
    "safetensors",
    "pandas",
    "onnx",
    "onnxruntime",
    "onnxscript",
    "mcp",
    "relay_bp",
)
BLOCK = """
import sys
from importlib.machinery import PathFinder
class Present(PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        return None if name.partition(".")[0] in MISSING else PathFinder.find_spec(name, path, target)
sys.meta_path[sys.meta_path.index(PathFinder)] = Present
"""


def run(code: str, folder: Path, missing: tuple[str, ...] = EXTRAS) -> subprocess.CompletedProcess:
    return subprocess.run(
        [sys.executable, "-c", f"MISSING = {missing!r}\n{BLOCK}{code}"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )


def test_decoders_are_compared(tmp_path: Path) -> None:
    code = "import autoqec; print(autoqec.compare('surface_d3_depol', p=0.01, shots=200, workers=1))"
    done = run(code, tmp_path)
    assert done.returncode == 0, done.stderr
    assert "belief_matching" in done.stdout


@pytest.mark.parametrize(
    "words", [["--help"], ["env", "list"], ["env", "show", "surface_d3_depol"], ["doctor"], ["runs"]]
)
def test_commands_that_need_none(words: list[str], tmp_path: Path) -> None:
    code = f"sys.argv = ['autoqec', *{words!r}]\nfrom cli.autoqec import main\nmain()"
    done = run(code, tmp_path)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("code", "extra"),
    [
        ("autoqec.compare('surface_d3_depol', p=0.01, shots=100, workers=1).to_pandas()", "autoqec[frames]"),
        ("autoqec.load_predecoder('round')", "autoqec[learn]"),
    ],
)
def test_the_extra_is_named(code: str, extra: str, tmp_path: Path) -> None:
    (tmp_path / "round").mkdir()
    (tmp_path / "round" / "checkpoint.pt").write_bytes(b"")
    done = run(f"import autoqec\n{code}", tmp_path)
    assert done.returncode == 1
    assert f"pip install '{extra}'" in done.stderr


@pytest.mark.parametrize(
    "words",
    [
        ["cost", "neural_bp_gap", "--env", "surface_d3_depol"],
        ["run-round", "surface_d3_depol", "neural_bp_gap", "r1"],
        ["run", "surface_d3_depol", "--proposer", "optuna"],
    ],
)
def test_a_command_names_it_too_and_leaves_nothing(words: list[str], tmp_path: Path) -> None:
    done = run(f"sys.argv = ['autoqec', *{words!r}]\nfrom cli.autoqec import main\nmain()", tmp_path)
    assert done.returncode != 0
    assert "pip install 'autoqec[learn]'" in done.stderr
    assert "Traceback" not in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_event_files_need_tensorboard(tmp_path: Path) -> None:
    words = ["run-round", "surface_d3_depol", "neural_bp_gap", "r1", "--tensorboard", "board"]
    code = f"sys.argv = ['autoqec', *{words!r}]\nfrom cli.autoqec import main\nmain()"
    done = run(code, tmp_path, missing=("tensorboard",))
    assert done.returncode == 2
    assert "pip install 'autoqec[tensorboard]'" in done.stderr
    assert "Traceback" not in done.stderr
    assert list(tmp_path.iterdir()) == []
