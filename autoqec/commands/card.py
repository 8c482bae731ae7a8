"""`autoqec card`: the model card of a verified round."""

from __future__ import annotations

from pathlib import Path

import click

from autoqec.commands.named import RunPath
from autoqec.commands.options import OutFile


@click.command()
@click.argument("round_dir", type=RunPath(file_okay=False))
@click.option("--out", type=OutFile(), help="Markdown file to write. Default: print it.")
def command(round_dir: Path, out: Path | None) -> None:
    """The model card of ROUND_DIR (a path, or ID/round_3), in Markdown: what the predecoder is, for which code and noise, verified figures
    with intervals, cost, limits, how to load it and how to reproduce it.

    Only of a round that this machine's verifier says is VERIFIED.
    """
    from autoqec.io import atomic
    from autoqec.report.card import card_of

    text = card_of(round_dir)
    if out is None:
        click.echo(text, nl=False)
    else:
        atomic.write_text(out, text)
        click.echo(f"Wrote {out}")
