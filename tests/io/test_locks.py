"""The lock excludes other processes and is gone with its holder."""

import os
import signal
from multiprocessing.synchronize import Event
from pathlib import Path

import pytest
from warm_processes import WARM

from autoqec.errors import AutoQECError, InputError
from autoqec.io.locks import is_held, locked


def _count_up(folder: Path, times: int) -> None:
    for _ in range(times):
        with locked(folder / "lock"):
            counter = folder / "counter"
            counter.write_text(str(int(counter.read_text()) + 1))


def _hold(folder: Path, held: Event) -> None:
    with locked(folder / "lock"):
        held.set()
        signal.pause()


def test_read_and_write_under_the_lock_lose_nothing(tmp_path: Path) -> None:
    (tmp_path / "counter").write_text("0")
    workers = [WARM.Process(target=_count_up, args=(tmp_path, 100)) for _ in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert (tmp_path / "counter").read_text() == "400"


def test_a_held_lock_names_its_holder_and_a_killed_holder_lets_go(tmp_path: Path) -> None:
    held = WARM.Event()
    holder = WARM.Process(target=_hold, args=(tmp_path, held))
    holder.start()
    assert held.wait(60)
    with (
        pytest.raises(AutoQECError, match=f"locked by process {holder.pid}"),
        locked(tmp_path / "lock", wait=False),
    ):
        pass
    assert holder.pid is not None
    os.kill(holder.pid, signal.SIGKILL)
    holder.join()
    with locked(tmp_path / "lock", wait=False):
        pass


def test_an_error_inside_the_block_lets_go(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), locked(tmp_path / "new" / "lock"):
        1 / 0  # noqa: B018
    with locked(tmp_path / "new" / "lock", wait=False):
        pass


@pytest.mark.parametrize("there", ["something of mine\n", None])
def test_a_link_in_place_of_a_lock_is_refused_and_leads_nowhere(tmp_path: Path, there: str | None) -> None:
    """A folder that somebody sent may hold one: what it leads to is neither made nor emptied."""
    mine, lock = tmp_path / "mine", tmp_path / "sent.lock"
    if there is not None:
        mine.write_text(there)
    lock.symlink_to(mine)
    with pytest.raises(InputError, match="not a lock file"), locked(lock):
        pass
    assert (mine.read_text() if mine.exists() else None) == there


def test_a_pipe_in_place_of_a_lock_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "sent.lock")
    with pytest.raises(InputError, match="not a lock file"), locked(tmp_path / "sent.lock"):
        pass


def test_a_pipe_in_the_place_of_a_lock_is_held_by_nobody(tmp_path) -> None:
    """A stranger's run folder may hold anything: asking must not wait for a writer."""
    os.mkfifo(tmp_path / "lock")
    assert not is_held(tmp_path / "lock")
