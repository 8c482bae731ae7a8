"""Configs that work, by name."""

from __future__ import annotations

from pathlib import Path

_FOLDER = Path(__file__).parent


def examples() -> list[str]:
    return sorted(path.stem for path in _FOLDER.glob("*.yaml"))


def example(name: str) -> Path | None:
    """The file of an example; None if there is none of that name."""
    return _FOLDER / f"{name}.yaml" if name in examples() else None
