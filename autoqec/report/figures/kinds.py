"""The figures that are made from run folders alone, by name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from autoqec.report.figures import calibration, forest, hypervolume, latency, ler, loss, pareto, stages
from autoqec.report.figures.table import FigureTable
from autoqec.report.run_view import RunView


class Kind(NamedTuple):
    """missing: why a run has nothing to show."""

    missing: str
    table: Callable[[Sequence[RunView]], FigureTable]
    draw: Callable[[FigureTable], Any]


KINDS: dict[str, Kind] = {
    "pareto": Kind("no round has a gain and a cost yet", pareto.table, pareto.draw),
    "forest": Kind("no round has a difference yet", forest.table, forest.draw),
    "ler": Kind("no round was measured yet", ler.table, ler.draw),
    "loss": Kind("no round has a train.log with losses", loss.table, loss.draw),
    "hypervolume": Kind("no round is recorded yet", hypervolume.table, hypervolume.draw),
    "calibration": Kind(
        "no verified round on the front has a confidence", calibration.table, calibration.draw
    ),
    "stages": Kind("no round is a cascade", stages.table, stages.draw),
    "latency": Kind("no round was timed yet", latency.table, latency.draw),
}
