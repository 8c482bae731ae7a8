"""Model code to run in the sandbox: copies of the package with a part replaced."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

import autoqec

MODULE = "autoqec/decoders/modules/predecoders.py"


@pytest.fixture
def tampered(tmp_path: Path) -> Callable[[str], Path]:
    """A folder with a copy of the package whose predecoders end in the given code."""

    def make(code: str) -> Path:
        package = Path(autoqec.__file__).parent
        root = tmp_path / "code"
        shutil.copytree(package, root / "autoqec", ignore=shutil.ignore_patterns("__pycache__"))
        with (root / MODULE).open("a") as file:
            file.write(f"\n\n{code}\n")
        return root

    return make
