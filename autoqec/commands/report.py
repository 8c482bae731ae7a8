"""`autoqec report`: a run as one HTML page."""

from __future__ import annotations

from pathlib import Path

import click

from autoqec.commands.named import RunPath
from autoqec.commands.options import OutFile


@click.command()
@click.argument("run_dir", type=RunPath(file_okay=False))
@click.option("--out", type=OutFile(), help="Default: <run_id>.html in the working directory.")
@click.option("--open", "is_opened", is_flag=True, help="Show it in the browser.")
def command(run_dir: Path, out: Path | None, is_opened: bool) -> None:
    """Write RUN_DIR as one HTML file: headline, front, paired differences, LER against p, fork graph, and every round.

    The file needs nothing else: no network, no server. All figures have their tables and CSV. Nothing in the run's folder is changed.
    """
    from autoqec.io import atomic
    from autoqec.report.page.data import page_data
    from autoqec.report.page.html import REPORT, page
    from autoqec.report.run_view import view_run

    data = page_data(view_run(run_dir))
    target = out or Path(f"{run_dir.resolve().name}.html")
    atomic.write_text(target, page(f"{data['run_id']}: {data['heading']}", data, REPORT))
    click.echo(f"Wrote {target}")
    if is_opened:
        click.launch(str(target))
