"""Wheels of stim and pymatching for platforms the package index has none for (Linux on aarch64, for one).

Stim's source package builds by itself. PyMatching's fetches Stim and GoogleTest from a git host while it
configures; where only a package index can be reached, both are put in place beforehand: Stim from its own
source package, and an empty stand-in for GoogleTest, of which the wheel uses nothing.

A built wheel is kept outside the clone, so that the next clone does not build it again.
"""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from steps import SetupError, Steps

PACKAGES = ("stim", "pymatching")

_MINUTES = {"stim": "10 minutes or so, shared among the cores", "pymatching": "2 to 6 minutes"}

_STIM_CMAKE = r"""cmake_minimum_required(VERSION 3.18)
project(stim CXX)
file(GLOB_RECURSE SOURCES ${CMAKE_CURRENT_SOURCE_DIR}/src/stim/*.cc)
list(FILTER SOURCES EXCLUDE REGEX "[.](test|perf|pybind)[.]cc$|/src/stim/(py|cmd|diagram)/|/main[^/]*[.]cc$")
add_library(libstim STATIC ${SOURCES})
set_target_properties(libstim PROPERTIES PREFIX "" POSITION_INDEPENDENT_CODE ON CXX_STANDARD 20)
target_include_directories(libstim PUBLIC ${CMAKE_CURRENT_SOURCE_DIR}/src)
"""

_PARALLEL_SETUP = """# setuptools compiles one file at a time; Stim has more than a hundred.
import os
from concurrent.futures import ThreadPoolExecutor
import setuptools
from distutils.ccompiler import CCompiler
compile_all = CCompiler.compile
def compile_side_by_side(self, sources, *args, **options):
    with ThreadPoolExecutor(int(os.environ["AUTOQEC_BUILD_JOBS"])) as pool:
        done = pool.map(lambda source: compile_all(self, [source], *args, **options), sources)
        return [made for group in done for made in group]
CCompiler.compile = compile_side_by_side

"""

_GOOGLETEST_CMAKE = """foreach(name gtest gtest_main gmock gmock_main)
  add_library(${name} INTERFACE)
  add_library(GTest::${name} ALIAS ${name})
endforeach()
"""


def wheel_cache(environ: Mapping[str, str] = os.environ) -> Path:
    """Where built wheels are kept: under AutoQEC's cache folder, by interpreter ABI and machine."""
    if chosen := environ.get("AUTOQEC_CACHE"):
        base = Path(chosen)
    else:
        base = Path(environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "autoqec"
    abi = sysconfig.get_config_var("SOABI") or sys.implementation.cache_tag
    return base / "wheels" / f"{abi}-{platform.machine()}"


def cached_wheel(package: str, version: str, cache: Path) -> Path | None:
    return next(iter(sorted(cache.glob(f"{package}-{version}-*.whl"))), None)


def without_wheel(steps: Steps, pip: Sequence[str], versions: Mapping[str, str], cache: Path) -> list[str]:
    """Those of `PACKAGES` for which neither the package index nor the cache has a wheel for this platform."""
    lacking = []
    for package in PACKAGES:
        if cached_wheel(package, versions[package], cache):
            continue
        with tempfile.TemporaryDirectory(prefix="autoqec-wheel-") as folder:
            command = [*pip, "download", "--no-deps", "--only-binary", ":all:", "-d", folder]
            command += [f"{package}=={versions[package]}"]
            if not steps.attempt(f"looking for a wheel of {package}", command, failure="none found"):
                lacking.append(package)
    return lacking


def build(
    steps: Steps, pip: Sequence[str], package: str, versions: Mapping[str, str], cache: Path, *, forced: bool
) -> Path:
    """A wheel of `package`, from the cache or built into it. `forced`: not by PyMatching's own way."""
    version = versions[package]
    if wheel := cached_wheel(package, version, cache):
        steps.say(f"{package} {version}: wheel built earlier, {wheel}")
        return wheel
    require_compiler()
    _require_writable(cache)
    reason = "as asked" if forced else "the package index has no wheel for this platform"
    steps.say(f"{package} {version} is built from source ({reason}); this takes {_MINUTES[package]}, once")
    with tempfile.TemporaryDirectory(prefix="autoqec-build-") as folder:
        work = Path(folder)
        if " " in str(work):
            raise SetupError(
                f"the temporary folder has a space in its name ({work})",
                hint="set TMPDIR to a folder without one",
            )
        out = work / "out"
        make = [*pip, "wheel", "--no-deps", "--no-cache-dir", "--no-binary", package, "-w", str(out)]
        command = [*make, f"{package}=={version}"]
        sources = fetch_source(steps, pip, package, version, work)
        label = f"building {package} {version}"
        hint = "read the compiler's message above; a C++20 compiler and 2 GB of memory are needed"
        if package == "stim":
            setup = sources / "setup.py"
            setup.write_text(_PARALLEL_SETUP + setup.read_text())
            if not steps.attempt(label, [*make, str(sources)], env={"AUTOQEC_BUILD_JOBS": str(build_jobs())}):
                steps.run(f"{label} in the plain way", command, hint=hint)
        else:
            plain = not forced and git_hosts_answer(sources)
            if not (plain and steps.attempt(label, command)):
                stim = fetch_source(steps, pip, "stim", versions["stim"], work)
                steps.run(f"{label} without a git host", command, hint=hint, env=offline_env(stim, work))
        return _keep(next(out.glob("*.whl")), cache)


def fetch_source(steps: Steps, pip: Sequence[str], package: str, version: str, work: Path) -> Path:
    """Download and unpack a source package; its folder."""
    folder = work / f"{package}-source"
    command = [*pip, "download", "--no-deps", "--no-binary", package, "-d", str(folder)]
    command += [f"{package}=={version}"]
    steps.run(
        f"fetching the source of {package} {version}",
        command,
        hint="check that the package index can be reached (pip's own settings say which one), and run again",
    )
    shutil.unpack_archive(next(folder.glob("*.tar.gz")), folder)
    return next(path for path in folder.iterdir() if path.is_dir())


def git_hosts_answer(sources: Path, *, timeout_s: float = 20.0) -> bool:
    """Whether the repositories a CMake build fetches can be reached. The build itself might hang on it."""
    text = (sources / "CMakeLists.txt").read_text()
    for url in re.findall(r"GIT_REPOSITORY\s+(\S+)", text):
        try:
            subprocess.run(
                ["git", "ls-remote", url, "HEAD"],
                check=True,
                timeout=timeout_s,
                env={**os.environ, "GIT_TERMINAL_PROMPT": "0"},
                stdin=subprocess.DEVNULL,
                capture_output=True,
            )
        except (OSError, subprocess.SubprocessError):
            return False
    return True


def offline_env(stim: Path, work: Path) -> dict[str, str]:
    """The settings that make PyMatching's build take `stim` and an empty GoogleTest from disk."""
    googletest = work / "googletest"
    googletest.mkdir()
    (googletest / "CMakeLists.txt").write_text(_GOOGLETEST_CMAKE)
    (stim / "CMakeLists.txt").write_text(_STIM_CMAKE)
    folders = f"-DFETCHCONTENT_SOURCE_DIR_STIM={stim} -DFETCHCONTENT_SOURCE_DIR_GOOGLETEST={googletest}"
    return {"CMAKE_ARGS": f"{os.environ.get('CMAKE_ARGS', '')} {folders}".strip()}


def build_jobs() -> int:
    """One compiler per core, as far as memory goes: Stim's larger files take about a gigabyte each."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return max(1, min(os.cpu_count() or 1, memory >> 30))


def require_compiler(environ: Mapping[str, str] = os.environ) -> None:
    names = [environ["CXX"].split()[0]] if environ.get("CXX") else ["c++", "g++", "clang++"]
    if not any(shutil.which(name) for name in names):
        raise SetupError(
            f"a package must be built from source, and no C++ compiler was found ({', '.join(names)})",
            hint="install one (Debian, Ubuntu: package g++; Fedora: gcc-c++; macOS: xcode-select --install)",
        )


def _require_writable(cache: Path) -> None:
    """Asked before the build, for its minutes would be lost."""
    try:
        cache.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=cache).close()
    except OSError as error:
        raise SetupError(
            f"the folder for built wheels cannot be written: {error}",
            hint="set AUTOQEC_CACHE to a folder that can",
        ) from error


def _keep(wheel: Path, cache: Path) -> Path:
    """Copy into the cache under a temporary name, then rename: another clone sees a whole wheel or none."""
    with tempfile.NamedTemporaryFile(prefix=".", suffix=".tmp", dir=cache, delete=False) as file:
        partial = Path(file.name)
    try:
        shutil.copyfile(wheel, partial)
        partial.chmod(0o644)
        partial.replace(cache / wheel.name)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise
    return cache / wheel.name
