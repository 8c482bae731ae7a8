"""The diagnosis of a whole run: every round that is not healthy, and what happens again and again."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from autoqec.decoders.dsl_schema import PredecoderDSL
from autoqec.errors import InputError
from autoqec.layout import RunDir
from autoqec.report.diagnose import surroundings
from autoqec.report.diagnose.case import read_case
from autoqec.report.diagnose.finding import HEALTHY, Diagnosis
from autoqec.report.diagnose.round import diagnosis
from autoqec.report.reading import Gaps, Row, history_of, number
from autoqec.search.distance import counted


@dataclass(frozen=True)
class Pattern:
    """A root cause of several rounds. in_a_row: the longest streak. shared: options that all of them have and no healthy round has."""

    cause: str
    rounds: tuple[int, ...]
    in_a_row: int
    shared: dict[str, Any]


@dataclass(frozen=True)
class RunDiagnosis:
    path: str
    rounds: tuple[Diagnosis, ...]
    patterns: tuple[Pattern, ...]
    gaps: tuple[str, ...]

    @property
    def unhealthy(self) -> tuple[Diagnosis, ...]:
        return tuple(one for one in self.rounds if not one.is_healthy)

    @property
    def causes(self) -> dict[str, int]:
        """How many rounds have each root cause, the most frequent first."""
        return dict(Counter(one.cause for one in self.rounds).most_common())

    def to_dict(self) -> dict[str, Any]:
        return {
            "run_dir": self.path,
            "healthy": not self.unhealthy,
            "rounds": len(self.rounds),
            "causes": self.causes,
            "patterns": [asdict(pattern) for pattern in self.patterns],
            "unhealthy": [one.to_dict() for one in self.unhealthy],
            "running": [one.round for one in self.rounds if one.running],
            "gaps": list(self.gaps),
        }


def is_run(folder: Path) -> bool:
    files = RunDir(folder)
    return files.about.is_file() or files.history.is_file() or bool(files.rounds())


def diagnose_run(folder: Path, *, env: str | None = None, only: set[int] | None = None) -> RunDiagnosis:
    """only: the numbers of the rounds to look at; all by default.

    Raises:
        InputError: the folder holds no run.
    """
    if not is_run(folder):
        raise InputError(
            "holds no run" if folder.is_dir() else "is not a folder",
            where=str(folder),
            hint="give the folder of a run, with history.jsonl or round_<N> folders",
        )
    files = RunDir(folder.resolve())
    gaps: Gaps = []
    rows = history_of(files, gaps)
    around = surroundings.of_run(files, gaps, env=surroundings.checked_env(env))
    known = around if around.name is not None else None  # else each round says for itself
    of_round: dict[int, Row] = {}
    for row in rows:
        of_round.setdefault(number(row.get("round")) or 0, row)
    of_round.pop(0, None)
    numbers = sorted({*of_round, *files.rounds()})
    rounds = tuple(
        diagnosis(read_case(files.round(n), row=of_round.get(n), run=files, around=known))
        for n in numbers
        if only is None or n in only
    )
    return RunDiagnosis(str(folder), rounds, tuple(_patterns(rounds)), tuple(gaps))


def _patterns(rounds: tuple[Diagnosis, ...]) -> list[Pattern]:
    found = []
    healthy = [options for one in rounds if one.is_healthy and (options := _options(one))]
    for cause, times in Counter(one.cause for one in rounds if one.cause != HEALTHY).most_common():
        alike = [one for one in rounds if one.cause == cause]
        if times > 1:
            numbers = tuple(one.round or 0 for one in alike)
            found.append(Pattern(cause, numbers, _streak(rounds, cause), _shared(alike, healthy)))
    return found


def _streak(rounds: tuple[Diagnosis, ...], cause: str) -> int:
    best = length = 0
    for one in rounds:
        length = length + 1 if one.cause == cause else 0
        best = max(best, length)
    return best


def _shared(alike: list[Diagnosis], healthy: list[dict[str, Any]]) -> dict[str, Any]:
    all_options = [_options(one) for one in alike]
    if not all(all_options):
        return {}
    first = all_options[0]
    return (
        {
            name: value
            for name, value in first.items()
            if not isinstance(value, dict)
            and all(options.get(name) == value for options in all_options)
            and all(options.get(name) != value for options in healthy)
        }
        if healthy
        else {}
    )


def _options(one: Diagnosis) -> dict[str, Any]:
    try:
        return counted(PredecoderDSL.model_validate(one.config or {}))
    except ValidationError:
        return {}
