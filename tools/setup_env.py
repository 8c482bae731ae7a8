#!/usr/bin/env python3
"""Makes `.venv` with everything AutoQEC needs. The Makefile calls it first; a second call does nothing.

Standard library only, in syntax that an older Python 3 can read, so that its user gets a message and not a
traceback. Torch goes in first and pinned: an unpinned one may bring gigabytes of GPU libraries.

`.venv/autoqec-setup.json` says what was installed from which inputs. It is written as "installing" before
anything else and as "ready" at the very end: an interrupted set-up is noticed and started again in a fresh folder.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import hashlib
import importlib.util
import json
import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from steps import Steps

OLDEST = (3, 11)
ROOT = Path(__file__).resolve().parent.parent
INPUTS = (
    "pyproject.toml",
    "constraints.txt",
    "tools/setup_env.py",
    "tools/source_wheels.py",
    "tools/steps.py",
)
MARKER = "autoqec-setup.json"
CHECKED_IMPORTS = (
    "click ldpc numba numpy pydantic pymatching rich scipy sinter stim torch yaml autoqec pytest"
)
INDEX_HINT = "check that the package index can be reached (pip's own settings say which one), and run again"


def newer_python(version: Sequence[int], *, oldest: Sequence[int] = OLDEST) -> str | None:
    """None when `version` will do; else the path of an installed interpreter that will.

    Raises:
        SetupError: neither this interpreter nor one on the path is new enough.
    """
    from steps import SetupError

    if tuple(version[:2]) >= tuple(oldest):
        return None
    for minor in (13, 12, 11):
        if found := shutil.which(f"python3.{minor}"):
            return found
    asked, have = ".".join(map(str, oldest)), ".".join(map(str, version[:3]))
    raise SetupError(
        f"Python {asked} or newer is needed; {sys.executable} is {have}",
        hint=f"install Python {asked} or newer; if it is not python3, name it: make setup PYTHON=python3.12",
    )


def require_venv_module() -> None:
    from steps import SetupError

    lacking = [name for name in ("venv", "ensurepip") if importlib.util.find_spec(name) is None]
    if lacking:
        raise SetupError(
            f"{sys.executable} has no {' and no '.join(lacking)} module, so it cannot make .venv",
            hint="install it (Debian and Ubuntu: the package python3-venv, or python3.12-venv and so on)",
        )


def stamp_key(root: Path, *, from_source: bool, python: str = platform.python_version()) -> str:
    """Identity of an environment: it changes with any input, the interpreter and the folder."""
    digest = hashlib.sha256()
    for name in INPUTS:
        content = (root / name).read_bytes()
        digest.update(f"{name} {len(content)}\n".encode() + content)
    origin = {"root": str(root), "python": python, "machine": platform.machine(), "from_source": from_source}
    digest.update(json.dumps(origin, sort_keys=True).encode())
    return digest.hexdigest()


def read_marker(venv: Path) -> dict[str, Any] | None:
    try:
        marker = json.loads((venv / MARKER).read_text())
    except (OSError, ValueError):
        return None
    return marker if isinstance(marker, dict) else None


def write_marker(venv: Path, **fields: object) -> None:
    partial = venv / f"{MARKER}.tmp"
    partial.write_text(json.dumps(fields, indent=2) + "\n")
    partial.replace(venv / MARKER)


def plan(root: Path, *, from_source: bool, minor: str = "{}.{}".format(*sys.version_info[:2])) -> str:
    """What there is to do: nothing ("ready"), "create", "update" in place, or "rebuild" from nothing.

    An environment built from source also serves where that was not asked for. One that this script did not
    make (it has no marker) is brought up to date and never removed.
    """
    venv = root / ".venv"
    if not venv.exists() or not any(venv.iterdir()):
        return "create"
    marker = read_marker(venv)
    if marker is None or not marker.get("owned"):
        stale = not (venv / "bin" / "python").exists()
        marker = marker or {}
    else:
        unfinished = marker.get("state") != "ready"
        stale = unfinished or marker.get("root") != str(root) or marker.get("python") != minor
        stale = stale or not (venv / "bin" / "python").exists()
    if stale:
        return "rebuild"
    served = {stamp_key(root, from_source=True)} | (
        set() if from_source else {stamp_key(root, from_source=False)}
    )
    return "ready" if marker.get("state") == "ready" and marker.get("key") in served else "update"


@contextlib.contextmanager
def locked(root: Path) -> Iterator[int]:
    """One set-up at a time per clone. The lock is on the folder itself: nothing to leave behind."""
    descriptor = os.open(root, os.O_RDONLY)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print("another set-up is running in this folder; waiting for it", flush=True)
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield descriptor
    finally:
        os.close(descriptor)


def pinned(root: Path, names: Sequence[str]) -> dict[str, str]:
    """The versions of `names` in constraints.txt, the one place that states them."""
    from steps import SetupError

    text = (root / "constraints.txt").read_text()
    versions = dict(re.findall(r"^([A-Za-z0-9_.-]+)==([^\s;]+)", text.lower(), flags=re.MULTILINE))
    if lacking := [name for name in names if name not in versions]:
        raise SetupError(
            f"constraints.txt does not pin {', '.join(lacking)}",
            hint="restore it: git checkout constraints.txt",
        )
    return {name: versions[name] for name in names}


def set_up(root: Path, *, from_source: bool) -> None:
    """Bring `.venv` up to date under the lock."""
    from steps import SetupError, Steps

    with locked(root) as lock:
        todo = plan(root, from_source=from_source)
        if todo == "ready":
            return
        venv = root / ".venv"
        if venv.is_symlink():
            raise SetupError(f"{venv} is a link; set-up manages its own folder only", hint="remove the link")
        marker = read_marker(venv) or {}
        owned = todo == "create" or bool(marker.get("owned"))
        if todo == "rebuild":
            _remove(venv, owned=owned)
        steps = Steps(venv / "setup.log", held=(lock,))
        minor = f"{sys.version_info[0]}.{sys.version_info[1]}"
        origin = {"root": str(root), "python": minor, "owned": owned}
        if todo in ("create", "rebuild"):
            require_venv_module()
            venv.mkdir(exist_ok=True)
            write_marker(venv, state="installing", **origin)
            base = getattr(sys, "_base_executable", None) or sys.executable
            steps.run(
                f"making .venv with Python {platform.python_version()}",
                [base, "-m", "venv", venv],
                hint="remove .venv, check that the disk is not full, and run again",
            )
        write_marker(venv, state="installing", **origin)
        built = install(steps, root, from_source=from_source)
        key = stamp_key(root, from_source=from_source)
        write_marker(venv, state="ready", key=key, built_from_source=built, **origin)
        steps.say("ready: .venv")


def install(steps: Steps, root: Path, *, from_source: bool) -> list[str]:
    """Install torch, then the project; the packages that were built from source on the way."""
    import source_wheels
    from steps import SetupError

    python = root / ".venv" / "bin" / "python"
    pip = [str(python), "-m", "pip", "--no-input", "--disable-pip-version-check"]
    pins = ["-c", str(root / "constraints.txt")]
    versions = pinned(root, ("torch", *source_wheels.PACKAGES))
    cache = source_wheels.wheel_cache()

    torch = f"torch=={versions['torch']}"
    steps.run(f"installing {torch}", [*pip, "install", torch, *pins], hint=INDEX_HINT)

    built = list(source_wheels.PACKAGES) if from_source else []
    if from_source:
        wheels = [source_wheels.build(steps, pip, name, versions, cache, forced=True) for name in built]
        command = [*pip, "install", "--no-deps", "--force-reinstall", *map(str, wheels)]
        steps.run("installing the built wheels", command, hint="remove .venv and run again")

    def project() -> list[str]:
        found = ["--find-links", str(cache)] if cache.is_dir() else []
        binary = ["--only-binary", ",".join(source_wheels.PACKAGES)]
        return [*pip, "install", "-e", f"{root}[dev]", *pins, *found, *binary]

    label = "installing AutoQEC and its libraries"
    if not steps.attempt(label, project()):
        tail = steps.tail()
        built = source_wheels.without_wheel(steps, pip, versions, cache)
        if not built:
            raise SetupError(f"{label} failed; all output is in {steps.log}", hint=INDEX_HINT, tail=tail)
        for name in built:
            source_wheels.build(steps, pip, name, versions, cache, forced=False)
        steps.run(label, project(), hint=INDEX_HINT)
    imports = f"import {CHECKED_IMPORTS.replace(' ', ', ')}"
    steps.run("checking that all of it loads", [python, "-c", imports], hint="remove .venv and run again")
    return built


def _remove(venv: Path, *, owned: bool) -> None:
    from steps import SetupError

    if not owned:
        raise SetupError(
            f"{venv} was not made by this set-up and has no working Python", hint="move it away and run again"
        )
    print(
        "the earlier .venv is unfinished, or was made by another Python or in another folder: making it anew"
    )
    shutil.rmtree(venv)


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Make .venv with everything AutoQEC needs.")
    parser.add_argument(
        "--build-from-source", action="store_true", help="build stim and pymatching even where wheels exist"
    )
    options = parser.parse_args(argv)
    from steps import SetupError

    try:
        if better := newer_python(sys.version_info[:3]):
            return subprocess.call([better, *sys.argv])
        if plan(ROOT, from_source=options.build_from_source) != "ready":
            set_up(ROOT, from_source=options.build_from_source)
    except SetupError as error:
        print(error, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("set-up was interrupted; the next run begins it again", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
