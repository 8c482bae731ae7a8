"""`autoqec watch` in a terminal, and what a package holds for readers."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest
from click.testing import CliRunner
from run_folders import add_round, make_run_folder
from tiny_runs import changed, play

from autoqec.commands import main
from autoqec.commands.watch import spark
from autoqec.io.locks import locked
from autoqec.layout import RunDir
from autoqec.runs.package import package_run
from autoqec.runs.package_check import check_package
from autoqec.runs.run import Run

pytestmark = pytest.mark.usefixtures("own_home")


def test_it_follows_a_run_and_ends_with_it(tmp_path: Path) -> None:
    folder = make_run_folder(tmp_path / "runs" / "going", rounds=2, planned=3)
    ours, theirs = pty.openpty()
    words = [sys.executable, "-m", "autoqec", "watch", str(folder), "--every", "0.2"]
    shown = b""
    with locked(RunDir(folder).lock):
        watching = subprocess.Popen(
            words, stdin=theirs, stdout=theirs, stderr=theirs, env={**os.environ, "COLUMNS": "80"}
        )
        os.close(theirs)
        while b"2 of 3 rounds" not in shown:
            shown += os.read(ours, 1 << 16)
        add_round(folder, 3)
        while b"3 of 3 rounds" not in shown:
            shown += os.read(ours, 1 << 16)
    while True:
        try:
            shown += os.read(ours, 1 << 16)
        except OSError:  # the other end was closed
            break
    os.close(ours)
    assert watching.wait() == 0
    assert b"complete: 3 of 3 rounds" in shown


def test_a_curve_in_a_line() -> None:
    assert spark([]) == ""
    assert spark([1.0, 1.0]) == "▁▁"
    assert spark([3.0, 2.0, 1.0])[0] == "█"
    assert len(spark([float(n) for n in range(1000)])) <= 40


def test_a_package_holds_model_cards(run: Run, tmp_path: Path) -> None:
    play(run, "a", changed(neural_bp={"iterations": 6}))
    target = tmp_path / "package.tar.gz"
    package_run(run, target, {"round_1.md": "# A card\n"})
    with tarfile.open(target) as archive:
        assert "cards/round_1.md" in archive.getnames()
    assert check_package(target, evaluate=False).is_good
    done = CliRunner().invoke(main, ["package-run", str(run.files.path), "--out", str(target)])
    assert done.exit_code == 0, done.output
    with tarfile.open(target) as archive:  # nothing is verified
        assert not any(name.startswith("cards/") for name in archive.getnames())
