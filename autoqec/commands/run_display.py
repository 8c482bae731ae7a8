"""What a run shows of itself while it works, all on stderr: lines that stay, and on a terminal one bar for what is under way.

In a pipe there is one line for each stage, and no bar.
"""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import click

if TYPE_CHECKING:
    from rich.progress import Progress, Task, TaskID

_LOG_LINE = re.compile(rb"(\d{1,9})\t([-+.\deE]{1,20})\n")
_TAIL = 200


class RunDisplay:
    """Its `event` and `progress` are what a run calls. A new stage takes the bars of the last one away.

    run_id: of the run, once it is there.
    """

    def __init__(self) -> None:
        self.run_id: str | None = None
        self._bar: Progress | None = _bar() if sys.stderr.isatty() else None
        self._tasks: dict[str, TaskID] = {}

    def __enter__(self) -> Self:
        if self._bar is not None:
            self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._clear()
            self._bar.stop()

    def progress(self, what: str, done: int, total: int) -> None:
        """Of the verification: (what, tasks done, tasks there are)."""
        if what == "compiling kernels" and done == 0:
            self._line("  compiling kernels, once on this machine")
        if self._bar is not None:
            if what not in self._tasks:
                self._tasks[what] = self._bar.add_task(what, total=total)
            self._bar.update(self._tasks[what], completed=done, total=total)

    def event(self, what: str, facts: dict[str, Any]) -> None:
        self._clear()
        if what == "started":
            self.run_id = facts["run_id"]
        for line in _lines(what, facts):
            self._line(line)
        if self._bar is not None and what in ("training", "compiling", "round"):
            stage = {"round": "proposing"}.get(what, what)
            log = Path(facts["round_dir"]) if what == "training" else None
            self._tasks[stage] = self._bar.add_task(stage, total=None, round_dir=log)

    def _clear(self) -> None:
        for task in self._tasks.values():
            if self._bar is not None:
                self._bar.remove_task(task)
        self._tasks = {}

    def _line(self, text: str) -> None:
        if self._bar is None:
            click.echo(text, err=True)
        else:
            self._bar.console.print(text, markup=False, highlight=False)


def _bar() -> Progress:
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        ProgressColumn,
        TextColumn,
        TimeElapsedColumn,
    )
    from rich.text import Text

    class Steps(ProgressColumn):
        """Of a training: its last step and loss, read off its log; else tasks done."""

        max_refresh = 0.5
        _of_tasks = MofNCompleteColumn()

        def render(self, task: Task) -> Text:
            folder = task.fields.get("round_dir")
            if folder is not None:
                return Text(last_step(folder) or "")
            return Text("") if task.total is None else self._of_tasks.render(task)

    return Progress(
        TextColumn("  {task.description}"), BarColumn(bar_width=20), Steps(), TimeElapsedColumn(),
        console=Console(stderr=True), transient=True,
    )  # fmt: skip


def last_step(round_dir: Path) -> str | None:
    """Of a training that may be under way, behind walls or not; None before its first step. Its log is not trusted: only numbers are
    taken from its end."""
    from autoqec.layout import RoundDir

    files = RoundDir(round_dir)
    for log in (RoundDir(files.confined).train_log, files.train_log):
        try:
            handle = os.open(log, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError:
            continue
        with os.fdopen(handle, "rb") as file:
            try:
                file.seek(max(os.fstat(handle).st_size - _TAIL, 0))
                found = _LOG_LINE.findall(file.read(_TAIL))
            except OSError:
                continue
        if found:
            step, loss = (part.decode() for part in found[-1])
            return f"step {step}, loss {loss}"
    return None


def _lines(what: str, facts: dict[str, Any]) -> list[str]:
    """What a watcher wants to know."""
    from autoqec.agents.fences import one_line
    from autoqec.agents.graph_text import gain

    if what == "note":
        return [facts["text"]]
    if what == "started":
        return [f"Run {facts['run_id']}: {facts['run_dir']}"]
    if what == "in order":
        repaired = [f"repaired: {kind.replace('_', ' ')} {target}" for kind, target in facts["actions"]]
        return [*repaired, *(f"resuming: {line}" for line in facts["in_flight"])]
    if what == "round":
        return [f"Round {facts['round']} (of {facts['planned']} planned)"]
    if what == "proposed":
        return [f"  {one_line(facts['hypothesis'], 200)}"]
    if what == "compiling":
        return ["  compiling kernels, once on this machine"]
    if what == "training":
        return ["  training"]
    if what == "trained":
        failed = facts["status"] != "ok"
        result = f"{facts['status']}: {one_line(str(facts['status_reason']), 200)}" if failed else gain(facts)
        over = "; over budget" if facts.get("over_budget") else ""
        return [f"  trained {facts['train_wallclock_s']:.0f} s: {result}{over}"]
    if what == "verifying":
        return ["  verifying on fresh shots"]
    if what == "recorded":
        ratio = (facts.get("verification") or {}).get("ratio")
        ratio_text = f", ratio {ratio:.3f} on fresh shots" if ratio else ""
        reason = (
            "" if facts["status"] == "ok" else f": {one_line(str(facts.get('status_reason') or ''), 200)}"
        )
        return [f"  {facts.get('verdict') or facts['status'] + reason}{ratio_text}; front: {facts['front']}"]
    return []
