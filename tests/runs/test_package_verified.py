"""A package with verified rounds, on another machine: its gains are measured again, and nothing of the user's is touched."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from cheats import packaged
from click.testing import CliRunner

from autoqec.commands import main
from autoqec.runs.backing import backed_front
from autoqec.sandbox.kinds import strongest

pytestmark = [
    pytest.mark.verifier,
    pytest.mark.skipif(
        not strongest().confines, reason="rounds with a commit are verified in a sandbox only"
    ),
]


def test_what_was_verified_there_is_verified_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = packaged.make(tmp_path / "there")
    assert backed_front(made.run.files.path, home=made.home).is_whole
    archive = tmp_path / "p.tar.gz"
    shutil.move(made.archive, archive)
    shutil.rmtree(tmp_path / "there")
    monkeypatch.setenv("AUTOQEC_HOME", str(tmp_path / "mine"))
    monkeypatch.setenv("TMPDIR", str(tmp_path / "temporary"))
    (tmp_path / "temporary").mkdir()
    done = CliRunner().invoke(main, ["verify-package", str(archive), "--shots", "20000"])
    assert done.exit_code == 0, done.output
    assert "Everything holds: each VERIFIED round was verified again here" in done.output
    assert not (tmp_path / "mine").exists()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["p.tar.gz", "temporary"]
