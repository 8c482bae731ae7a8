"""Files that belong together appear together, or what was there stays."""

from __future__ import annotations

from pathlib import Path

import pytest

from autoqec.io import atomic


def content(folder: Path) -> dict[str, bytes]:
    return {each.name: each.read_bytes() for each in folder.iterdir() if each.is_file()}


def test_files_are_written_together(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"old")
    atomic.write_together({tmp_path / "a": b"1", tmp_path / "b": b"2", tmp_path / "c": b"3"})
    assert content(tmp_path) == {"a": b"1", "b": b"2", "c": b"3"}


def test_a_folder_in_the_place_of_one_keeps_the_others_from_being_written(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"old")
    (tmp_path / "b").mkdir()
    with pytest.raises(IsADirectoryError):
        atomic.write_together({tmp_path / "a": b"1", tmp_path / "b": b"2"})
    assert content(tmp_path) == {"a": b"old"}


@pytest.mark.parametrize("fails", ["a", "b", "c"])
def test_what_was_there_comes_back_when_a_rename_fails(
    fails: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = {"a": b"old", "c": b"older"}
    for name, data in before.items():
        (tmp_path / name).write_bytes(data)
    real = Path.replace

    def replace(source: Path, target: Path) -> Path:
        if Path(target).name == fails and source.suffix == ".tmp":
            raise PermissionError(1, "Not permitted", str(target))
        return real(source, target)

    monkeypatch.setattr(Path, "replace", replace)
    with pytest.raises(PermissionError):
        atomic.write_together({tmp_path / name: b"new" for name in "abc"})
    assert content(tmp_path) == before


def test_dots_behind_a_link_are_those_of_the_file_system(tmp_path):
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "here").symlink_to("a/b")
    atomic.write_text(tmp_path / "here" / ".." / "found.txt", "text")
    assert (tmp_path / "a" / "found.txt").read_text() == "text"
    assert [path.name for path in tmp_path.iterdir() if path.is_file()] == []
