"""Types of options: a value that no command could use is refused before the command begins.

Click's own types take `nan` for a number within any range, integers of any length, and names that no file can have.
"""

from __future__ import annotations

import errno
import math
import os
import re
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import click

from autoqec.errors import InputError

MAX_COUNT = 10**12
MAX_NUMBER = 1e12
MAX_SECONDS = 1e6
_SHOWN = 80
_EXPONENT = re.compile(r"[+-]?[0-9]+(_[0-9]+)*(\.[0-9]{1,30})?[eE]\+?[0-9]{1,2}", re.ASCII)
"""Short of powers of ten that nobody counts to, whose digits would fill the memory."""


class _Refusing:
    """What click would refuse in a format of its own is an InputError, which programs can read as JSON."""

    hint: str | None = None

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        try:
            found = super().convert(_cut(value), param, ctx)  # type: ignore[misc]
        except click.BadParameter as error:
            raise InputError(error.message.rstrip("."), where=_name(param), hint=self.hint) from None
        if problem := self.problem(found):
            raise InputError(problem, where=_name(param), hint=self.hint)
        return found

    def problem(self, value: Any) -> str | None:
        """What is wrong with a value that has the right type; None if nothing is."""
        raise NotImplementedError


class Count(_Refusing, click.IntRange):
    """An integer in a range, by default as large as a machine could ever count to."""

    name = "integer"
    hint = "give a whole number, as in 100000, 100_000 or 1e5"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        return super().convert(_written_out(value) if isinstance(value, str) else value, param, ctx)

    def problem(self, value: int) -> str | None:
        is_large = self.max is None and abs(value) > MAX_COUNT
        return f"{value} is larger than {MAX_COUNT:.0e}" if is_large else None


def _written_out(text: str) -> str:
    """A whole number in digits for what says one exactly with an exponent; else the text itself."""
    if len(text) > _SHOWN or _EXPONENT.fullmatch(text) is None:
        return text
    value = Decimal(text.replace("_", ""))
    return str(int(value)) if value == value.to_integral_value() else text


class Number(_Refusing, click.FloatRange):
    """A finite number in a range."""

    name = "number"
    hint = "give a number such as 0.5 or 1e-3"

    def problem(self, value: float) -> str | None:
        if math.isfinite(value) and abs(value) <= MAX_NUMBER:
            return None
        return f"{value} is not a number up to {MAX_NUMBER:.0e}"

    def _describe_range(self) -> str:
        return "" if self.min is None and self.max is None else super()._describe_range()


class Seconds(Number):
    """A time to wait at most; the system takes no longer ones than some weeks."""

    def __init__(self) -> None:
        super().__init__(min=1, max=MAX_SECONDS)


class ExecutorName(click.types.StringParamType):
    """Where work runs."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        from autoqec.executors.registry import check_executor

        return check_executor(_cut(value))


def executor_option(help: str) -> Callable[[Any], Any]:
    """`--executor` of a command; help: what runs there."""
    return click.option(
        "--executor", type=ExecutorName(), metavar="local|ray[:ADDRESS]", help=f"{help} Default: local."
    )


class AnyPath(click.Path):
    """A path that a file could have; whether there is one is for the command to say."""

    def __init__(self, **options: Any) -> None:
        super().__init__(path_type=Path, **options)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        problem = path_problem(value)
        try:
            path: Any = value if problem else super().convert(value, param, ctx)
        except click.BadParameter as error:
            problem = error.message.rstrip(".")
        if problem := problem or self.problem(path):
            raise InputError(problem, where=_name(param), hint=self.hint(Path(value)))
        return path

    def problem(self, path: Path) -> str | None:
        """Why the command cannot use this path; None if it can."""
        return None

    def hint(self, path: Path) -> str:
        """What to do about a path that the command cannot use."""
        return "check the path"


class OutFile(AnyPath):
    """A file to be written: its folder is there, and nothing but a file would be replaced."""

    def problem(self, path: Path) -> str | None:
        if self.allow_dash and str(path) == "-":
            return None
        if not path.parent.is_dir():
            return f"folder {path.parent} does not exist"
        if not os.access(path.parent, os.W_OK | os.X_OK):
            return f"folder {path.parent} cannot be written"
        if path.is_dir():
            return f"{path} is a folder"
        return f"{path} is not a regular file" if path.exists() and not path.is_file() else None


PLOT_ENDINGS = (".png", ".pdf", ".svg", ".jpg", ".eps")


class PlotFile(OutFile):
    """A figure to be written; its ending says in which format."""

    def problem(self, path: Path) -> str | None:
        if path.suffix.lower() not in PLOT_ENDINGS:
            return f"cannot plot into {path.name!r}: give a name that ends in {', '.join(PLOT_ENDINGS)}"
        return super().problem(path)


class OutFolder(AnyPath):
    """A folder to be written into, which is made if it is missing."""

    def problem(self, path: Path) -> str | None:
        above = next((folder for folder in (path, *path.absolute().parents) if os.path.lexists(folder)), path)
        return None if above.is_dir() else f"{above} is not a folder"


def _name(param: click.Parameter | None) -> str | None:
    if param is None:
        return None
    return max(param.opts, key=len) if isinstance(param, click.Option) else param.human_readable_name


def path_problem(value: str | os.PathLike[str]) -> str | None:
    """Why no file can have this name; None if one can."""
    text = os.fspath(value)
    if not text:
        return "an empty path"
    try:
        Path(text).stat()
    except ValueError as error:
        return f"{_cut(text)!r} is not a path: {error}"
    except OSError as error:
        if error.errno in (errno.ENAMETOOLONG, errno.ELOOP):
            return f"{_cut(text)!r} is not a path: {error.strerror}"
    return None


def _cut(value: Any) -> Any:
    """What is quoted in an error; a number that is so long is none."""
    return value if not isinstance(value, str) or len(value) <= _SHOWN else f"{value[:_SHOWN]}..."
