"""docs/contract.md names all that it promises: every field of the models, every file of a run, every import path."""

from __future__ import annotations

from pathlib import Path

import pytest
from contract.test_contract import CONTRACT

from autoqec.layout import RoundDir, RunDir
from autoqec.runs.pointer import ArtifactPaths, MetricsSummary, Pointer, Provenance

PAGE = (Path(__file__).parents[2] / "docs" / "contract.md").read_text(encoding="utf-8")


def _files(folder: RunDir | RoundDir) -> list[str]:
    paths = (value for name, value in vars(folder).items() if name != "path")
    return [path.name for path in paths if not path.name.startswith(".")]


@pytest.mark.parametrize(("module", "model"), CONTRACT)
def test_every_field_of_a_model_is_on_the_page(module: str, model: str) -> None:
    assert f"`{module}`" in PAGE
    assert f"`{model}`" in PAGE
    assert [name for name in CONTRACT[module, model] if f"`{name}`" not in PAGE] == []


def test_every_file_of_a_run_is_on_the_page() -> None:
    names = [*_files(RunDir("run")), *_files(RoundDir("round_<N>"))]
    assert [name for name in names if name not in PAGE] == []


def test_every_key_of_a_pointer_is_on_the_page() -> None:
    models = (Pointer, Provenance, MetricsSummary, ArtifactPaths)
    assert [name for model in models for name in model.model_fields if name not in PAGE] == []
