"""Whatever was made of a folder, it can be removed, and nothing outside of it is touched."""

from __future__ import annotations

import os
from pathlib import Path

from autoqec.io.removal import remove_tree


def test_a_folder_deeper_than_any_path_is_removed(tmp_path: Path) -> None:
    top = tmp_path / "top"
    top.mkdir()
    here = os.open(top, os.O_RDONLY)
    for _ in range(1500):
        os.mkdir("a long name", dir_fd=here)
        inner = os.open("a long name", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = inner
    os.close(here)
    remove_tree(top)
    assert not top.exists()


def test_links_are_removed_and_not_followed(tmp_path: Path) -> None:
    outside, top = tmp_path / "outside", tmp_path / "top"
    outside.mkdir()
    (outside / "mine").write_text("x")
    (top / "inner").mkdir(parents=True)
    (top / "inner" / "link").symlink_to(outside)
    (top / "broken").symlink_to("nowhere")
    os.mkfifo(top / "pipe")
    remove_tree(top)
    assert not top.exists()
    (tmp_path / "direct").symlink_to(outside)
    remove_tree(tmp_path / "direct")
    assert (outside / "mine").read_text() == "x"
    assert not (tmp_path / "direct").is_symlink()


def test_a_read_only_folder_is_removed_and_a_missing_one_is_no_error(tmp_path: Path) -> None:
    inner = tmp_path / "top" / "inner"
    inner.mkdir(parents=True)
    (inner / "file").write_text("x")
    inner.chmod(0)
    (tmp_path / "top").chmod(0o500)
    remove_tree(tmp_path / "top")
    assert not (tmp_path / "top").exists()
    remove_tree(tmp_path / "top")
