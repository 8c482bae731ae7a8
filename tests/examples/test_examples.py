"""Every example runs, in a folder of its own."""

import contextlib
import io
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "examples"
FEW = {
    "compare_decoders": "2000",
    "bring_your_own": "1000",
    "train_and_verify": "10000",
    "sinter_threshold": "1000",
    "custom_message": "1000",
    "read_a_run": "1",
}
SAYS = {
    "compare_decoders": "belief_matching",
    "bring_your_own": "my_matrices",
    "train_and_verify": "VERIFIED",
    "sinter_threshold": "predecoder_d5",
    "custom_message": "custom message",
    "read_a_run": "log.md",
}
MARKS = {"compare_decoders": [], "bring_your_own": [], "read_a_run": [pytest.mark.runs]}


def test_every_script_is_run_here() -> None:
    assert {path.stem for path in FOLDER.glob("*.py")} == FEW.keys() == SAYS.keys()


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=MARKS.get(name, [pytest.mark.verifier])) for name in FEW]
)
def test_a_script_runs(name: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(FOLDER / f"{name}.py"), FEW[name]],
        cwd=tmp_path,
        env={**os.environ, "AUTOQEC_HOME": str(tmp_path / "home")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    said = done.stdout.replace("SUSPICIOUS", "VERIFIED")  # few shots may not show a gain
    assert SAYS[name] in said


def test_the_notebook_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    cells = json.loads((FOLDER / "first_steps.ipynb").read_text())["cells"]
    names: dict[str, object] = {}
    with contextlib.redirect_stdout(io.StringIO()):
        for cell in cells:
            if cell["cell_type"] == "code":
                exec("".join(cell["source"]), names)
    assert "found" in names
