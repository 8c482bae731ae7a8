"""What a run is doing now: rounds in flight, their losses, what is spent, the end of the log."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from autoqec.agents.fences import clean
from autoqec.errors import AutoQECError
from autoqec.layout import RunDir
from autoqec.report.figures.loss import thinned
from autoqec.report.reading import quote, text_of
from autoqec.report.run_view import RunView
from autoqec.runs.journal import Journal, open_journals

Data = dict[str, Any]
_LINES = 20
_MAX_LINE = 200


def progress(view: RunView) -> Data:
    """state, rounds, planned, budget in words, the rounds in flight, and the end of the log."""
    flights = _in_flight(view)
    return {
        "state": view.state,
        "rounds": len(view.rounds),
        "planned": None if view.plan is None else view.plan.rounds,
        "budget": budget(view),
        "in_flight": flights,
        "log": log_tail(view, flights[-1]["round"] if flights else None),
    }


def budget(view: RunView) -> str:
    """Time and money that are spent, and what there is."""
    minutes = sum(one.seconds for one in view.rounds) / 60
    most = None if view.plan is None else view.plan.budget_minutes
    told = f"{minutes:.1f} minutes of rounds" + ("" if most is None else f" of {most:g}")
    spent, usd = view.record.spent_usd, None if view.plan is None else view.plan.budget_usd
    if spent is not None or usd is not None:
        told += f"; ${spent or 0.0:.2f}" + ("" if usd is None else f" of ${usd}")
    return told


def _in_flight(view: RunView) -> list[Data]:
    recorded = {one.row.get("round_attempt_id") for one in view.rounds}
    try:
        journals = [file.journal for file in open_journals(view.files)]
    except (AutoQECError, OSError):
        return []  # one that is being written, or that somebody wrote
    found = []
    for journal in journals:
        if journal.round_attempt_id in recorded:
            continue
        curve = view.loss(journal.round)
        found.append(
            {
                "round": journal.round,
                "hypothesis": quote(journal.proposal.hypothesis),
                "stage": _stage(view.files, journal),
                "last": f"step {curve.steps[-1]}, loss {curve.losses[-1]:.4g}" if curve.steps else None,
                "loss": [[step, float(f"{loss:.5g}")] for step, loss in thinned(curve)],
            }
        )
    return found


def _stage(files: RunDir, journal: Journal) -> str:
    """How far it is, by what it has left."""
    if files.round(journal.round).report.exists():
        return "being recorded"
    if files.round(journal.round).metrics.exists():
        return "being analysed and verified"
    if journal.training:
        return "training and validation"
    return "being prepared" if journal.config is None else "about to be trained"


def log_tail(view: RunView, in_flight: int | None) -> str:
    """The last lines of the round that is under way, else of the run's log."""
    for path in _logs(view.files, in_flight):
        if text := text_of(path, [], needed=False):
            lines = [line[:_MAX_LINE] for line in clean(text).rstrip().splitlines()[-_LINES:]]
            return "\n".join(lines)
    return ""


def _logs(files: RunDir, in_flight: int | None) -> list[Path]:
    return [*([] if in_flight is None else [files.round(in_flight).output]), files.log]


def signature(files: RunDir) -> tuple[Any, ...]:
    """Changes when a page of the run would: by the sizes and times of the files that say how far it is."""
    watched = [files.history, files.pareto, files.plan, files.log, files.lock]
    for number in files.rounds()[-2:]:
        one = files.round(number)
        watched += [one.train_log, type(one)(one.confined).train_log, one.metrics, one.report, one.output]
    watched += sorted(files.in_flight.glob("round_*.json"))
    return tuple(map(_seen, watched))


def _seen(path: Path) -> tuple[str, int, int] | None:
    try:
        found = path.lstat()
    except OSError:
        return None
    return path.name, found.st_size, found.st_mtime_ns
