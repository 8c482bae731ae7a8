"""The fallback for platforms without wheels: when it is chosen and what it says. pip is a stand-in."""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

TOOLS = Path(__file__).parents[2] / "tools"
VERSIONS = {"torch": "2.13.0", "stim": "1.16.0", "pymatching": "2.4.0"}

_PIP = """
import io, json, os, pathlib, sys, tarfile
calls, lacking, broken = pathlib.Path(sys.argv[1]), sys.argv[2].split(","), sys.argv[3].split(",")
arguments = sys.argv[4:]
def record(*words):
    with calls.open("a") as file:
        file.write(json.dumps(words) + "\\n")
record(*arguments)
verb = arguments[0]
package = "pymatching" if "pymatching" in arguments[-1] else "stim"
if "--only-binary" in arguments:
    sys.exit(package in lacking)
if verb == "download":
    folder = pathlib.Path(arguments[arguments.index("-d") + 1])
    folder.mkdir(parents=True)
    with tarfile.open(folder / (package + "-1.tar.gz"), "w:gz") as tar:
        for name, text in {"CMakeLists.txt": b"GIT_REPOSITORY /nowhere/at/all.git", "setup.py": b"own_setup()"}.items():
            info = tarfile.TarInfo(package + "-1/" + name)
            info.size = len(text)
            tar.addfile(info, io.BytesIO(text))
if verb == "wheel":
    record("CMAKE_ARGS", os.environ.get("CMAKE_ARGS", ""))
    from_folder = pathlib.Path(arguments[-1])
    if from_folder.is_dir():
        record("setup.py", (from_folder / "setup.py").read_text())
    if package in broken or (from_folder.is_dir() and "folders" in broken):
        sys.exit("cannot compile " + package)
    out = pathlib.Path(arguments[arguments.index("-w") + 1])
    out.mkdir(parents=True)
    version = {"stim": "1.16.0", "pymatching": "2.4.0"}[package]
    (out / f"{package}-{version}-cp311-linux.whl").write_text("wheel of " + package)
"""


@pytest.fixture
def wheels(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    monkeypatch.syspath_prepend(str(TOOLS))
    yield importlib.import_module("source_wheels")
    for name in ("setup_env", "source_wheels", "steps"):
        sys.modules.pop(name, None)


class FakePip:
    """A pip that has no wheel of `lacking`, cannot build `broken` packages (or "folders"), and records its calls."""

    def __init__(self, folder: Path, *, lacking: Sequence[str] = (), broken: Sequence[str] = ()) -> None:
        self._calls = folder / "calls"
        self.argv = [sys.executable, "-c", _PIP, str(self._calls), ",".join(lacking), ",".join(broken)]

    def calls(self, verb: str) -> list[list[str]]:
        lines = self._calls.read_text().splitlines() if self._calls.exists() else []
        return [call for call in map(json.loads, lines) if call[0] == verb]


@pytest.fixture
def steps(wheels: ModuleType, tmp_path: Path) -> Any:
    return wheels.Steps(tmp_path / "log")


def test_only_packages_without_a_wheel_are_named(wheels: ModuleType, steps: Any, tmp_path: Path) -> None:
    pip = FakePip(tmp_path, lacking=["pymatching"])
    assert wheels.without_wheel(steps, pip.argv, VERSIONS, tmp_path / "cache") == ["pymatching"]


def test_a_cached_wheel_is_not_looked_for_again(wheels: ModuleType, steps: Any, tmp_path: Path) -> None:
    pip = FakePip(tmp_path, lacking=["stim", "pymatching"])
    cache = tmp_path / "cache"
    cache.mkdir()
    (cache / "stim-1.16.0-cp311-cp311-linux_aarch64.whl").touch()
    (cache / "pymatching-2.3.1-cp311-cp311-linux_aarch64.whl").touch()
    assert wheels.without_wheel(steps, pip.argv, VERSIONS, cache) == ["pymatching"]


def test_pymatching_is_built_offline_when_its_git_hosts_do_not_answer_then_kept(
    wheels: ModuleType, steps: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pip, cache = FakePip(tmp_path), tmp_path / "cache"
    wheel = wheels.build(steps, pip.argv, "pymatching", VERSIONS, cache, forced=False)
    assert wheel == cache / "pymatching-2.4.0-cp311-linux.whl"
    assert [path.name for path in cache.iterdir()] == [wheel.name]
    [[_, settings]] = pip.calls("CMAKE_ARGS")
    assert "FETCHCONTENT_SOURCE_DIR_STIM=" in settings
    assert "FETCHCONTENT_SOURCE_DIR_GOOGLETEST=" in settings
    assert "no wheel for this platform" in capsys.readouterr().out
    assert wheels.build(steps, pip.argv, "pymatching", VERSIONS, cache, forced=False) == wheel
    assert len(pip.calls("wheel")) == 1


def test_pymatching_s_own_build_is_tried_first_where_its_git_hosts_answer(
    wheels: ModuleType, steps: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wheels, "git_hosts_answer", lambda _sources: True)
    monkeypatch.delenv("CMAKE_ARGS", raising=False)
    pip = FakePip(tmp_path)
    wheels.build(steps, pip.argv, "pymatching", VERSIONS, tmp_path / "cache", forced=False)
    assert pip.calls("CMAKE_ARGS") == [["CMAKE_ARGS", ""]]


def test_a_failed_build_shows_its_output_and_keeps_nothing(
    wheels: ModuleType, steps: Any, tmp_path: Path
) -> None:
    pip, cache = FakePip(tmp_path, broken=["stim"]), tmp_path / "cache"
    with pytest.raises(wheels.SetupError) as caught:
        wheels.build(steps, pip.argv, "stim", VERSIONS, cache, forced=False)
    assert "cannot compile stim" in str(caught.value)
    assert "hint:" in str(caught.value)
    assert not any(cache.iterdir())


def test_stim_is_compiled_on_all_cores_and_else_in_the_plain_way(
    wheels: ModuleType, steps: Any, tmp_path: Path
) -> None:
    pip = FakePip(tmp_path)
    wheels.build(steps, pip.argv, "stim", VERSIONS, tmp_path / "cache", forced=False)
    [[_, setup]] = pip.calls("setup.py")
    assert "compile_side_by_side" in setup
    assert setup.endswith("own_setup()")

    second = tmp_path / "second"
    second.mkdir()
    pip = FakePip(second, broken=["folders"])
    wheels.build(steps, pip.argv, "stim", VERSIONS, second / "cache", forced=False)
    assert [call[-1].rpartition("/")[2] for call in pip.calls("wheel")] == ["stim-1", "stim==1.16.0"]


def test_no_compiler_is_said_before_anything_is_fetched(
    wheels: ModuleType, steps: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CXX", raising=False)
    pip = FakePip(tmp_path)
    with pytest.raises(wheels.SetupError, match=r"no C\+\+ compiler") as caught:
        wheels.build(steps, pip.argv, "stim", VERSIONS, tmp_path / "cache", forced=False)
    assert "g++" in caught.value.hint
    assert pip.calls("wheel") == []


def test_a_cache_that_cannot_be_written_is_said_before_the_build(
    wheels: ModuleType, steps: Any, tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    pip = FakePip(tmp_path)
    with pytest.raises(wheels.SetupError, match="cannot be written") as caught:
        wheels.build(steps, pip.argv, "stim", VERSIONS, tmp_path / "file" / "cache", forced=False)
    assert "AUTOQEC_CACHE" in caught.value.hint
    assert pip.calls("wheel") == []


@pytest.mark.parametrize(
    ("environ", "base"),
    [
        ({"AUTOQEC_CACHE": "/a", "XDG_CACHE_HOME": "/b"}, "/a"),
        ({"XDG_CACHE_HOME": "/b"}, "/b/autoqec"),
        ({}, str(Path.home() / ".cache/autoqec")),
    ],
)
def test_built_wheels_are_kept_outside_the_clone(
    wheels: ModuleType, environ: dict[str, str], base: str
) -> None:
    folder = wheels.wheel_cache(environ)
    assert str(folder.parent.parent) == base
    assert f"{sys.version_info[0]}{sys.version_info[1]}" in folder.name


def _no_build(*_args: Any, **_kwargs: Any) -> None:
    pytest.fail("built a wheel")


class TestInstall:
    """`setup_env.install` with a stand-in for `.venv/bin/python`."""

    def _root(self, tmp_path: Path, *, refused: str) -> Path:
        """A clone whose pip fails on commands with the word `refused` until a wheel was built."""
        root = tmp_path / "clone"
        (root / ".venv/bin").mkdir(parents=True)
        (root / "constraints.txt").write_text("".join(f"{k}=={v}\n" for k, v in VERSIONS.items()))
        python = root / ".venv/bin/python"
        python.write_text(
            f"""#!/bin/sh
            echo "$@" >> {tmp_path}/calls
            case "$*" in *" {refused} "*) [ -e {tmp_path}/cache/wheels ] || exit 1;; esac
            """
        )
        python.chmod(0o755)
        return root

    def test_wheels_everywhere_means_no_build(
        self, wheels: ModuleType, steps: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        setup_env = importlib.import_module("setup_env")
        monkeypatch.setattr(wheels, "build", _no_build)
        root = self._root(tmp_path, refused="nothing")
        assert setup_env.install(steps, root, from_source=False) == []
        installs = [line for line in (tmp_path / "calls").read_text().splitlines() if " install " in line]
        assert "torch==2.13.0" in installs[0]
        assert "[dev]" in installs[1]
        assert all("constraints.txt" in line for line in installs)

    def test_a_failure_with_all_wheels_present_is_no_reason_to_build(
        self, wheels: ModuleType, steps: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        setup_env = importlib.import_module("setup_env")
        monkeypatch.setattr(wheels, "build", _no_build)
        monkeypatch.setenv("AUTOQEC_CACHE", str(tmp_path / "cache"))
        root = self._root(tmp_path, refused="-e")
        with pytest.raises(wheels.SetupError, match="installing AutoQEC and its libraries failed"):
            setup_env.install(steps, root, from_source=False)

    def test_a_missing_wheel_is_built_and_the_install_repeated(
        self, wheels: ModuleType, steps: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        setup_env = importlib.import_module("setup_env")
        cache = tmp_path / "cache"
        monkeypatch.setenv("AUTOQEC_CACHE", str(cache))
        monkeypatch.setattr(wheels, "without_wheel", lambda *_args: ["pymatching"])
        built = []

        def build(_steps: Any, _pip: Any, name: str, *_rest: Any, forced: bool) -> None:
            built.append((name, forced))
            wheels.wheel_cache().mkdir(parents=True)

        monkeypatch.setattr(wheels, "build", build)
        root = self._root(tmp_path, refused="-e")
        assert setup_env.install(steps, root, from_source=False) == ["pymatching"]
        assert built == [("pymatching", False)]
        repeated = [line for line in (tmp_path / "calls").read_text().splitlines() if "[dev]" in line]
        assert len(repeated) == 2
        assert "--find-links" in repeated[1]
