"""Whether a folder holds the installed package: every way to differ counts."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from autoqec.sandbox.installed import installed_root, is_same_package


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    for name in ("autoqec", "cli"):
        shutil.copytree(
            installed_root() / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__")
        )
    return tmp_path


def test_a_copy_is_the_same_whatever_python_compiled_in_it(copy: Path) -> None:
    assert is_same_package(copy)
    (copy / "autoqec" / "__pycache__").mkdir()
    (copy / "autoqec" / "__pycache__" / "errors.cpython-311.pyc").write_bytes(b"x")
    (copy / "setup.py").write_text("")
    assert is_same_package(copy)


MODULE = Path("autoqec", "decoders", "modules", "predecoders.py")


def _edit(path: Path) -> None:
    path.write_text(path.read_text() + "\n")


def _link(path: Path) -> None:
    path.unlink()
    path.symlink_to(installed_root() / MODULE)


def _pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def _folder(path: Path) -> None:
    shutil.rmtree(path.parent)
    path.parent.symlink_to(installed_root() / MODULE.parent)


@pytest.mark.parametrize(
    "change",
    [
        _edit,
        _link,
        _pipe,
        _folder,
        Path.unlink,
        lambda path: path.with_name("more.py").write_text(""),
        lambda path: path.with_name("more.so").write_bytes(b"\x7fELF"),
    ],
)
def test_an_edit_a_link_a_pipe_a_missing_and_a_further_file_are_not(
    copy: Path, change: Callable[[Path], object]
) -> None:
    change(copy / MODULE)
    assert not is_same_package(copy)


def test_a_folder_without_the_package_is_not(tmp_path: Path) -> None:
    assert not is_same_package(tmp_path)


def test_parts_are_compared_by_themselves(copy: Path) -> None:
    _edit(copy / "autoqec" / "layout.py")
    parts = ("autoqec/decoders/modules", "autoqec/decoders/compiler.py")
    assert is_same_package(copy, parts)
    _edit(copy / parts[1])
    assert is_same_package(copy, parts[:1])
    assert not is_same_package(copy, parts[1:])
