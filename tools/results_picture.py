"""The picture of README: what the predecoders of the zoo gain over plain matching or BP+OSD-0, over the best
classical baseline of their environment, and over themselves untrained.

    python tools/results_picture.py

All points are of the verifier's reports, on shots that selected nothing. `python tools/results.py` draws it, too.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from autoqec.finds.zoo import ZooEntry, zoo_entries
from autoqec.report.figures.style import COLOURS, GREY, MARKERS, new_figure

PICTURE = Path(__file__).resolve().parent.parent / "docs" / "figures" / "zoo.png"
KINDS = ("the plain backend", "the best classical baseline", "the same model untrained")


class Point(NamedTuple):
    """LER of the other decoder over that of the predecoder, with its interval."""

    entry: str
    kind: str
    ratio: float
    low: float
    high: float


def points(entries: Sequence[ZooEntry]) -> list[Point]:
    """Of all verified entries, surface codes first, by environment and cost; what has learned nothing has no point beside itself untrained."""
    found = []
    for entry in sorted(
        entries, key=lambda each: (not each.env.startswith("surface"), each.env, each.flops_per_syndrome)
    ):
        estimate = None if entry.report is None or not entry.is_verified else entry.report.estimate
        if estimate is None:
            continue
        rows = [(KINDS[0], estimate), (KINDS[1], estimate.vs_strongest)]
        untrained = estimate.untrained
        if untrained is not None and untrained.b + untrained.c:
            rows.append((KINDS[2], untrained))
        label = f"{entry.name}, {entry.flops_per_syndrome / 1e6:.2g} MFLOP"
        for kind, row in rows:
            if row is not None and row.ratio is not None and None not in (row.ratio_ci or (None,)):
                low, high = row.ratio_ci
                found.append(Point(label, kind, row.ratio, float(low or 0.0), float(high or 0.0)))
    return found


def draw(entries: Sequence[ZooEntry], path: Path) -> None:
    shown = points(entries)
    names = list(dict.fromkeys(point.entry for point in shown))[::-1]
    figure = new_figure(8.2, 0.9 + 0.42 * len(names))
    axes = figure.subplots()
    for place, kind in enumerate(KINDS):
        of_kind = [point for point in shown if point.kind == kind]
        ratios = [point.ratio for point in of_kind]
        axes.errorbar(
            ratios,
            [names.index(point.entry) + 0.2 * (1 - place) for point in of_kind],
            xerr=[
                [point.ratio - point.low for point in of_kind],
                [point.high - point.ratio for point in of_kind],
            ],
            fmt=MARKERS[place],
            color=COLOURS[place],
            markersize=5,
            linewidth=1.4,
            label=f"over {kind}",
        )
    axes.axvline(1.0, color=GREY, linewidth=0.8)
    end = 1.05 * max((point.high for point in shown), default=2.0)
    ticks = [tick for tick in (1, 1.25, 1.5, 2, 3, 5, 7, 10, 14, 20, 30, 50) if tick <= end]
    axes.set(xscale="log", yticks=range(len(names)), xlim=(0.95, end))
    axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    axes.minorticks_off()
    axes.set_yticklabels(names, fontsize=8)
    axes.set_xlabel("LER of the other decoder / LER of the predecoder, same shots, 95% intervals", fontsize=8)
    axes.grid(axis="x", color="#e0e0e0", linewidth=0.6)
    axes.legend(fontsize=8, loc="upper right")
    figure.savefig(path, dpi=140)


if __name__ == "__main__":
    draw(zoo_entries(), Path(sys.argv[1] if len(sys.argv) > 1 else PICTURE))
