"""Printing for people and for programs."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from autoqec.envs.environment import Environment


def print_json(value: Any) -> None:
    click.echo(json.dumps(value, indent=2, allow_nan=False))


def print_result(value: Any) -> None:
    """One line for scripts that search what a person is shown; not for `--json`, whose output is one JSON value."""
    click.echo(f"AUTOQEC_RESULT_JSON={json.dumps(value, allow_nan=False)}")


def print_warnings(env: Environment) -> None:
    """On stderr, so that stdout stays what a program reads."""
    for text in env.warnings:
        click.echo(f"warning: {text}", err=True)


def print_table(title: str, columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """A table; coloured on a terminal, plain and unclipped in a pipe. Cells that look like numbers align right."""
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    is_terminal = sys.stdout.isatty()
    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    for i, column in enumerate(columns):
        numeric = bool(rows) and all(_is_numeric(row[i]) for row in rows)
        table.add_column(column, justify="right" if numeric else "left", overflow="fold")
    for row in rows:
        table.add_row(*(Text(cell(value)) for value in row))
    console = Console(width=None if is_terminal else 400, highlight=False)
    with console.capture() as capture:
        console.print(table)
    click.echo("\n".join(line.rstrip() for line in capture.get().splitlines()))


def cell(value: object) -> str:
    if value is None:
        return "-"
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _is_numeric(value: object) -> bool:
    return value is None or (isinstance(value, int | float) and not isinstance(value, bool))
