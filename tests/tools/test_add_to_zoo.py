"""A round becomes an entry of the zoo: without paths of the machine, with the provenance that it is given or has."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import add_to_zoo
import pytest

from autoqec.finds.zoo import zoo_entry
from autoqec.layout import EntryDir, zoo_folder

ENV = "surface_d5_depol"
NAME = f"{ENV}/cascade_3mflop"
GIVEN = (
    "--made-by",
    "autoqec run-round A",
    "--made-by",
    "autoqec run-round B",
    "--seed",
    "3",
    "--device",
    "CPU",
)


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.fixture
def copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> EntryDir:
    """A copy of an entry, and another zoo, which is empty."""
    folder = shutil.copytree(zoo_folder() / NAME, tmp_path / "mine")
    for module in ("autoqec.finds.zoo", "add_to_zoo"):
        monkeypatch.setattr(f"{module}.zoo_folder", lambda: tmp_path / "zoo")
    return EntryDir(folder)


def add(monkeypatch: pytest.MonkeyPatch, *words: object) -> int:
    monkeypatch.setattr(sys, "argv", ["add_to_zoo.py", *map(str, words)])
    return add_to_zoo.main()


def test_a_copy_of_an_entry_is_that_entry_again(copied: EntryDir, monkeypatch: pytest.MonkeyPatch) -> None:
    assert add(monkeypatch, copied.path, NAME) == 0
    assert contents(zoo_entry(NAME).path) == contents(copied.path)
    assert add(monkeypatch, copied.path, NAME, "--notes", "Seen.") == 0
    changed = {
        name for name, data in contents(zoo_entry(NAME).path).items() if data != contents(copied.path)[name]
    }
    assert changed == {"card.md", "provenance.json"}
    assert zoo_entry(NAME).provenance.notes == "Seen."


def test_what_the_machine_and_the_branch_wrote_stays_behind(
    copied: EntryDir, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for path in (copied.provenance, copied.card):
        path.unlink()
    branch = "exp/some/01-x"
    for path, more in (
        (copied.metrics, {"checkpoint_path": str(copied.checkpoint), "training_log_path": str(tmp_path)}),
        (copied.report, {"bundle_path": str(tmp_path), "commit_sha": "ab" * 20}),
    ):
        path.write_text(json.dumps(json.loads(path.read_text()) | {"branch": branch, **more}))
    assert add(monkeypatch, copied.path, f"{ENV}/another", *GIVEN, "--branch", branch) == 0
    entry = zoo_entry(f"{ENV}/another")
    for name, data in contents(entry.path).items():
        assert str(tmp_path).encode() not in data, name
        assert (branch.encode() in data) == (name == "provenance.json"), name
    assert entry.is_verified
    assert entry.provenance.commands == ["autoqec run-round A", "autoqec run-round B"]
    assert (entry.provenance.seeds, entry.provenance.devices) == ([3], ["CPU"])


@pytest.mark.parametrize(
    ("name", "damage", "said"),
    [
        ("Mine", None, "is not the name of an entry"),
        ("surface_d3_depol/mine", None, f"was trained on {ENV}"),
        (NAME, "provenance.json", "commands"),
        (NAME, "metrics.json", "flops_per_syndrome"),
    ],
)
def test_what_is_no_entry_is_refused_and_the_zoo_stays(
    copied: EntryDir,
    name: str,
    damage: str | None,
    said: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert add(monkeypatch, copied.path, NAME) == 0
    before = contents(zoo_entry(NAME).path)
    if damage is not None:
        (copied.path / damage).write_text("{}")
    assert add(monkeypatch, copied.path, name) == 2
    assert said in capsys.readouterr().err
    assert contents(zoo_entry(NAME).path) == before
