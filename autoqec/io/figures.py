"""Figures as files, whole or not at all."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

from autoqec.io import atomic


def save(figure: Any, path: Path) -> None:
    """A matplotlib figure; its format is the ending of the file, as `commands.options.PlotFile` takes it. Fonts are embedded, and
    texts of SVG are outlines, so that it looks the same everywhere."""
    import matplotlib

    buffer = io.BytesIO()
    with matplotlib.rc_context({"pdf.fonttype": 42, "ps.fonttype": 42, "svg.fonttype": "path"}):
        figure.savefig(buffer, format=path.suffix.lower().removeprefix("."), dpi=160)
    atomic.write_bytes(path, buffer.getvalue())
