"""A progress bar on a terminal, and nothing in a pipe."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def shots_progress(of: str | None = None) -> Iterator[Callable[[float, int, int], None]]:
    """Yields a callback (p, shots done, shots wanted). of: what they are shots of, where that is not plain."""
    before = "" if of is None else f"{of}, "
    with tasks_progress() as update:
        yield lambda p, done, total: update(f"{before}p = {p:g}", done, total)


@contextmanager
def tasks_progress() -> Iterator[Callable[[str, int, int], None]]:
    """Yields a callback (what, done, wanted)."""
    if not sys.stderr.isatty():
        yield lambda _what, _done, _total: None
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
        tasks: dict[str, object] = {}

        def update(what: str, done: int, total: int) -> None:
            if what not in tasks:
                tasks[what] = bar.add_task(what, total=total)
            bar.update(tasks[what], completed=done, total=total)  # type: ignore[arg-type]

        yield update
