"""Figures as files, whole or not at all."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

from autoqec.io import atomic


def save(figure: Any, path: Path) -> None:
    """A matplotlib figure; its format is the ending of the file, as `commands.options.PlotFile` takes it."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format=path.suffix.lower().removeprefix("."), dpi=160)
    atomic.write_bytes(path, buffer.getvalue())
