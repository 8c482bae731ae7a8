"""`autoqec replay`: train a recorded round again and compare."""

from __future__ import annotations

import sys
from dataclasses import asdict
from pathlib import Path

import click

from autoqec.commands.named import RunPath
from autoqec.commands.options import Seconds
from autoqec.commands.output import print_json


@click.command()
@click.argument("round_dir", type=RunPath(file_okay=False))
@click.option(
    "--wall-clock",
    type=Seconds(),
    default=1800.0,
    show_default=True,
    help="Seconds until the replay is killed.",
)
@click.option("--json", "as_json", is_flag=True)
def command(round_dir: Path, wall_clock: float, as_json: bool) -> None:
    """Rebuild the round in ROUND_DIR from its commit, environment, config and seed, and compare its metrics.

    Exit code 0 when they are identical, or, with other packages than the recorded ones, when the gain lies within
    the recorded interval; 1 otherwise.
    """
    from autoqec.runs.replay import replay

    result = replay(round_dir, wall_clock_s=wall_clock)
    if as_json:
        print_json({**asdict(result), "ok": result.is_good})
    else:
        words = {
            "identical": "identical to the last bit",
            "within_interval": "not identical; the gain lies within the recorded interval",
            "differs": "differs from what was recorded",
        }
        click.echo(f"{round_dir}: {words[result.outcome]}")
        for name, (was, now) in result.differences.items():
            click.echo(f"  {name}: {was} -> {now}")
        if result.same_weights is False:
            click.echo("  the weights differ")
        if not result.same_packages:
            click.echo("  the installed packages are not those of the recorded round")
    sys.exit(0 if result.is_good else 1)
