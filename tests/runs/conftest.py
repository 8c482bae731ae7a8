from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(
    0, str(Path(__file__).parent)
)  # tiny_runs, crash_points and the two worlds, which the tests share
sys.path.insert(0, str(Path(__file__).parents[1] / "agents" / "fakes"))  # vendor and desk

from tiny_runs import make_checkout, make_run

from autoqec.runs.repository import Repository, open_checkout
from autoqec.runs.run import Run


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    return make_checkout(tmp_path / "checkout")


@pytest.fixture
def repository(checkout: Path) -> Repository:
    return open_checkout(checkout)


@pytest.fixture
def run(tmp_path: Path, repository: Repository) -> Run:
    return make_run(tmp_path / "work", repository)
