"""`autoqec runs`: the runs of this folder."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import click

from autoqec.commands.output import print_json, print_table


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print one JSON list instead of a table.")
def command(as_json: bool) -> None:
    """List the runs in runs/ of this folder, newest first.

    Other commands take an id from this list in the place of a run's folder: `autoqec pareto ID`, `autoqec diagnose ID/round_3`.
    A round counts as verified if a report of this machine's verifier backs it. Writes nothing.
    """
    from autoqec.agents.fences import one_line
    from autoqec.runs.overview import overview

    lines = overview(Path.cwd())
    if as_json:
        print_json([asdict(line) for line in lines])
        return
    if not lines:
        click.echo("No runs in runs/ of this folder. Start one: autoqec run surface_d5_depol --rounds 2")
        return
    print_table(
        "",
        ("run", "environment", "rounds", "verified", "best ratio", "state", "begun (UTC)"),
        [
            (
                line.run_id,
                _env(line.env),
                "-" if line.rounds is None else f"{line.rounds} of {line.rounds_planned or '-'}",
                line.verified,
                "-" if line.best_ratio is None else f"{line.best_ratio:.3f}",
                line.state,
                "-" if line.created_at is None else line.created_at[:16].replace("T", " "),
            )
            for line in lines
        ],
        least=(6,),
    )
    for line in lines:
        if line.unbacked:
            click.echo(
                f"{line.run_id}: {line.unbacked} rounds say VERIFIED, and no report of this machine's verifier backs them"
            )
        if line.reason is not None:
            click.echo(f"{line.run_id}: {one_line(line.reason, 300)}")


def _env(env: str | None) -> str:
    """A builtin name, or the name of the file."""
    from autoqec.agents.fences import one_line

    return "-" if env is None else one_line(Path(env).name, 60)
