"""The runs of one folder for a server: found by their names, read at most once for each change, and nothing outside the folder."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from autoqec.errors import AutoQECError, InputError
from autoqec.io.locks import is_held
from autoqec.layout import RunDir, is_run_id
from autoqec.report.figures.kinds import KINDS
from autoqec.report.figures.ler import lambdas
from autoqec.report.page.data import SHOWN, headline, page_data
from autoqec.report.progress import progress, signature
from autoqec.report.reading import quote
from autoqec.report.run_view import RunView, view_run
from autoqec.runs.overview import RunLine, line_of, newest_first

Data = dict[str, Any]
MOST_COMPARED = 8
_MOST_FILES = 20_000


class NoSuchRun(InputError):
    """The folder has no run of that name."""


class Shelf:
    """folder: holds the runs. Threads may share it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder.resolve()
        self._kept: dict[tuple[str, str], tuple[Any, Any]] = {}
        self._lock = threading.Lock()
        self._locks: dict[Path, tuple[int, bool]] = {}

    def runs(self) -> Data:
        """All runs, newest first; one that cannot be read says why."""
        lines = [self._once("line", name, self._line) for name in self._names()]
        return {"runs": [_shown(line) for line in newest_first(lines)]}

    def page(self, name: str) -> Data:
        """What the page of a run shows."""
        return dict(self._once("page", self._checked(name), self._page))

    def comparison(self, names: Sequence[str]) -> Data:
        if not 2 <= len(set(names)) <= MOST_COMPARED:
            raise InputError(f"give 2 to {MOST_COMPARED} runs to compare", where="run")
        views = [self._once("view", self._checked(name), self._view) for name in dict.fromkeys(names)]
        tables = {kind: KINDS[kind].table(views) for kind in SHOWN}
        tables["lambda"] = lambdas(tables["ler"])
        several = len({view.heading for view in views}) > 1
        return {
            "runs": [view.run_id for view in views],
            "best": [_best(view) for view in views],
            "figures": {kind: table.to_dict() for kind, table in tables.items() if table.rows},
            "note": "These runs are of different environments or error rates: their gains are not one scale."
            if several
            else None,
        }

    def signature(self, name: str) -> Any:
        """Changes when the page of the run would."""
        return self._signature(self._files(name))

    def list_signature(self) -> Any:
        return tuple((name, self._signature(RunDir(self.folder / name))) for name in self._names())

    def _signature(self, files: RunDir) -> Any:
        return signature(files), self._is_running(files.lock)

    def _is_running(self, lock: Path) -> bool:
        """Asks the kernel only while the answer may have changed: a question about a free lock holds it for a moment, and a run that
        starts in that moment would be refused. Who takes the lock writes into its file."""
        try:
            written = lock.lstat().st_mtime_ns
        except OSError:
            return False
        if self._locks.get(lock) != (written, False):
            self._locks[lock] = written, is_held(lock)
        return self._locks[lock][1]

    def _names(self) -> list[str]:
        with os.scandir(self.folder) as entries:
            found = [entry.name for entry in entries if entry.is_dir(follow_symlinks=False)]
        return sorted(name for name in found if RunDir(self.folder / name).about.is_file())

    def _files(self, name: str) -> RunDir:
        """The run of this name; the name is not a path, and its folder is not a link."""
        files = RunDir(self.folder / name) if is_run_id(name) else None
        if files is None or files.path.is_symlink() or not files.about.is_file():
            raise NoSuchRun("there is no such run", where="run")
        return files

    def _checked(self, name: str) -> str:
        check_inside(self._files(name).path)
        return name

    def _once(self, what: str, name: str, make: Callable[[RunDir], Any]) -> Any:
        """Made again only when the run has changed since; one reader at a time."""
        files = RunDir(self.folder / name)
        with self._lock:
            seen = self._signature(files), files.path.stat().st_mtime_ns
            kept = self._kept.get((what, name))
            if kept is None or kept[0] != seen:
                kept = seen, make(files)
                self._kept[what, name] = kept
            return kept[1]

    def _line(self, files: RunDir) -> RunLine:
        try:
            check_inside(files.path)
            return line_of(files)
        except (AutoQECError, OSError) as error:
            return RunLine(files.path.name, None, None, "unreadable", reason=str(error))

    def _view(self, files: RunDir) -> RunView:
        return view_run(files.path)

    def _page(self, files: RunDir) -> Data:
        view = view_run(files.path)
        return {**page_data(view), "progress": progress(view)}


def check_inside(folder: Path) -> None:
    """
    Raises:
        InputError: something in the folder is a link, which could lead out of it, or there is more than any run leaves.
    """
    count = 0
    for here, folders, names in os.walk(folder):
        for name in (*folders, *names):
            count += 1
            if os.path.islink(os.path.join(here, name)):  # noqa: PTH118, PTH114
                raise InputError(
                    f"has a symbolic link, {quote(name, 60)}, which is not followed", where=folder.name
                )
        if count > _MOST_FILES:
            raise InputError(f"has more than {_MOST_FILES} files", where=folder.name)


def _shown(line: RunLine) -> Data:
    told = asdict(line)
    return {key: quote(value) if isinstance(value, str) else value for key, value in told.items()}


def _best(view: RunView) -> list[Any]:
    found = headline(view)
    return [
        view.run_id,
        view.heading,
        None if found is None else found["round"],
        None if found is None else found["sentence"],
    ]
