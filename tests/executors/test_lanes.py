"""Lanes on this machine: every message is answered once, whatever becomes of the processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from deadlines import soon

from autoqec.errors import InputError, UnavailableError
from autoqec.executors.local import LocalExecutor, LocalLanes
from autoqec.executors.protocol import MOST_LOSSES, GivenUp, Program, run
from autoqec.executors.registry import check_executor

ECHO = Program("lane_workers:Echo")


@pytest.fixture
def lanes() -> Iterator[LocalLanes]:
    made = LocalExecutor().lanes(ECHO, 2)
    yield made
    made.stop()


def test_answers_come_with_the_place_of_their_message(lanes: LocalLanes) -> None:
    lanes.tell(b"told ")
    messages = (str(number).encode() for number in range(20))
    assert dict(run(lanes, messages)) == {number: b"told %d" % number for number in range(20)}


def test_no_more_messages_are_made_than_there_are_idle_lanes(lanes: LocalLanes) -> None:
    made = []

    def messages() -> Iterator[bytes]:
        for number in range(10):
            made.append(number)
            yield b"x"

    for answered, _ in enumerate(run(lanes, messages()), start=1):
        assert len(made) <= answered + 1  # two lanes: the one that has just answered, and the other
    assert len(made) == 10


def test_a_message_whose_lane_is_lost_is_answered_by_another(lanes: LocalLanes, tmp_path: Path) -> None:
    lanes.tell(b"told ")
    deadly = tmp_path / "once"
    deadly.touch()
    words = [b"a", f"die:{deadly}".encode(), b"b", b"c"]
    assert dict(run(lanes, words)) == {place: b"told " + word for place, word in enumerate(words)}
    assert not deadly.exists()


@pytest.mark.parametrize("count", [1, 2])
def test_a_message_that_ends_every_lane_is_given_up(count: int, tmp_path: Path) -> None:
    lanes, attempts = LocalLanes(ECHO, count), tmp_path / "attempts"
    lanes.send(f"always:{attempts}".encode())
    with pytest.raises(GivenUp, match="a worker process ended") as caught:
        lanes.receive()
    assert caught.value.number == 0
    assert len(attempts.read_text().splitlines()) == MOST_LOSSES
    lanes.tell(b"told ")
    assert dict(run(lanes, [b"a", b"b", b"c"])) == {
        0: b"told a",
        1: b"told b",
        2: b"told c",
    }  # all lanes were lost
    lanes.close()


def test_a_private_lane_has_folders_of_its_own(tmp_path: Path) -> None:
    program = Program(
        ECHO.target, {"WORD": "x"}, folders={"HERE": tmp_path, "GONE": tmp_path / "no"}, is_private=True
    )
    lanes = LocalLanes(program, 1)
    names = ("WORD", "HERE", "GONE", "TMPDIR", "AUTOQEC_CACHE")
    found = dict(run(lanes, (f"variable:{name}".encode() for name in names)))
    word, here, gone, temporary, cache = (found[place].decode() for place in range(5))
    assert (word, here) == ("x", str(tmp_path))
    assert Path(temporary).is_dir()
    assert Path(cache).parent == Path(gone).parent == Path(temporary)
    lanes.close()
    assert not Path(temporary).exists()


DRIVER = """
import sys
from autoqec.executors.local import LocalLanes
from autoqec.executors.protocol import Program
lanes = LocalLanes(Program("lane_workers:Echo"), 1)
lanes.send(f"stay:{sys.argv[1]}".encode())
lanes.receive()
"""


def test_a_lane_at_work_ends_with_the_process_that_asked(tmp_path: Path) -> None:
    note = tmp_path / "pid"
    path = os.pathsep.join(sys.path)
    driver = subprocess.Popen(
        [sys.executable, "-c", DRIVER, str(note)], env={**os.environ, "PYTHONPATH": path}
    )
    soon(lambda: note.exists() and note.read_text().endswith("\n"))
    lane = int(note.read_text())
    driver.send_signal(signal.SIGKILL)
    driver.wait()
    soon(lambda: not Path(f"/proc/{lane}").exists())


@pytest.mark.parametrize("text", ["", "ra", "ray:", "local:here", "Ray"])
def test_what_is_no_executor_is_refused(text: str) -> None:
    """Before anything is started."""
    with pytest.raises(InputError, match="executor"):
        check_executor(text)


def test_a_missing_ray_names_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)  # as Python has it where it cannot be imported
    with pytest.raises(UnavailableError, match=r"autoqec\[ray\]"):
        check_executor("ray:auto")
