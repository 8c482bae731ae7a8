"""Each sandbox that this machine has is tried for real. The one without walls shows that the probe can fail."""

from __future__ import annotations

import importlib.util
import os
import secrets
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from autoqec.sandbox import kinds
from autoqec.sandbox._launch import REFUSED
from autoqec.sandbox.kinds import SANDBOXES, Sandbox, SandboxReport, Unconfined, probe

CONFINING = [sandbox for sandbox in SANDBOXES if sandbox.confines]


def _run(sandbox: Sandbox, code: str, *, cwd: Path, **options: Any) -> subprocess.CompletedProcess[str]:
    argv = sandbox.wrap([sys.executable, "-I", "-c", code], **options)
    return subprocess.run(argv, cwd=cwd, capture_output=True, text=True, check=False)


@pytest.fixture(params=CONFINING, ids=lambda sandbox: sandbox.name)
def sandbox(request: pytest.FixtureRequest) -> Sandbox:
    chosen: Sandbox = request.param
    report = probe(chosen)
    if not report.available:
        pytest.skip(f"sandbox {chosen.name} is not available here: {report.reason}")
    return chosen


def test_the_probe_sees_all_three_acts_when_nothing_forbids_them() -> None:
    report = probe(Unconfined())
    assert report.let_through == ("writing outside", "reading a secret", "the network")


def test_a_sandbox_that_confines_nothing_is_found_out() -> None:
    class Boastful(Unconfined):
        name = "boastful"
        confines = True

    report = probe(Boastful())
    assert not report.available
    assert "writing outside" in report.reason


def test_a_sandbox_that_cannot_run_says_why() -> None:
    class Impossible(Unconfined):
        confines = True

        def wrap(self, argv: Sequence[str], **options: Any) -> list[str]:
            return super().wrap(argv, **{**options, "limits": {"RLIMIT_NOFILE": -5}})

    report = probe(Impossible())
    assert not report.available
    assert report.reason.startswith("rlimits: ")


def test_an_absent_bubblewrap_comes_with_a_hint(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    report = probe(kinds.Bubblewrap())
    assert not report.available
    assert "install" in report.reason or "Linux only" in report.reason


def test_readable_folders_can_be_read_and_not_written(sandbox: Sandbox, tmp_path: Path) -> None:
    data, out = tmp_path / "data", tmp_path / "out"
    data.mkdir()
    out.mkdir()
    (data / "priors").write_text("0.01")
    code = f"""
import os
text = open({str(data / "priors")!r}).read()
try:
    open({str(data / "priors")!r}, "w").write("0.5")
    text += " written"
except OSError:
    pass
open({str(out / "answer")!r}, "w").write(text)
"""
    done = _run(sandbox, code, cwd=out, readable=[data], writable=[out])
    assert done.returncode == 0, done.stderr
    assert (out / "answer").read_text() == "0.01"
    assert (data / "priors").read_text() == "0.01"


def test_a_writable_folder_inside_a_readable_one_is_writable(sandbox: Sandbox, tmp_path: Path) -> None:
    out = tmp_path / "round" / "out"
    out.mkdir(parents=True)
    code = f"open({str(out / 'ok')!r}, 'w').write('1')"
    done = _run(sandbox, code, cwd=out, readable=[tmp_path], writable=[out])
    assert done.returncode == 0, done.stderr
    assert (out / "ok").exists()


def test_the_home_folder_and_the_clone_are_out_of_sight(sandbox: Sandbox, tmp_path: Path) -> None:
    """Unless the interpreter itself is installed there, in which case that much of it is visible."""
    repository = Path(__file__).parents[2]
    code = f"open({str(repository / 'pyproject.toml')!r}).read()"
    done = _run(sandbox, code, cwd=tmp_path, writable=[tmp_path])
    assert done.returncode != 0
    assert "Error" in done.stderr


def test_exit_codes_and_output_pass_through(sandbox: Sandbox, tmp_path: Path) -> None:
    done = _run(sandbox, "import sys; print('priors'); sys.exit(7)", cwd=tmp_path, writable=[tmp_path])
    assert (done.returncode, done.stdout) == (7, "priors\n")


def test_no_socket_of_any_family_can_be_made_but_pairs_can(sandbox: Sandbox, tmp_path: Path) -> None:
    code = """
import socket
a, b = socket.socketpair()
for family in (socket.AF_INET, socket.AF_INET6, socket.AF_UNIX):
    try:
        socket.socket(family)
        print("made", family)
    except PermissionError:
        pass
"""
    done = _run(sandbox, code, cwd=tmp_path, writable=[tmp_path])
    assert done.returncode == 0, done.stderr
    assert done.stdout == ""


_MEMORY = """
import ctypes
libc = ctypes.CDLL(None)
found = libc.shmget({key}, 4096, {flags}), libc.msgget({key}, {flags}), libc.semget({key}, 1, {flags})
"""


def test_nothing_is_left_in_memory_for_a_later_process(sandbox: Sandbox, tmp_path: Path) -> None:
    """A model that could would know in the estimate what it said in the test."""
    key = secrets.randbelow(1 << 30) + 1
    leave, look = (_MEMORY.format(key=key, flags=flags) for flags in ("0o1600", "0"))
    try:
        for code in (leave, look):
            done = _run(sandbox, f"{code}print(*found)", cwd=tmp_path, writable=[tmp_path])
        assert done.stdout == "-1 -1 -1\n", done.stderr
    finally:
        clear = "libc.shmctl(found[0], 0, None); libc.msgctl(found[1], 0, None); libc.semctl(found[2], 0, 0)"
        subprocess.run([sys.executable, "-c", look + clear], capture_output=True, check=False)


@pytest.mark.parametrize("sandbox", SANDBOXES, ids=lambda sandbox: sandbox.name)
def test_resource_limits_hold_in_every_sandbox(sandbox: Sandbox, tmp_path: Path) -> None:
    if not (report := probe(sandbox)).available:
        pytest.skip(f"sandbox {sandbox.name} is not available here: {report.reason}")
    code = "open('big', 'wb').write(bytes(1 << 20))"
    done = _run(sandbox, code, cwd=tmp_path, writable=[tmp_path], limits={"RLIMIT_FSIZE": 1 << 16})
    assert done.returncode != 0
    assert (tmp_path / "big").stat().st_size <= 1 << 16


def test_a_wall_that_cannot_stand_keeps_the_program_from_running(tmp_path: Path) -> None:
    code = f"open({str(tmp_path / 'ran')!r}, 'w')"
    argv = kinds._launch(["rlimits"], [sys.executable, "-c", code], limits={"RLIMIT_NOFILE": -5})
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert done.returncode == REFUSED
    assert done.stderr.startswith("rlimits: ")
    assert not (tmp_path / "ran").exists()


def test_torch_computes_inside(sandbox: Sandbox, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    code = "import torch; print(int((torch.ones(64, 64) @ torch.ones(64, 64)).sum()))"
    argv = sandbox.wrap([sys.executable, "-I", "-c", code], writable=[tmp_path])
    environment = {"HOME": str(tmp_path), "TMPDIR": str(tmp_path), "LANG": "C.UTF-8"}
    done = subprocess.run(argv, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, f"{64**3}\n"), done.stderr


def test_a_hidden_package_cannot_be_imported_and_its_neighbours_can(sandbox: Sandbox, tmp_path: Path) -> None:
    package = Path(str(importlib.util.find_spec("numpy").origin)).parent
    code = """
try:
    import numpy
    numpy.zeros(1)
    print("numpy")
except (OSError, ImportError, AttributeError):
    print("refused")
import click
print("click")
"""
    done = _run(sandbox, code, cwd=tmp_path, writable=[tmp_path], hidden=[package])
    assert done.stdout == "refused\nclick\n", done.stderr
    assert _run(sandbox, code, cwd=tmp_path, writable=[tmp_path]).stdout == "numpy\nclick\n"


def test_a_program_alone_starts_threads_and_no_processes(sandbox: Sandbox, tmp_path: Path) -> None:
    code = """
import os, subprocess, sys, threading
thread = threading.Thread(target=lambda: print("thread", flush=True))
thread.start()
thread.join()
for act in (os.fork, lambda: subprocess.run([sys.executable, "-c", ""]), lambda: os.posix_spawn(sys.executable, ["x"], {})):
    try:
        act()
        print("process", flush=True)
    except OSError:
        pass
"""
    done = _run(sandbox, code, cwd=tmp_path, writable=[tmp_path], alone=True)
    assert done.stdout == "thread\n", done.stderr
    assert "process" in _run(sandbox, code, cwd=tmp_path, writable=[tmp_path]).stdout


def test_the_strongest_that_holds_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        kinds, "probe", lambda sandbox: SandboxReport(sandbox.name, sandbox is not SANDBOXES[0], "")
    )
    assert kinds.strongest() is SANDBOXES[1]
    monkeypatch.setattr(kinds, "probe", lambda sandbox: SandboxReport(sandbox.name, False, ""))
    assert not kinds.strongest().confines


def test_a_program_dies_with_its_launcher(sandbox: Sandbox, tmp_path: Path) -> None:
    """Killing what `wrap` started must not leave the program running."""
    code = "import time; print('up', flush=True); time.sleep(600)"
    argv = sandbox.wrap([sys.executable, "-I", "-c", code], writable=[tmp_path])
    with subprocess.Popen(argv, cwd=tmp_path, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        assert process.stdout.readline() == "up\n"
        os.kill(process.pid, 9)
        # The pipe closes only when every process that holds it is gone.
        assert process.stdout.read() == ""


def test_a_device_can_be_used_if_it_is_given_and_only_then(sandbox: Sandbox, tmp_path: Path) -> None:
    """One that no sandbox shows by itself."""
    node = Path("/dev/loop-control") if Path("/dev/loop-control").exists() else Path("/dev/kmsg")
    if not os.access(node, os.R_OK):
        pytest.skip(f"{node} cannot be used on this machine at all")
    code = f"import os; os.close(os.open({str(node)!r}, os.O_RDONLY))"
    assert _run(sandbox, code, cwd=tmp_path, writable=[tmp_path]).returncode != 0
    given = _run(sandbox, code, cwd=tmp_path, writable=[tmp_path], devices=[node])
    assert given.returncode == 0, given.stderr


def test_a_file_is_shown_by_the_name_it_is_given_and_its_folder_is_not(
    sandbox: Sandbox, tmp_path: Path
) -> None:
    home, out = tmp_path / "home", tmp_path / "out"
    home.mkdir()
    out.mkdir()
    (home / "matrix.npz").write_text("H")
    (home / "diary").write_text("dear")
    (home / "link.npz").symlink_to("matrix.npz")
    code = f"""
print(open({str(home / "link.npz")!r}).read())
try:
    print(open({str(home / "diary")!r}).read())
except OSError:
    print("no")
"""
    done = _run(sandbox, code, cwd=out, readable=[home / "link.npz"], writable=[out])
    assert done.stdout == "H\nno\n", done.stderr
