"""Nothing of a command outlives it: not its deadline, not its caller, not a session of its own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from deadlines import ever_longer

from autoqec.io.child_env import child_environment
from autoqec.io.locks import locked
from autoqec.io.processes import cpu_seconds, is_open, run, thread_seconds
from autoqec.io.watchdog import descendants, tree


def alive(marker: Path) -> list[int]:
    """Processes that have written their id to `marker` and still run."""
    found = []
    for line in marker.read_text().split() if marker.exists() else []:
        try:
            os.kill(int(line), 0)
        except ProcessLookupError:
            continue
        if "Z" not in Path(f"/proc/{line}/stat").read_text().rpartition(")")[2].split()[:1]:
            found.append(int(line))
    return found


def sleeper(marker: Path) -> str:
    """A command that starts a child in a session of its own, and an orphan; all of them sleep."""
    note = f'echo $$ >> "{marker}"; exec sleep 600'
    return f"setsid sh -c '{note}' & (setsid sh -c '{note}' &) ; sh -c '{note}'"


def test_output_code_and_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_API_KEY", "secret")
    ended = run(
        ["sh", "-c", 'pwd; echo "key=$SOME_API_KEY more=$MORE"; echo bad >&2; exit 7'],
        cwd=tmp_path,
        environment=child_environment(MORE="yes"),
        deadline_s=60,
    )
    assert ended.code == 7
    assert not ended.past_deadline
    assert ended.stdout.decode().splitlines() == [str(tmp_path.resolve()), "key= more=yes"]
    assert ended.stderr == b"bad\n"


def test_a_signal_is_a_negative_code(tmp_path: Path) -> None:
    assert (
        run(["sh", "-c", "kill -9 $$"], cwd=tmp_path, environment={}, deadline_s=60).code == -signal.SIGKILL
    )


def test_large_output_does_not_block(tmp_path: Path) -> None:
    code = "import sys; sys.stdout.write('x' * 3_000_000); sys.stderr.write('y' * 3_000_000)"
    ended = run([sys.executable, "-c", code], cwd=tmp_path, environment={}, deadline_s=60)
    assert (len(ended.stdout), len(ended.stderr)) == (3_000_000, 3_000_000)


def test_the_deadline_ends_every_descendant(tmp_path: Path) -> None:
    for deadline_s in ever_longer(1.5):
        marker = tmp_path / f"pids-{deadline_s:g}"
        ended = run(
            ["sh", "-c", sleeper(marker)],
            cwd=tmp_path,
            environment=child_environment(),
            deadline_s=deadline_s,
        )
        assert ended.past_deadline
        assert alive(marker) == []
        if marker.exists() and len(marker.read_text().split()) == 3:
            break


def test_what_a_command_leaves_running_ends_with_it(tmp_path: Path) -> None:
    marker = tmp_path / "pids"
    command = f"setsid sh -c 'echo $$ >> \"{marker}\"; exec sleep 600' & while [ ! -s '{marker}' ]; do sleep 0.05; done"
    assert run(["sh", "-c", command], cwd=tmp_path, environment=child_environment(), deadline_s=60).code == 0
    assert len(marker.read_text().split()) == 1
    assert alive(marker) == []


def test_a_killed_caller_takes_the_command_with_it_and_the_guard_says_when(tmp_path: Path) -> None:
    marker, guard = tmp_path / "pids", tmp_path / "guard.lock"
    code = f"""
from pathlib import Path
from autoqec.io.child_env import child_environment
from autoqec.io.processes import run
run(["sh", "-c", {sleeper(marker)!r}], cwd=Path("."), environment=child_environment(), deadline_s=600, guard=Path({str(guard)!r}))
"""
    caller = subprocess.Popen([sys.executable, "-c", code], cwd=tmp_path)
    while len(alive(marker)) < 3:
        assert caller.poll() is None
        time.sleep(0.02)
    caller.kill()
    caller.wait()
    with locked(guard):  # waits for the watchdog
        assert alive(marker) == []


def test_descendants_are_found_below_below(tmp_path: Path) -> None:
    process = subprocess.Popen(["sh", "-c", "sh -c 'sleep 600; true'; true"])
    try:
        while len(descendants(process.pid)) < 2:
            time.sleep(0.01)
        assert process.pid in descendants(os.getpid())
    finally:
        for pid in [process.pid, *descendants(process.pid)]:
            os.kill(pid, signal.SIGKILL)
        process.wait()


def test_the_time_of_a_tree_counts_what_its_children_burn() -> None:
    burn = "x = 0\nwhile True: x += 1"
    process = subprocess.Popen(["sh", "-c", f"{sys.executable} -S -c '{burn}'; true"])
    try:
        while cpu_seconds(process.pid) < 0.05:
            time.sleep(0.01)
        assert len(tree(process.pid)) == 2
        assert sum(ran for ran, _ in thread_seconds(process.pid) or ()) > 0
    finally:
        for pid in tree(process.pid):
            os.kill(pid, signal.SIGKILL)
        process.wait()
    assert thread_seconds(process.pid) is None
    assert cpu_seconds(process.pid) == 0.0


def test_an_open_file_is_seen(tmp_path: Path) -> None:
    path = tmp_path.resolve() / "file"
    with path.open("w"):
        assert is_open(path)
    assert not is_open(path)
