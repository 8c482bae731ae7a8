"""How the command line reports an error: for people in two lines, for programs in one line of JSON."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path


def _fail(folder: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "autoqec", "env", "show", "surface_d4"],
        cwd=folder,
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        check=False,
    )


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
