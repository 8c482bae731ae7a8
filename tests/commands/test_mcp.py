"""`autoqec mcp` and `autoqec machine-state` on the command line; the protocol is tested in tests/agent_tools."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path


def run(*arguments: str, before: str = "") -> subprocess.CompletedProcess[str]:
    code = f"import sys; {before}\nfrom autoqec.commands import main; main(sys.argv[1:])"
    return subprocess.run(
        [sys.executable, "-c", code, *arguments],
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        check=False,
    )


def test_the_workspace_must_be_a_folder(tmp_path: Path) -> None:
    done = run("mcp", "--root", str(tmp_path / "none"))
    assert done.returncode == 2
    assert "--root" in done.stderr
    assert done.stdout == ""


def test_without_the_library_it_says_what_to_install() -> None:
    done = run("mcp", before="sys.modules['mcp'] = None")
    assert done.returncode == 2
    assert 'pip install "autoqec[mcp]"' in done.stderr


def test_a_client_that_leaves_at_once_ends_it() -> None:
    done = run("mcp")
    assert (done.returncode, done.stdout) == (0, "")


def test_the_machine_state_as_json_and_as_a_table() -> None:
    state = json.loads(run("machine-state", "--json").stdout)
    assert state["cpu"]["cores"] >= 1
    assert state["memory_gb"]["total"] > 0
    assert state["budget"] == {"rounds_left": None, "seconds_left": None}
    table = run("machine-state").stdout
    assert all(name in table for name in state)


def test_the_machine_state_of_something_that_is_no_run(tmp_path: Path) -> None:
    done = run("machine-state", "--run", str(tmp_path), "--json")
    assert done.returncode == 2
    assert "run.json" in done.stderr
