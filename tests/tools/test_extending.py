"""docs/extending.md, played: its blocks go into a copy of the package, and its commands then know the new parts."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from documented_commands import ROOT, commands

PAGE = ROOT / "docs" / "extending.md"
_BLOCK = re.compile(r"^```(python|diff|yaml|markdown)\n# (\S+)\n(.*?)^```", re.MULTILINE | re.DOTALL)
pytestmark = pytest.mark.runs
NOT_VERIFIED = 3
"""Exit code of `verify`: one epoch on 4,000 shots gains nothing."""


def _replaced(text: str, diff: str) -> str:
    """The lines with `-` give way to those with `+`."""
    old, new = (
        "".join(line[1:] for line in diff.splitlines(keepends=True) if line[0] == sign) for sign in "-+"
    )
    assert text.count(old) == 1, diff
    return text.replace(old, new)


@pytest.fixture(scope="module")
def extended(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("extended")
    ignored = shutil.ignore_patterns(
        ".*", "runs", "build", "tests", "node_modules"
    )  # compiled kernels go with it
    shutil.copytree(ROOT, folder, ignore=ignored, dirs_exist_ok=True)
    env = folder / "autoqec" / "envs" / "builtin" / "surface_d3_depol.yaml"
    env.write_text(re.sub(r"(min_shots_\w+): .*", r"\1: 4000", env.read_text()))
    for kind, name, text in _BLOCK.findall(PAGE.read_text(encoding="utf-8")):
        path = folder / name
        path.write_text(_replaced(path.read_text(), text) if kind == "diff" else text)
    return folder


def test_every_registry_line_is_one_line_or_a_few() -> None:
    """What has to change outside a part's own file."""
    changed = [
        sum(line.startswith("+") for line in text.splitlines())
        for kind, _, text in _BLOCK.findall(PAGE.read_text(encoding="utf-8"))
        if kind == "diff"
    ]
    assert len(changed) == 8
    assert max(changed) <= 12


def test_the_new_parts_work(extended: Path, tmp_path: Path) -> None:
    environment = {
        **os.environ,
        "PYTHONPATH": str(extended),
        "AUTOQEC_HOME": str(tmp_path / "home"),
        "COLUMNS": "200",
    }
    printed = {}
    for command in commands(PAGE):
        done = subprocess.run(
            [sys.executable, "-m", "autoqec", *command.words],
            cwd=extended,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        is_good = done.returncode in ((0, NOT_VERIFIED) if command.verb == "verify" else (0,))
        assert is_good, (command.line, done.stdout, done.stderr)
        printed[command.verb] = done.stdout + done.stderr
    assert "uniform" in printed["baseline"]
    assert "loss: brier" in (extended / "runs" / "brier" / "config.yaml").read_text()
    assert "4 sum_product iterations" in printed["run"] or "4 iterations" in printed["run"]
    assert (
        "single faults are decoded wrongly"
        in (extended / "runs" / "brier" / "verification_report.md").read_text()
    )
    assert "faults" in printed["faults"]


def test_the_new_page_is_on_the_site(extended: Path) -> None:
    subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--quiet", "--strict"],
        cwd=extended,
        env={**os.environ, "PYTHONPATH": str(extended), "NO_MKDOCS_2_WARNING": "1"},
        stdin=subprocess.DEVNULL,
        check=True,
    )
    site = extended / "build" / "site"
    assert "A fault is a thing that can go wrong" in (site / "faults.html").read_text(encoding="utf-8")
    assert 'href="faults.html"' in (site / "index.html").read_text(encoding="utf-8")
