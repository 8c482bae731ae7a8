"""Caches that are programs: numba's index of compiled kernels is a pickle, and whoever loads it runs it."""

from __future__ import annotations

import os
import pickle
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import autoqec
from autoqec.eval.kernel_store import KernelStore
from autoqec.layout import KernelDir
from cheats.corpus import cheat
from cheats.process import run_verify
from cheats.scene import Outcome, Scene, act

_FAMILY = "poisoned caches"
_DEFENCE = "the verifier compiles its own kernels where no round can write, and loads them by recorded hashes"


class _Payload:
    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def __reduce__(self) -> tuple[Any, ...]:
        return open, (str(self.marker), "w")


def _poison(folder: Path, marker: Path) -> None:
    """Every index in a cache folder makes the marker when it is loaded."""
    for index in folder.rglob("*.nbi"):
        index.write_bytes(pickle.dumps(_Payload(marker)) * 3)


def _poisoned_copy(scene: Scene) -> Path:
    folder = scene.folder / "poison"
    with KernelStore().opened() as kernels:
        shutil.copytree(kernels, folder)
    _poison(folder, scene.marker)
    return folder


def _works(scene: Scene, **environment: str) -> None:
    """The poison works where it is loaded."""
    command = [sys.executable, "-P", "-c", "from autoqec.sandbox.warm import main; main()"]
    subprocess.run(command, env={**os.environ, **environment}, capture_output=True, check=False)
    if not scene.marker.exists():
        raise RuntimeError("the poison does not work at all")
    scene.marker.unlink()


def _played(scene: Scene, **environment: str) -> Outcome:
    report, said = run_verify(scene, scene.round(), **environment)
    if not report.exists():
        raise RuntimeError(said)
    return act(scene.marker.exists(), "it was not loaded")


def _case(name: str, how: str) -> Callable[[Callable[[Scene], Outcome]], Any]:
    return cheat(name, family=_FAMILY, how=how, defence=_DEFENCE, expect="no effect", because="not loaded")


@_case("poisoned index in numba's cache folder", "NUMBA_CACHE_DIR leads to kernels whose index is a payload")
def _user_cache(scene: Scene) -> Outcome:
    folder = str(_poisoned_copy(scene))
    _works(scene, NUMBA_CACHE_DIR=folder)
    return _played(scene, NUMBA_CACHE_DIR=folder)


@_case("poisoned index of the installed package", "the index beside the package's own kernels is a payload")
def _in_tree(scene: Scene) -> Outcome:
    """On a copy of the package: the one that is installed here serves all cases."""
    code = scene.folder / "installed"
    package = Path(autoqec.__file__).parent
    ignored = shutil.ignore_patterns("__pycache__")
    for name in ("autoqec", "cli"):
        shutil.copytree(package.parent / name, code / name, ignore=ignored)
    variables = {"PYTHONPATH": str(code), "NUMBA_CACHE_DIR": ""}
    command = [sys.executable, "-P", "-c", "from autoqec.sandbox.warm import main; main()"]
    subprocess.run(command, env={**os.environ, **variables}, capture_output=True, check=True)
    _poison(code, scene.marker)
    _works(scene, **variables)
    return _played(scene, **variables)


@_case(
    "poisoned index in the verifier's store",
    "a file of the store itself is replaced; its name is the old hash",
)
def _store(scene: Scene) -> Outcome:
    files = KernelDir(scene.folder / "kernels")
    with KernelStore().opened() as kernels:
        _seed(files, kernels)
    for path in files.path.glob("*/*"):
        if path.name != "seal.json" and path.read_bytes()[:1] == b"\x80":
            path.write_bytes(pickle.dumps(_Payload(scene.marker)) * 3)
    return _played(scene, AUTOQEC_KERNELS=str(files.path))


@_case("store with a seal of its own", "the store is made anew, sealed with a key that is not the verifier's")
def _sealed(scene: Scene) -> Outcome:
    files, forged = KernelDir(scene.folder / "kernels"), KernelDir(scene.folder / "forged")
    with KernelStore().opened() as kernels:
        _seed(files, kernels)
        _poison(kernels, scene.marker)
        _seed(forged, kernels)
    for folder in forged.path.iterdir():
        if folder.is_dir():
            shutil.rmtree(files.path / folder.name)
            shutil.copytree(folder, files.path / folder.name)
    return _played(scene, AUTOQEC_KERNELS=str(files.path))


@_case("index that is a link", "an index of the store is a link to a payload outside it")
def _linked(scene: Scene) -> Outcome:
    files = KernelDir(scene.folder / "kernels")
    payload = scene.folder / "payload"
    payload.write_bytes(pickle.dumps(_Payload(scene.marker)) * 3)
    with KernelStore().opened() as kernels:
        _seed(files, kernels)
    for path in files.path.glob("*/*"):
        if path.name != "seal.json" and path.read_bytes()[:1] == b"\x80":
            path.unlink()
            path.symlink_to(payload)
    return _played(scene, AUTOQEC_KERNELS=str(files.path))


@_case(
    "kernels in the working directory", "the folder that verify is started in has a __pycache__ of payloads"
)
def _working_directory(scene: Scene) -> Outcome:
    poison = _poisoned_copy(scene)
    shutil.copytree(poison, scene.folder / "__pycache__")
    return _played(scene)


@cheat(
    "cached failures and problems",
    family=_FAMILY,
    how="the user's cache folder says that the plain backend always fails and that faults are all alike",
    defence="the verifier builds the problem anew and believes nothing that lies in the user's cache",
    expect="no effect",
    because="not believed",
)
def _cached(scene: Scene) -> Outcome:
    scene.spec["noise"] = {"type": "depolarizing", "p": [0.01, 0.012]}
    cache = scene.folder / "cache"
    honest, _ = run_verify(scene, scene.round(), AUTOQEC_CACHE=str(cache))
    figures = honest.read_text()
    for path in cache.rglob("*.bin"):
        data = bytearray(path.read_bytes())
        data[len(data) // 2 :] = bytes(len(data) - len(data) // 2)
        path.write_bytes(bytes(data))
    again, said = run_verify(scene, scene.round(name="round_2"), AUTOQEC_CACHE=str(cache))
    if not again.exists():
        raise RuntimeError(said)
    changed = ('"reference_p": 0.012' in figures) != ('"reference_p": 0.012' in again.read_text())
    return act(changed, "it was not believed")


def _seed(files: KernelDir, kernels: Path) -> None:
    """A store that holds given kernels."""
    store = KernelStore(files)
    files.path.mkdir(parents=True, exist_ok=True)
    store.keep(kernels)
