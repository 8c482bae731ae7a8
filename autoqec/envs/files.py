"""Reading the text files that an environment refers to."""

from __future__ import annotations

from pathlib import Path

from autoqec.errors import InputError

_MAX_BYTES = 256 * 1024 * 1024


def read_text(path: Path, *, where: str, hint: str) -> str:
    """The text of a referenced file, or an InputError that says why it cannot be read."""
    if not path.exists():
        raise InputError(f"file {path} does not exist", where=where, hint=hint)
    if not path.is_file():
        raise InputError(f"{path} is not a regular file", where=where, hint=hint)
    try:
        if path.stat().st_size > _MAX_BYTES:
            raise InputError(f"{path} is larger than {_MAX_BYTES >> 20} MiB", where=where, hint=hint)
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}", where=where, hint=hint) from error
    except UnicodeDecodeError as error:
        raise InputError(f"{path} is not a text file", where=where, hint=hint) from error
