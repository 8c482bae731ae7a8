"""`autoqec reconcile`: bring branches, worktrees and history of a run to agree."""

from __future__ import annotations

import sys
from dataclasses import asdict
from pathlib import Path

import click

from autoqec.commands.named import RunPath
from autoqec.commands.output import print_json

EXIT_PAUSED = 3


@click.command()
@click.argument("run_dir", type=RunPath(file_okay=False))
@click.option("--dry-run", is_flag=True, help="Say what would be done, and change nothing.")
@click.option("--json", "as_json", is_flag=True)
def command(run_dir: Path, dry_run: bool, as_json: bool) -> None:
    """Repair RUN_DIR and its repository after a crash or manual edits, as the loop does when it starts.

    Destroys nothing that is committed. Exit code 3 if something is left for you to decide.
    """
    from autoqec.runs.reconcile import reconcile
    from autoqec.runs.run import Run

    run = Run.open(run_dir)
    with run.exclusive():
        report = reconcile(run, dry_run=dry_run)
    if as_json:
        print_json({"dry_run": dry_run, **asdict(report)})
    else:
        for kind, target in report.actions:
            click.echo(f"{'would ' if dry_run else ''}{kind.replace('_', ' ')}: {target}")
        for line in report.in_flight:
            click.echo(f"in flight: {line}")
        for line in report.pauses:
            click.echo(f"for you to decide: {line}")
        if not report.actions and not report.pauses:
            click.echo("Nothing to repair.")
    sys.exit(EXIT_PAUSED if report.pauses else 0)
