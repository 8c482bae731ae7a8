"""The exception tree. Every user-facing error says what is wrong, where, and a hint what to do about it.

::

    AutoQECError               exit code 1
    ├── InputError             exit code 2   a file, flag or value given by the user
    ├── UnavailableError       exit code 2   an optional part that is not installed here
    └── RunnerCallPathError    exit code 1   a worktree round called in process
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

ERROR_JSON = "AUTOQEC_ERROR_JSON"
"""Environment variable for programs that start the command line: "1" makes an error one line of JSON on stderr."""

_LONGEST = 3_000
"""Characters of each part of an error: what is quoted of the input may be of any length."""


def _shown(text: str, longest: int) -> str:
    """As it can be printed anywhere. Further lines are indented, so that none passes for an error or a hint of its own."""
    if len(text) > longest:
        text = f"{text[: longest - 100]} ... {text[-80:]}"
    lines = (line.strip() for line in text.splitlines())
    return "\n  ".join("".join(map(_printable, line)) for line in lines if line)


def _printable(character: str) -> str:
    return character if character.isprintable() or character == "\t" else ascii(character)[1:-1]


class Portable(Exception):
    """An exception that comes out of another process as it went in, whatever arguments its subclass takes."""

    def __reduce__(self) -> tuple[Callable[..., Portable], tuple[Any, ...]]:
        return _restored, (type(self), self.args, self.__dict__)


def _restored(kind: type[Portable], args: tuple[Any, ...], fields: dict[str, Any]) -> Portable:
    error = kind.__new__(kind, *args)
    error.__dict__.update(fields)
    return error


class AutoQECError(Portable):
    """Base of all errors that a user is meant to read; the CLI prints it without a traceback.

    Args:
        what: the problem, with the offending value.
        where: the file, field path, flag or object it was found in.
        hint: what to do about it.
    """

    exit_code = 1

    def __init__(self, what: str, *, where: str | None = None, hint: str | None = None) -> None:
        self.what = _shown(what, _LONGEST)
        self.where = None if where is None else _shown(where, _LONGEST).replace("\n  ", "\\n")
        self.hint = None if hint is None else _shown(hint, _LONGEST)
        super().__init__(self.what, self.where, self.hint)

    def to_dict(self) -> dict[str, Any]:
        return {
            "error": type(self).__name__,
            "what": self.what,
            "where": self.where,
            "hint": self.hint,
            "exit_code": self.exit_code,
        }

    def __str__(self) -> str:
        place = f"{self.where}: " if self.where else ""
        return f"{place}{self.what}" + (f"\n  hint: {self.hint}" if self.hint else "")


def is_out_of_memory(error: BaseException) -> bool:
    """Also as torch says it."""
    return isinstance(error, MemoryError) or (
        isinstance(error, RuntimeError) and "allocate memory" in str(error)
    )


class InputError(AutoQECError):
    """What the user gave cannot be used as it is."""

    exit_code = 2


class UnavailableError(AutoQECError):
    """An optional decoder, library or tool is not installed on this machine."""

    exit_code = 2


class RunnerCallPathError(AutoQECError):
    """The in-process runner was given `code_cwd`.

    A worktree round runs as a subprocess in its worktree: Python does not reload modules a branch edited.
    """
