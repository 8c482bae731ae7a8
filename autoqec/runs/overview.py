"""The runs of a workspace in a line each. Reads files only, whatever state they are in."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Literal

from autoqec.errors import AutoQECError
from autoqec.io.locks import is_held
from autoqec.io.validate import load_model
from autoqec.layout import RunDir, runs_folder
from autoqec.runs.backing import report_behind
from autoqec.runs.history import HistoryStore, check_size, rounds_of
from autoqec.runs.plan import read_plan
from autoqec.runs.run_info import RunInfo

State = Literal["running", "complete", "unfinished", "unreadable"]


@dataclass(frozen=True)
class RunLine:
    """rounds: recorded ones. rounds_planned: None for a run that was made without the loop. verified: rounds whose VERIFIED
    is backed by a report of this machine's verifier; unbacked: those whose is not. best_ratio: the largest of the backed
    reports, LER of the plain backend over the predecoder's. reason: why the run cannot be read."""

    run_id: str
    env: str | None
    created_at: str | None
    state: State
    rounds: int | None = None
    rounds_planned: int | None = None
    verified: int | None = None
    unbacked: int | None = None
    best_ratio: float | None = None
    reason: str | None = None


def overview(workspace: Path) -> list[RunLine]:
    """Newest first; those that cannot be read come last."""
    folders = sorted(path for path in runs_folder(workspace).glob("*") if RunDir(path).about.is_file())
    return newest_first([line_of(RunDir(path)) for path in folders])


def newest_first(lines: Sequence[RunLine]) -> list[RunLine]:
    dated = [line for line in lines if line.created_at is not None]
    return [
        *sorted(dated, key=lambda line: _moment(line.created_at), reverse=True),
        *(line for line in lines if line.created_at is None),
    ]


def line_of(files: RunDir) -> RunLine:
    env = created_at = None
    try:
        info = load_model(files.about, RunInfo)
        env, created_at = info.env, info.created_at if _moment(info.created_at) else None
        check_size(files.history)
        planned = read_plan(files).rounds if files.plan.is_file() else None
        rows = rounds_of(HistoryStore(files).rows())
    except AutoQECError as error:
        return RunLine(files.path.name, env, created_at, "unreadable", reason=str(error))
    ratios, unbacked = [], 0
    for row in rows:
        if row["verdict"] == "VERIFIED":
            try:
                ratios.append(report_behind(files, row).headline.ratio)
            except AutoQECError:
                unbacked += 1
    return RunLine(
        run_id=files.path.name,
        env=env,
        created_at=created_at,
        state=_state(files, len(rows), planned),
        rounds=len(rows),
        rounds_planned=planned,
        verified=len(ratios),
        unbacked=unbacked,
        best_ratio=max((ratio for ratio in ratios if ratio is not None), default=None),
    )


def _state(files: RunDir, rounds: int, planned: int | None) -> State:
    if is_held(files.lock):
        return "running"
    return "complete" if planned is not None and rounds >= planned else "unfinished"


def _moment(text: str | None) -> float:
    """Seconds since 1970; 0 for what is not a time."""
    try:
        return datetime.fromisoformat(text or "").timestamp()
    except (ValueError, OverflowError):
        return 0.0
