"""Reading the text files that an environment refers to."""

from __future__ import annotations

from pathlib import Path

from autoqec.errors import InputError
from autoqec.io import untrusted_file

_MAX_BYTES = 256 * 1024 * 1024


def read_text(path: Path, *, where: str, hint: str) -> str:
    """The text of a referenced file, or an InputError that says why it cannot be read."""
    try:
        return untrusted_file.read_text(path, limit=_MAX_BYTES, where=where, hint=hint, links=True)
    except InputError as error:
        what = f"{path} {error.what}" if untrusted_file.is_there(path) else f"file {path} does not exist"
        raise InputError(what, where=where, hint=error.hint) from None


def first_line(error: BaseException) -> str:
    """What a library says about a file that it cannot read, in one line."""
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return lines[0][:300]
