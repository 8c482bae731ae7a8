"""Printing for people and for programs."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Sequence
from textwrap import fill
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from autoqec.envs.environment import Environment

_NUMBER = re.compile(r"[-+]?[0-9][-+.,0-9eE]*%?", re.ASCII)
_NARROWEST = 24
"""Characters of a line of words that a narrow table does not break: names stay whole."""
_BETWEEN = 2


def print_json(value: Any) -> None:
    click.echo(json.dumps(value, indent=2, allow_nan=False))


def print_result(value: Any) -> None:
    """One line for scripts that search what a person is shown; not for `--json`, whose output is one JSON value."""
    click.echo(f"AUTOQEC_RESULT_JSON={json.dumps(value, allow_nan=False)}")


def print_warnings(env: Environment) -> None:
    """On stderr, so that stdout stays what a program reads."""
    for text in env.warnings:
        click.echo(f"warning: {text}", err=True)


def print_table(
    title: str,
    columns: Sequence[str],
    rows: Sequence[Sequence[object]],
    *,
    least: Sequence[int] = (),
) -> None:
    """A table; coloured on a terminal. Cells that look like numbers align right.

    Where it is wider than the terminal, or than `$COLUMNS` in a pipe, the columns `least` are left out, the first of them
    first, and named below. Then words are folded. Figures are never broken: a table that cannot be made narrower stays as wide.
    """
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    cells = [[cell(value) for value in row] for row in rows]
    width = _width()
    shown, left_out = _fitting(columns, cells, least, width)
    table = Table(
        title=title,
        title_justify="left",
        box=box.SIMPLE_HEAD,
        show_edge=False,
        pad_edge=False,
        padding=(0, _BETWEEN - 1, 0, 0),
    )
    widths = _widths(columns, cells, shown, width)
    for i in shown:
        numeric = bool(rows) and all(_is_numeric(row[i]) for row in rows)
        justify: Any = "right" if numeric else "left"
        table.add_column(columns[i], justify=justify, overflow="fold", width=widths[i])
    for row in cells:
        table.add_row(*(Text(row[i]) for i in shown))
    console = Console(width=max(width, sum(widths.values()) + _BETWEEN * len(shown)), highlight=False)
    with console.capture() as capture:
        console.print(table)
    click.echo("\n".join(line.rstrip() for line in capture.get().splitlines()))
    if left_out:
        names = ", ".join(columns[i] for i in left_out)
        click.echo(fill(f"Left out to fit {width} columns: {names} (--json has all)", max(width, 40)))


def cell(value: object) -> str:
    if value is None:
        return "-"
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _width() -> int:
    """Of the terminal; in a pipe, what `$COLUMNS` asks for, else no limit."""
    asked = os.environ.get("COLUMNS", "")
    if asked.isdecimal() and len(asked) < 5 and int(asked) > 0:
        return int(asked)
    if sys.stdout.isatty():
        from shutil import get_terminal_size

        return get_terminal_size().columns
    return 400


def _fitting(
    columns: Sequence[str], cells: Sequence[Sequence[str]], least: Sequence[int], width: int
) -> tuple[list[int], list[int]]:
    """Which columns are shown, and which are not."""
    shown, left_out = list(range(len(columns))), []
    for i in least:
        if _needed(columns, cells, shown) <= width:
            break
        shown.remove(i)
        left_out.append(i)
    return shown, sorted(left_out)


def _needed(columns: Sequence[str], cells: Sequence[Sequence[str]], shown: Sequence[int]) -> int:
    narrowest = (_narrowest(columns[i], [row[i] for row in cells]) for i in shown)
    return sum(narrowest) + _BETWEEN * max(len(shown) - 1, 0)


def _widths(
    columns: Sequence[str], cells: Sequence[Sequence[str]], shown: Sequence[int], width: int
) -> dict[int, int]:
    """Of every column: what it takes, less what the table is too wide, from the columns with most to spare."""
    widths = {i: max([len(columns[i]), *(len(row[i]) for row in cells)]) for i in shown}
    spare = {i: widths[i] - _narrowest(columns[i], [row[i] for row in cells]) for i in shown}
    excess = sum(widths.values()) + _BETWEEN * max(len(shown) - 1, 0) - width
    while excess > 0 and any(spare.values()):
        most = max(spare, key=lambda i: spare[i])
        widths[most], spare[most], excess = widths[most] - 1, spare[most] - 1, excess - 1
    return widths


def _narrowest(column: str, values: Sequence[str]) -> int:
    """How narrow a column can be: numbers and intervals stay in one piece, words may be folded, a heading between its words."""
    heading = max(map(len, column.split()), default=0)
    return max([heading, *map(_shortest_line, values)])


def _shortest_line(text: str) -> int:
    if " .. " in text:
        return len(text)
    numbers = (len(word) for word in text.split() if _NUMBER.fullmatch(word))
    return max([min(len(text), _NARROWEST), *numbers])


def _is_numeric(value: object) -> bool:
    return value is None or (isinstance(value, int | float) and not isinstance(value, bool))
