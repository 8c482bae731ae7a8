"""A progress bar on a terminal, and nothing in a pipe."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def shots_progress() -> Iterator[Callable[[float, int, int], None]]:
    """Yields a callback (p, shots done, shots wanted)."""
    if not sys.stderr.isatty():
        yield lambda _p, _done, _total: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    with Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        console=Console(stderr=True),
        transient=True,
    ) as bar:
        tasks: dict[float, object] = {}

        def update(p: float, done: int, total: int) -> None:
            if p not in tasks:
                tasks[p] = bar.add_task(f"p = {p:g}", total=total)
            bar.update(tasks[p], completed=done, total=total)  # type: ignore[arg-type]

        yield update
