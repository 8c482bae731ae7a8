"""`autoqec package-run`: a run as one archive."""

from __future__ import annotations

from pathlib import Path

import click

from autoqec.commands.named import RunPath
from autoqec.commands.options import OutFile
from autoqec.commands.output import print_json


@click.command()
@click.argument("run_dir", type=RunPath(file_okay=False))
@click.option(
    "--out",
    type=OutFile(),
    help="Default: <run_id>.tar.gz in the working directory.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the manifest.")
def command(run_dir: Path, out: Path | None, as_json: bool) -> None:
    """Pack RUN_DIR with its branches, reports, environment and the model cards of its verified rounds, for `autoqec verify-package`
    on any machine."""
    from autoqec.report.card import cards
    from autoqec.report.run_view import view_run
    from autoqec.runs.package import package_run
    from autoqec.runs.run import Run

    run = Run.open(run_dir)
    target = out or Path(f"{run.run_id}.tar.gz")
    with run.exclusive():
        manifest = package_run(run, target, cards(view_run(run.files.path)))
    if as_json:
        print_json({"archive": str(target), **manifest.model_dump()})
    else:
        click.echo(f"Wrote {target}: {len(manifest.files)} files, {len(manifest.refs) - 1} branches")
