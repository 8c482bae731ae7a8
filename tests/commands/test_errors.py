"""How the command line reports an error: for people in two lines, for programs in one line of JSON."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest
import yaml
from warm_processes import autoqec_text

from autoqec.commands.options import PlotFile
from autoqec.errors import InputError

CONFIG = {"type": "neural_bp", "output_mode": "soft_priors", "neural_bp": {"iterations": 2}}


def _fail(folder: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    return autoqec_text("env", "show", "surface_d4", cwd=folder, env={**os.environ, **variables})


def test_people_get_place_problem_and_hint(tmp_path: Path) -> None:
    done = _fail(tmp_path)
    first, second = done.stderr.splitlines()
    assert done.returncode == 2
    assert first.startswith("error: ")
    assert second.startswith("  hint: ")


def test_programs_get_the_same_as_one_json_line(tmp_path: Path) -> None:
    plain = _fail(tmp_path).stderr
    done = _fail(tmp_path, AUTOQEC_ERROR_JSON="1")
    (line,) = done.stderr.splitlines()
    error = json.loads(line)
    assert done.returncode == error["exit_code"] == 2
    assert error["error"] == "InputError"
    assert error.keys() == {"error", "what", "where", "hint", "exit_code"}
    place = f"{error['where']}: " if error["where"] else ""
    assert plain == f"error: {place}{error['what']}\n  hint: {error['hint']}\n"


@pytest.mark.parametrize(
    ("arguments", "place"),
    [
        (("run-round", "surface_d3_depol", "config.yaml", "/proc/round"), "/proc/round"),
        (
            ("decode", "--dem", "m.dem", "--in", "s.01", "--decoder", "pymatching", "--out", "/proc/o"),
            "/proc/o",
        ),
    ],
)
def test_what_the_system_refuses_is_one_error(tmp_path: Path, arguments: tuple[str, ...], place: str) -> None:
    """/proc takes no files, not even from root."""
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(CONFIG))
    (tmp_path / "m.dem").write_text("error(0.1) D0 L0\n")
    (tmp_path / "s.01").write_text("1\n")
    done = autoqec_text(*arguments, cwd=tmp_path)
    first, second = done.stderr.splitlines()
    assert done.returncode == 2
    assert first.startswith(f"error: {place}: ")
    assert second.startswith("  hint: ")


def test_a_plot_without_a_known_ending_is_refused_before_the_work() -> None:
    for kind in ("ler.xyz", "ler"):
        with pytest.raises(InputError, match=r"ends in \.png"):
            PlotFile().convert(kind, None, None)
    assert PlotFile().convert("ler.PNG", None, None) == Path("ler.PNG")
