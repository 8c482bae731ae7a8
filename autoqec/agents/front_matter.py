"""Markdown files that begin with a YAML block between two lines of three dashes."""

from __future__ import annotations

from typing import Any

from autoqec.errors import InputError
from autoqec.io.strict_yaml import parse_yaml

_LINE = "---\n"


def split_front_matter(text: str, *, where: str) -> tuple[dict[str, Any], str]:
    """The block and the text below it."""
    block, found, body = text.removeprefix(_LINE).partition(f"\n{_LINE}")
    if not text.startswith(_LINE) or not found:
        raise InputError(
            "has no front matter", where=where, hint="begin the file with a YAML block between two lines ---"
        )
    data = parse_yaml(f"{block}\n", where=where)
    if not isinstance(data, dict):
        raise InputError("the front matter is not a mapping", where=where, hint="write `key: value` lines")
    return data, body.lstrip("\n")
