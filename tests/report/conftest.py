from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))  # broken_rounds
sys.path.insert(0, str(Path(__file__).parents[1] / "runs"))  # tiny_runs

from broken_rounds import play
from tiny_runs import make_checkout, make_run

from autoqec.runs.repository import open_checkout
from autoqec.runs.run import Run

Broken = Callable[..., Path]


@pytest.fixture
def broken(tmp_path: Path) -> Broken:
    """Plays a real round and returns its folder."""

    def make(config: dict[str, Any], env: Any = None, *, name: str = "round", **safety: Any) -> Path:
        folder, _ = play(tmp_path / name, config, env, **safety)
        return folder

    return make


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return make_run(tmp_path / "work", open_checkout(make_checkout(tmp_path / "checkout")))


@pytest.fixture(scope="module")
def own_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A verifier's home for the folders of one module."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AUTOQEC_HOME", str(tmp_path_factory.mktemp("home")))
        yield
