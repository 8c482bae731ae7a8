"""Temporary folders are gone with their block, and after a kill with the next process that makes one."""

import multiprocessing
import os
import signal
import tempfile
from multiprocessing.synchronize import Event
from pathlib import Path

import pytest

from autoqec.io.scratch import scratch_folder

SPAWN = multiprocessing.get_context("spawn")


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    return tmp_path


def _hold(held: Event) -> None:
    with scratch_folder("held") as folder:
        (folder / "content").write_text("x")
        held.set()
        signal.pause()


def test_the_folder_is_there_for_the_block(temporary: Path) -> None:
    with scratch_folder("test") as folder:
        assert folder.parent == temporary
        (folder / "deeper").mkdir()
    assert not list(temporary.iterdir())
    with pytest.raises(ZeroDivisionError), scratch_folder("test"):
        1 / 0  # noqa: B018
    assert not list(temporary.iterdir())


def test_what_a_killed_process_left_is_swept_and_what_a_living_one_uses_is_not(temporary: Path) -> None:
    (temporary / "autoqec-mine").mkdir()
    held = SPAWN.Event()
    holder = SPAWN.Process(target=_hold, args=(held,))
    holder.start()
    assert held.wait(60)
    (left,) = temporary.glob("autoqec-held-*")
    with scratch_folder("test"):
        assert (left / "content").exists()
    assert holder.pid is not None
    os.kill(holder.pid, signal.SIGKILL)
    holder.join()
    with scratch_folder("test") as folder:
        assert sorted(temporary.glob("autoqec-*")) == sorted([folder, temporary / "autoqec-mine"])
