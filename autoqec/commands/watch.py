"""`autoqec watch`: a run in the terminal."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from autoqec.commands.named import RunPath
from autoqec.commands.options import Number

if TYPE_CHECKING:
    from rich.console import Group

    from autoqec.report.run_view import RunView

_WIDTH = 80
_ROUNDS = 8
_BARS = "▁▂▃▄▅▆▇█"


@click.command()
@click.argument("run_dir", type=RunPath(file_okay=False))
@click.option(
    "--every",
    type=Number(min=0.2, max=3600),
    default=2.0,
    show_default=True,
    help="Seconds between two looks.",
)
@click.option("--once", is_flag=True, help="Show it once and end.")
def command(run_dir: Path, every: float, once: bool) -> None:
    """Watch RUN_DIR: rounds, the best verified one, the training under way, what is spent, and the end of the log.

    It reads the run's folder and changes nothing. It ends with the run, or by Ctrl-C. In a pipe it shows the run once.
    """
    from rich.console import Console
    from rich.live import Live

    from autoqec.layout import RunDir
    from autoqec.report.progress import signature
    from autoqec.report.run_view import view_run

    console = Console(width=min(_WIDTH, Console().width), highlight=False)
    seen = signature(RunDir(run_dir))  # before it is read: what changes meanwhile is seen at the next look
    view = view_run(run_dir)
    if once or not sys.stdout.isatty():
        console.print(picture(view))
        return
    try:
        with Live(picture(view), console=console, auto_refresh=False, screen=False) as live:
            while view.state == "running":
                time.sleep(every)
                now = signature(RunDir(run_dir))
                if now != seen:
                    seen, view = now, view_run(run_dir)
                    live.update(picture(view), refresh=True)
            live.update(picture(view_run(run_dir)), refresh=True)
    except KeyboardInterrupt:
        return


def picture(view: RunView) -> Group:
    """The run in at most 80 columns."""
    from rich.console import Group
    from rich.rule import Rule
    from rich.text import Text

    from autoqec.report.progress import progress

    now = progress(view)
    planned = f" of {now['planned']}" if now["planned"] else ""
    parts: list[Any] = [
        Rule(Text(f"{view.run_id}: {view.heading}"), align="left"),
        Text(
            f"{now['state']}: {now['rounds']}{planned} rounds, {now['budget']}",
            overflow="ellipsis",
            no_wrap=True,
        ),
        *_best(view),
        _rounds(view),
    ]
    for one in now["in_flight"]:
        parts.append(
            Text(
                f"round {one['round']}: {one['stage']}. {one['hypothesis']}",
                overflow="ellipsis",
                no_wrap=True,
            )
        )
        if one["last"]:
            parts.append(Text(f"  {one['last']}  {spark([loss for _, loss in one['loss']])}"))
    if now["log"]:
        parts.append(Rule("end of the log", align="left"))
        told = [line for line in now["log"].splitlines() if line.strip()]
        parts += [Text(line, overflow="ellipsis", no_wrap=True) for line in told[-6:]]
    return Group(*parts)


def _best(view: RunView) -> list[Any]:
    from rich.text import Text

    from autoqec.report.page.data import headline

    found = headline(view)
    return [
        Text(
            "no round is verified yet"
            if found is None
            else f"best: round {found['round']}: {found['sentence']}"
        )
    ]


def _rounds(view: RunView) -> Any:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, expand=True)
    for name, width in (("round", 5), ("verdict", 11), ("gain", 9), ("FLOPs", 8)):
        justify: Any = "left" if name == "verdict" else "right"
        table.add_column(name, justify=justify, no_wrap=True, overflow="ellipsis", min_width=width)
    table.add_column("hypothesis", no_wrap=True, overflow="ellipsis", ratio=1)
    members = {row.round for row in view.record.archive.front}
    for one in view.rounds[-_ROUNDS:]:
        gain = "-" if one.delta is None else f"{one.delta:+.2g}"
        flops = "-" if one.costs is None else f"{one.costs[0]:.2g}"
        verdict = (one.verdict or one.status) if one.is_ok else one.status
        cells = (f"{one.number}{'*' if one.number in members else ' '}", verdict, gain, flops, one.hypothesis)
        table.add_row(*map(Text, cells))
    return table


def spark(values: list[float], width: int = 40) -> str:
    """A curve in one line."""
    step = -(-len(values) // width) or 1
    shown = values[::step]
    if not shown:
        return ""
    low, high = min(shown), max(shown)
    return "".join(_BARS[int((value - low) / ((high - low) or 1.0) * (len(_BARS) - 1))] for value in shown)
