"""The verifier loads only compiled kernels that it has compiled itself: to the byte, under its own mark."""

from __future__ import annotations

import json
import pickle
import shutil
from pathlib import Path

import pytest

from autoqec.eval import kernel_store
from autoqec.eval.kernel_store import KernelStore
from autoqec.io.hashing import sha256_bytes
from autoqec.layout import KernelDir

FILES = {"a/one.nbi": b"index", "a/one.1.nbc": b"code"}


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Where kernels were compiled; compiling leaves two small files instead of a minute's work."""
    places: list[Path] = []

    def compile_into(folder: Path) -> None:
        places.append(folder)
        for name, data in FILES.items():
            (folder / name).parent.mkdir(exist_ok=True)
            (folder / name).write_bytes(data)

    monkeypatch.setattr(kernel_store, "_warm", compile_into)
    return places


def content(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*.nb?")}


def sealed(files: KernelDir) -> Path:
    return next(files.path.glob("*/seal.json"))


def test_kernels_are_compiled_once_and_copied_after_that(tmp_path: Path, compiled: list[Path]) -> None:
    store = KernelStore(KernelDir(tmp_path))
    folders = []
    for _ in range(3):
        with store.opened() as folder:
            assert content(folder) == FILES
            folders.append(folder)
    assert len(compiled) == 1
    assert len(set(folders)) == 3  # nobody shares a folder
    assert not any(folder.exists() for folder in folders)


def test_what_is_compiled_besides_is_kept(tmp_path: Path, compiled: list[Path]) -> None:
    store = KernelStore(KernelDir(tmp_path))
    with store.opened() as folder:
        (folder / "a" / "two.nbi").write_bytes(b"more")
    with store.opened() as folder:
        assert content(folder) == {**FILES, "a/two.nbi": b"more"}
    assert len(compiled) == 1


def test_a_kernel_that_was_changed_is_not_loaded(tmp_path: Path, compiled: list[Path]) -> None:
    """Also if the forger writes a list of hashes that fits: the mark needs the key."""
    store = KernelStore(KernelDir(tmp_path))
    with store.opened():
        pass
    poison = pickle.dumps("poison")
    seal = sealed(store.files)
    facts = json.loads(seal.read_text())
    place = seal.with_name(facts["files"]["a/one.nbi"])
    place.write_bytes(poison)
    with store.opened() as folder:
        assert content(folder) == FILES
    facts["files"]["a/one.nbi"] = sha256_bytes(poison)
    seal.with_name(sha256_bytes(poison)).write_bytes(poison)
    seal.write_text(json.dumps(facts))
    with store.opened() as folder:
        assert content(folder) == FILES
    assert len(compiled) == 3


@pytest.mark.parametrize("name", ["../out.nbi", "/tmp/out.nbi"])
def test_a_forged_name_leads_nowhere(tmp_path: Path, compiled: list[Path], name: str) -> None:
    store = KernelStore(KernelDir(tmp_path))
    with store.opened():
        pass
    seal = sealed(store.files)
    facts = json.loads(seal.read_text())
    facts["files"][name] = facts["files"]["a/one.nbi"]
    seal.write_text(json.dumps(facts))
    with store.opened() as folder:
        assert content(folder) == FILES
    shutil.rmtree(seal.parent)
    with store.opened() as folder:
        assert content(folder) == FILES
