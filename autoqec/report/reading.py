"""Files that may be missing, torn or hostile: read as far as they go, with a note about what is not there.

What others wrote (logs, reasons, hypotheses) is data: one line, without control characters, cut to a length.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from autoqec.agents.fences import one_line
from autoqec.errors import InputError
from autoqec.io.jsonl import JsonLines
from autoqec.io.strict_yaml import parse_json, parse_yaml
from autoqec.io.untrusted_file import read_regular
from autoqec.io.validate import validate_model
from autoqec.layout import RunDir
from autoqec.runs.history import StoredRow, check_size, filled

Row = dict[str, Any]
Gaps = list[str]
"""What could not be read and why, in plain sentences."""

MAX_BYTES = 32 << 20
MAX_QUOTE = 400


def quote(text: object, limit: int = MAX_QUOTE) -> str:
    """Foreign text as it may be shown."""
    return one_line(str(text), limit)


def text_of(path: Path, gaps: Gaps, *, needed: bool = True) -> str | None:
    """needed: whether its absence is worth a note."""
    if not path.exists() and not path.is_symlink():
        if needed:
            gaps.append(f"{path.name} is missing")
        return None
    try:
        return read_regular(path, limit=MAX_BYTES).decode(errors="replace")
    except InputError as error:
        gaps.append(f"{path.name} {quote(error.what)}")
        return None


def json_of(path: Path, gaps: Gaps, *, needed: bool = True) -> Row | None:
    return _mapping(path, gaps, parse_json, needed=needed)


def yaml_of(path: Path, gaps: Gaps, *, needed: bool = True) -> Row | None:
    return _mapping(path, gaps, parse_yaml, needed=needed)


def _mapping(path: Path, gaps: Gaps, parse: Any, *, needed: bool) -> Row | None:
    text = text_of(path, gaps, needed=needed)
    if text is None:
        return None
    try:
        value = parse(text, where=path.name)
    except InputError as error:
        gaps.append(f"{path.name} is torn or not what it should be: {quote(error)}")
        return None
    if not isinstance(value, Mapping):
        gaps.append(f"{path.name} holds no mapping")
        return None
    return dict(value)


def history_of(files: RunDir, gaps: Gaps) -> list[Row]:
    """The rows of a run in the order of their rounds; none of a history that a crash cannot have left."""
    if not files.history.is_file():
        gaps.append(f"{files.history.name} is missing")
        return []
    lines = JsonLines(files.history)
    try:
        check_size(files.history)
        rows = [filled(row) for row in lines.rows() if _is_a_row(row, gaps)]
        torn = lines.torn()
    except (InputError, OSError) as error:
        gaps.append(f"{files.history.name} cannot be read: {quote(error)}")
        return []
    if torn:
        gaps.append(
            f"{files.history.name} ends in a torn line of {len(torn)} bytes: autoqec reconcile cuts it off"
        )
    return sorted(rows, key=lambda row: number(row.get("round")) or 0)


def _is_a_row(row: Row, gaps: Gaps) -> bool:
    try:
        validate_model(row, StoredRow, where="history")
    except InputError as error:
        gaps.append(f"the row of round {quote(row.get('round'), 20)} breaks the rules: {quote(error)}")
        return False
    return True


def number(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def real(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None
