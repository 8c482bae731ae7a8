"""`autoqec doctor`: what this machine has, what is missing, and a hint how to fix it."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from autoqec.commands.output import print_json

if TYPE_CHECKING:
    from autoqec.commands.machine_checks import Check


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of a table.")
def command(as_json: bool) -> None:
    """Check this machine: versions, hardware, optional parts, and how to fix what is missing.

    Exit code 1 when a part that AutoQEC needs is broken. A warning is something it can do without.
    """
    from autoqec.commands.machine_checks import all_checks

    checks = all_checks()
    ok = all(check.status != "fail" for check in checks)
    if as_json:
        print_json({"ok": ok, "checks": [asdict(check) for check in checks]})
    elif sys.stdout.isatty():
        _print_table(checks)
    else:
        _print_lines(checks)
    if not as_json:
        count = Counter(check.status for check in checks)
        verdict = "AutoQEC can run here" if ok else "AutoQEC cannot run here until what failed is fixed"
        click.echo(f"{verdict}: {count['ok']} ok, {count['warn']} warnings, {count['fail']} failed")
    sys.exit(0 if ok else 1)


def _print_table(checks: Sequence[Check]) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    colour = {"ok": "green", "warn": "yellow", "fail": "bold red"}
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    for heading in ("check", "", "found", "hint"):
        table.add_column(heading, overflow="fold")
    for check in checks:
        status = Text(check.status, style=colour[check.status])
        table.add_row(check.name, status, Text(check.detail), Text(check.hint or ""))
    Console(highlight=False).print(table)


def _print_lines(checks: Sequence[Check]) -> None:
    width = max(len(check.name) for check in checks)
    for check in checks:
        click.echo(f"{check.status:<4}  {check.name:<{width}}  {check.detail}")
        if check.hint:
            click.echo(f"      {'':<{width}}  hint: {check.hint}")
