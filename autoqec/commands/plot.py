"""`autoqec plot`: figures for a paper."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from autoqec.commands.named import RunPath
from autoqec.commands.options import Count, OutFile, PlotFile
from autoqec.errors import InputError

if TYPE_CHECKING:
    from autoqec.report.figures.table import FigureTable

_OUT = click.option(
    "--out",
    type=PlotFile(),
    required=True,
    help="File to write; its ending says the format: .pdf, .svg, .png.",
)
_CSV = click.option("--csv", "csv_path", type=OutFile(), help="Write the figure's table as well.")
NAMES = {
    "pareto": "Gain against mean FLOPs.",
    "forest": "Paired differences, with verdicts.",
    "ler": "LER against p, per decoder.",
    "loss": "Training loss against steps.",
    "hypervolume": "Hypervolume of the fronts by round.",
    "stages": "Cascades: shares of the shots by stage, and FLOPs, against p.",
    "latency": "Time per shot.",
}
"""The figures of `report.figures.kinds` that runs alone give; it is not imported for --help."""
_FRESH = 100_000


@click.group()
def command() -> None:
    """Draw a figure of runs, as one would put it into a paper.

    Colours can be told apart by colour-blind readers, fonts are embedded, titles name the environment and p.
    """


def _plot(name: str, run_dirs: tuple[Path, ...], out: Path, csv_path: Path | None) -> None:
    from autoqec.report.figures.kinds import KINDS
    from autoqec.report.run_view import view_run

    kind = KINDS[name]
    data = kind.table([view_run(folder) for folder in run_dirs])
    if not data.rows:
        raise InputError(
            f"there is nothing to plot: {kind.missing}",
            where=str(run_dirs[0]),
            hint="autoqec review says how far a run is",
        )
    _write(data, kind.draw, out, csv_path)


def _add(name: str, about: str) -> None:
    @command.command(name, short_help=about, help=f"{about} Several runs share one figure.")
    @click.argument("run_dirs", nargs=-1, required=True, type=RunPath(file_okay=False))
    @_OUT
    @_CSV
    def one(run_dirs: tuple[Path, ...], out: Path, csv_path: Path | None) -> None:
        _plot(name, run_dirs, out, csv_path)


for _name, _about in NAMES.items():
    _add(_name, _about)


@command.command()
@click.argument("folders", nargs=-1, required=True, type=RunPath(file_okay=False))
@click.option(
    "--shots",
    type=Count(min=100),
    help="Decode so many fresh shots with the rounds, whatever their reports say. [default: 100000 for a round without one]",
)
@_OUT
@_CSV
def calibration(folders: tuple[Path, ...], shots: int | None, out: Path, csv_path: Path | None) -> None:
    """Is a predecoder right as often as it says, and what is the LER once the least sure shots are discarded?

    Of runs (ID), by the reports of their verified rounds; of rounds (ID/round_3), by their reports or, where there is none, on fresh
    shots.
    """
    from autoqec.finds.predecoder import load_predecoder
    from autoqec.layout import RoundDir
    from autoqec.report.figures import calibration as figure

    rounds = [folder for folder in folders if RoundDir(folder).checkpoint.exists()]
    if not rounds:
        _plot("calibration", folders, out, csv_path)
        return
    if len(rounds) < len(folders):
        raise InputError("got runs and rounds", where="folders", hint="give runs, or rounds of them")
    reported = [folder for folder in rounds if shots is None and figure.is_reported(folder)]
    finds = [load_predecoder(folder, name=_named(folder)) for folder in rounds if folder not in reported]
    _write(figure.table_of_rounds(reported, finds, shots or _FRESH), figure.draw, out, csv_path)


def _named(folder: Path) -> str:
    path = folder.resolve()
    return f"{path.parent.name}, {path.name.replace('_', ' ')}"


def _write(data: FigureTable, draw: Callable[[FigureTable], Any], out: Path, csv_path: Path | None) -> None:
    from autoqec.io import atomic, figures

    figures.save(draw(data), out)
    click.echo(f"Wrote {out}")
    if csv_path is not None:
        atomic.write_text(csv_path, data.to_csv())
        click.echo(f"Wrote {csv_path}")
