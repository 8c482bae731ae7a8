"""How figures look on paper: colours that colour-blind readers can tell apart, axes of at least a decade, labels that do not overlap."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from autoqec.errors import UnavailableError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
"""Okabe and Ito's, without the yellow that paper swallows."""
GREY = "#595959"
MARKERS = "osD^vP"
_AROUND = tuple(
    (radius * math.cos(angle), radius * math.sin(angle))
    for radius in (9, 14, 22, 32, 44)
    for angle in (math.pi * n / 4 for n in (1, 7, 0, 3, 5, 2, 6, 4))
)
"""Where a label may stand, in points from its marker, the best place first."""


def new_figure(width: float = 5.6, height: float = 4.2) -> Figure:
    """An empty figure; sizes in inches."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise UnavailableError(
            "plots need matplotlib", where="matplotlib", hint="pip install 'autoqec[plot]'"
        ) from error
    return Figure(figsize=(width, height), layout="constrained")


def log_axis(axes: Axes, which: str, values: Sequence[float]) -> None:
    """A logarithmic axis around positive values that spans a decade at least, with ticks that can be read."""
    from matplotlib.ticker import FuncFormatter, LogLocator

    low, high = (min(values) / 1.35, max(values) * 1.35) if values else (1.0, 10.0)
    if high < 10 * low:
        middle = math.sqrt(low * high)
        low, high = middle / math.sqrt(10), middle * math.sqrt(10)
    axis: Any = getattr(axes, f"{which}axis")
    axes.set(**{f"{which}scale": "log", f"{which}lim": (low, high)})
    decades = math.log10(high / low)
    axis.set_major_locator(LogLocator(10, numticks=8))
    axis.set_minor_locator(LogLocator(10, subs=(2.0, 5.0) if decades < 2.5 else (), numticks=12))
    axis.set_major_formatter(FuncFormatter(lambda value, _: _power(value)))
    axis.set_minor_formatter(FuncFormatter(lambda value, _: _power(value) if decades < 1.6 else ""))
    axis.set_tick_params(which="minor", labelsize=7)


def _power(value: float) -> str:
    exponent = math.floor(math.log10(value) + 1e-9)
    leading = round(value / 10**exponent)
    power = f"10^{{{exponent}}}"
    return f"${power}$" if leading == 1 else rf"${leading}\cdot{power}$"


def label_points(
    axes: Axes, labels: Sequence[tuple[str, float, float]], taken: Sequence[tuple[float, float]] = ()
) -> None:
    """Writes a name beside each point, in data coordinates, where it covers no marker and no other name.

    Limits of the axes are final by now. taken: further points that are not to be covered. A name that fits nowhere near its point is left out: the table has it.
    """
    figure: Any = axes.figure
    figure.draw_without_rendering()
    canvas = figure.canvas
    renderer = canvas.get_renderer() if hasattr(canvas, "get_renderer") else None
    points = [axes.transData.transform((x, y)) for _, x, y in labels]
    others = [axes.transData.transform(each) for each in taken]
    boxes = [(x - 5, y - 5, x + 5, y + 5) for x, y in (*points, *others)]
    frame = axes.get_window_extent()
    for (text, x, y), here in zip(labels, points, strict=True):
        note = axes.annotate(
            text, (x, y), xytext=(0, 0), textcoords="offset points", fontsize=7, ha="center", va="center"
        )
        size = note.get_window_extent(renderer)
        scale = axes.figure.dpi / 72
        for right, up in _AROUND:
            shift = right + math.copysign(size.width / 2 / scale, right) * (abs(right) > 1), up
            middle = here[0] + shift[0] * scale, here[1] + shift[1] * scale
            box = (
                middle[0] - size.width / 2 - 2,
                middle[1] - size.height / 2 - 1,
                middle[0] + size.width / 2 + 2,
                middle[1] + size.height / 2 + 1,
            )
            inside = box[0] > frame.x0 and box[2] < frame.x1 and box[1] > frame.y0 and box[3] < frame.y1
            if inside and not any(_overlap(box, other) for other in boxes):
                note.set_position(shift)
                boxes.append(box)
                break
        else:
            note.remove()


def _overlap(a: Sequence[float], b: Sequence[float]) -> bool:
    return a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3]


def finish(axes: Axes, title: str, *, legend: bool = True, place: str = "best") -> None:
    axes.set_title(title, fontsize=10)
    axes.grid(visible=True, which="major", alpha=0.25)
    if legend and axes.get_legend_handles_labels()[0]:
        axes.legend(fontsize=7.5, loc=place, framealpha=0.85)
