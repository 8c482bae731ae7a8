"""The set-up script's decisions, on folders made by hand: nothing is installed and no network is used."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

REPOSITORY = Path(__file__).parents[2]
TOOLS = REPOSITORY / "tools"


@pytest.fixture
def setup_env(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    monkeypatch.syspath_prepend(str(TOOLS))
    yield importlib.import_module("setup_env")
    for name in ("setup_env", "source_wheels", "steps"):
        sys.modules.pop(name, None)


@pytest.fixture
def clone(tmp_path: Path, setup_env: ModuleType) -> Path:
    """A folder with the set-up's inputs and no .venv."""
    root = tmp_path / "clone"
    for name in setup_env.INPUTS:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes((REPOSITORY / name).read_bytes())
    return root


def _environment(setup_env: ModuleType, root: Path, **changes: object) -> None:
    """A .venv that the set-up finished, but for `changes` to its marker."""
    (root / ".venv/bin").mkdir(parents=True, exist_ok=True)
    (root / ".venv/bin/python").touch()
    fields: dict[str, object] = {
        "state": "ready",
        "key": setup_env.stamp_key(root, from_source=False),
        "root": str(root),
        "python": f"{sys.version_info[0]}.{sys.version_info[1]}",
        "owned": True,
    }
    setup_env.write_marker(root / ".venv", **{**fields, **changes})


class TestPlan:
    def test_a_fresh_clone_is_created(self, setup_env: ModuleType, clone: Path) -> None:
        assert setup_env.plan(clone, from_source=False) == "create"

    def test_an_empty_folder_left_by_a_kill_is_created(self, setup_env: ModuleType, clone: Path) -> None:
        (clone / ".venv").mkdir()
        assert setup_env.plan(clone, from_source=False) == "create"

    def test_a_finished_one_is_ready(self, setup_env: ModuleType, clone: Path) -> None:
        _environment(setup_env, clone)
        assert setup_env.plan(clone, from_source=False) == "ready"

    @pytest.mark.parametrize("name", ["pyproject.toml", "constraints.txt", "tools/setup_env.py"])
    def test_a_changed_input_updates(self, setup_env: ModuleType, clone: Path, name: str) -> None:
        _environment(setup_env, clone)
        with (clone / name).open("a") as file:
            file.write("# changed\n")
        assert setup_env.plan(clone, from_source=False) == "update"

    def test_an_interrupted_one_is_rebuilt(self, setup_env: ModuleType, clone: Path) -> None:
        _environment(setup_env, clone, state="installing")
        assert setup_env.plan(clone, from_source=False) == "rebuild"

    def test_a_moved_one_is_rebuilt(self, setup_env: ModuleType, clone: Path) -> None:
        _environment(setup_env, clone)
        moved = clone.rename(clone.with_name("moved"))
        assert setup_env.plan(moved, from_source=False) == "rebuild"

    def test_one_of_another_python_is_rebuilt(self, setup_env: ModuleType, clone: Path) -> None:
        _environment(setup_env, clone, python="3.10")
        assert setup_env.plan(clone, from_source=False) == "rebuild"

    def test_one_made_by_hand_is_updated_and_never_removed(self, setup_env: ModuleType, clone: Path) -> None:
        _environment(setup_env, clone)
        (clone / ".venv" / setup_env.MARKER).unlink()
        assert setup_env.plan(clone, from_source=False) == "update"
        _environment(setup_env, clone, owned=False, state="installing", python="3.10")
        assert setup_env.plan(clone, from_source=False) == "update"
        with pytest.raises(Exception, match="not made by this set-up"):
            setup_env._remove(clone / ".venv", owned=False)
        assert (clone / ".venv/bin/python").exists()

    def test_wheels_do_not_serve_a_request_for_source_builds_but_the_reverse_holds(
        self, setup_env: ModuleType, clone: Path
    ) -> None:
        _environment(setup_env, clone)
        assert setup_env.plan(clone, from_source=True) == "update"
        _environment(setup_env, clone, key=setup_env.stamp_key(clone, from_source=True))
        assert setup_env.plan(clone, from_source=True) == "ready"
        assert setup_env.plan(clone, from_source=False) == "ready"

    def test_the_python_version_is_part_of_the_key(self, setup_env: ModuleType, clone: Path) -> None:
        keys = {
            setup_env.stamp_key(clone, from_source=False, python=v) for v in ("3.11.7", "3.11.8", "3.12.0")
        }
        assert len(keys) == 3


class TestPython:
    def test_a_new_enough_one_is_kept(self, setup_env: ModuleType) -> None:
        assert setup_env.newer_python((3, 11, 0)) is None
        assert setup_env.newer_python((3, 14, 1)) is None

    def test_an_old_one_gives_way_to_a_newer_one_on_the_path(
        self, setup_env: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        newer = tmp_path / "python3.12"
        newer.write_text("#!/bin/sh\n")
        newer.chmod(0o755)
        monkeypatch.setenv("PATH", str(tmp_path))
        assert setup_env.newer_python((3, 9, 2)) == str(newer)

    def test_an_old_one_alone_is_refused_with_the_mend(
        self, setup_env: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("PATH", str(tmp_path))
        with pytest.raises(Exception, match=r"3\.9\.2") as caught:
            setup_env.newer_python((3, 9, 2))
        assert "Python 3.11 or newer is needed" in str(caught.value)
        assert "hint: install Python 3.11 or newer" in str(caught.value)

    def test_no_venv_module_is_refused_with_the_mend(
        self, setup_env: ModuleType, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "ensurepip" else name)
        with pytest.raises(Exception, match="has no ensurepip module") as caught:
            setup_env.require_venv_module()
        assert "python3-venv" in str(caught.value)


def test_the_versions_come_from_the_constraints(setup_env: ModuleType, clone: Path) -> None:
    (clone / "constraints.txt").write_text("# comment\nTorch==2.13.0\nPyMatching==2.4.0 ; x\nstimulus==9\n")
    assert setup_env.pinned(clone, ["torch", "pymatching"]) == {"torch": "2.13.0", "pymatching": "2.4.0"}
    with pytest.raises(Exception, match="does not pin stim"):
        setup_env.pinned(clone, ["stim"])


def test_the_constraints_pin_all_that_set_up_asks_for(setup_env: ModuleType) -> None:
    versions = setup_env.pinned(REPOSITORY, ["torch", "stim", "pymatching"])
    assert not any("+" in version for version in versions.values())


_HOLDER = """
import sys
sys.path.insert(0, sys.argv[1])
from pathlib import Path
import setup_env
with setup_env.locked(Path(sys.argv[2])):
    print("held", flush=True)
    sys.stdin.readline()
    Path(sys.argv[3]).touch()
"""


def test_two_set_ups_take_turns(clone: Path, tmp_path: Path) -> None:
    def start(done: Path) -> subprocess.Popen[str]:
        argv = [sys.executable, "-c", _HOLDER, str(TOOLS), str(clone), str(done)]
        return subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    with start(tmp_path / "first") as first:
        assert first.stdout
        assert first.stdin
        assert first.stdout.readline() == "held\n"
        with start(tmp_path / "second") as second:
            assert second.stdout
            assert second.stdin
            assert "waiting" in second.stdout.readline()
            first.stdin.write("\n")
            first.stdin.close()
            assert second.stdout.readline() == "held\n"
            assert (tmp_path / "first").exists()
            second.stdin.write("\n")
            second.stdin.close()
    assert (tmp_path / "second").exists()
    assert sorted(p.name for p in clone.iterdir()) == ["constraints.txt", "pyproject.toml", "tools"]
