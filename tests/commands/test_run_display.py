"""What a run shows of itself: a line for each stage in a pipe; on a terminal one bar, which does not outlive its stage."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from autoqec.commands.run_display import RunDisplay, last_step

SCRIPT = """
import sys
from autoqec.commands.run_display import RunDisplay

with RunDisplay() as display:
    display.event("round", {"round": 1, "planned": 2})
    display.event("compiling", {"round": 1, "round_dir": sys.argv[1]})
    display.event("training", {"round": 1, "round_dir": sys.argv[1]})
    if display._bar is not None:
        display._bar.refresh()
    display.event("verifying", {"round": 1})
    display.progress("compiling kernels", 0, 1)
    display.progress("sampling", 3, 7)
    if display._bar is not None:
        display._bar.refresh()
        assert len(display._bar.tasks) == 2, display._bar.tasks
    display.event("round", {"round": 2, "planned": 2})
    if display._bar is not None:
        assert [task.description for task in display._bar.tasks] == ["proposing"]
print("ended")
"""


def test_a_pipe_gets_one_line_for_each_stage(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(tmp_path)], capture_output=True, text=True, check=True
    )
    assert done.stdout == "ended\n"
    assert done.stderr.splitlines() == [
        "Round 1 (of 2 planned)",
        "  compiling kernels, once on this machine",
        "  training",
        "  verifying on fresh shots",
        "  compiling kernels, once on this machine",
        "Round 2 (of 2 planned)",
    ]


def test_a_terminal_gets_a_bar_with_the_step_of_the_training(tmp_path: Path) -> None:
    (tmp_path / "train.log").write_text("1\t0.5\n2\t0.25\n")
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        [sys.executable, "-c", SCRIPT, str(tmp_path)],
        stdout=subprocess.PIPE,
        stderr=theirs,
        env={**os.environ, "TERM": "xterm", "COLUMNS": "100"},
    ) as process:
        os.close(theirs)
        shown = b""
        while True:
            try:
                part = os.read(ours, 65536)
            except OSError:
                break
            if not part:
                break
            shown += part
        assert process.wait() == 0, shown
    os.close(ours)
    assert b"step 2, loss 0.25" in shown
    assert b"3/7" in shown
    assert b"Round 2 (of 2 planned)" in shown


def test_the_log_of_a_training_is_not_trusted(tmp_path: Path) -> None:
    assert last_step(tmp_path) is None
    (tmp_path / "train.log").write_bytes(b"7\t0.1\n8\t\x1b[2J\n")
    assert last_step(tmp_path) == "step 7, loss 0.1"
    (tmp_path / ".training").mkdir()
    (tmp_path / ".training" / "train.log").write_text("x" * 10_000 + "\n9\t1e-3\n")
    assert last_step(tmp_path) == "step 9, loss 1e-3"
    (tmp_path / ".training" / "train.log").unlink()
    os.mkfifo(tmp_path / ".training" / "train.log")
    assert last_step(tmp_path) == "step 7, loss 0.1"
    (tmp_path / ".training" / "train.log").unlink()
    (tmp_path / ".training" / "train.log").symlink_to("/dev/zero")
    assert last_step(tmp_path) == "step 7, loss 0.1"


def test_unknown_events_show_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    with RunDisplay() as display:
        display.event("something new", {})
    assert capsys.readouterr().err == ""
