"""`history.jsonl`: one row per attempt, never edited; `history.json` is the same as one array."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, create_model, field_validator

from autoqec.errors import InputError
from autoqec.io import atomic
from autoqec.io.jsonl import JsonLines, Row
from autoqec.io.validate import validate_model
from autoqec.layout import RunDir
from autoqec.runner.schema import RECONCILED, RoundMetrics
from autoqec.runs.names import parse_branch
from autoqec.stats.target import Target

Verdict = Literal["candidate", "ignore", "VERIFIED", "SUSPICIOUS", "FAILED"]
FOLLOW_UPS = RECONCILED
"""Rows that say what became of a branch; a branch has one of each."""


MAX_BYTES = 256 << 20
"""Of a history that is read to be shown: thousands of rounds."""


def check_size(path: Path) -> None:
    """
    Raises:
        InputError: the file is larger than any history.
    """
    if path.is_file() and path.stat().st_size > MAX_BYTES:
        raise InputError(f"is larger than {MAX_BYTES >> 20} MiB", where=str(path))


class Verification(BaseModel):
    """The figures of a verification that are read again."""

    model_config = ConfigDict(extra="allow", allow_inf_nan=False)

    ratio: float | None = None
    shots: int | None = None
    target: Target | None = None


class HistoryRow(RoundMetrics):
    """A round as the run remembers it: its metrics, and what the loop knows besides. Further keys are kept.

    verdict: the verifier's where it ran, else the analyst's. Times are UTC, ISO 8601; order is by `round`, never by time.
    """

    model_config = ConfigDict(extra="allow", allow_inf_nan=False)

    round: int | None = Field(default=None, ge=1, lt=10**9)
    hypothesis: str | None = None
    verdict: Verdict | None = None
    started_at: str | None = None
    finished_at: str | None = None
    cost_usd: float | None = Field(default=None, ge=0.0)


class _Additions(BaseModel):
    """What readers of a row rely on besides: that an addition, where it is there, is of its kind."""

    model_config = HistoryRow.model_config

    idea: dict[str, Any] | None = None
    coder: dict[str, Any] | None = None
    analysis: dict[str, Any] | None = None
    origin: dict[str, Any] | None = None
    dsl_config: dict[str, Any] | None = None
    verification: Verification | None = None
    rested_s: float | None = Field(default=None, ge=0.0)

    @field_validator("started_at", "finished_at", check_fields=False)
    @classmethod
    def _is_a_time(cls, text: str | None) -> str | None:
        if text is not None:
            datetime.fromisoformat(text)
        return text


StoredRow = create_model(
    "StoredRow",
    __base__=_Additions,
    **{name: (field.annotation, field) for name, field in HistoryRow.model_fields.items()},  # type: ignore[call-overload]
)
"""A row as it is read: every field that is there is of its type. What fields say of each other is checked when a row is written: rows
of older versions may say less."""


_DEFAULTS = {
    name: field.default for name, field in HistoryRow.model_fields.items() if not field.is_required()
}


def filled(row: Row) -> Row:
    """A row with every optional field, as readers want it; a round without its number has that of its branch."""
    whole = row | {name: default for name, default in _DEFAULTS.items() if name not in row}
    if whole["round"] is None and whole["branch"] is not None:
        with suppress(InputError):  # a branch in quarantine, or one that a person named
            whole["round"] = parse_branch(str(whole["branch"])).round
    return whole


def rounds_of(rows: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The rows of rounds, without those that reconciliation added."""
    return [row for row in rows if row["status"] not in FOLLOW_UPS]


def seconds_of(row: Mapping[str, Any]) -> float:
    """From a round's proposal to its row, without what it lay between two processes; 0 where the clock was set back."""
    started, finished = row.get("started_at"), row.get("finished_at")
    if not started or not finished:
        return 0.0
    passed = _time(finished) - _time(started)
    return max(passed.total_seconds() - float(row.get("rested_s") or 0.0), 0.0)


def _time(text: str) -> datetime:
    found = datetime.fromisoformat(text)
    return found if found.tzinfo is not None else found.replace(tzinfo=UTC)


class HistoryStore:
    """The rows of one run, for any number of processes at once."""

    def __init__(self, files: RunDir) -> None:
        self._lines = JsonLines(files.history, StoredRow)
        self._array = files.history_array
        self._keys: set[tuple[str, str]] = set()
        self._indexed = 0

    def rows(self) -> list[Row]:
        """All rows, each with all fields of `HistoryRow`."""
        return [filled(row) for row in self._lines.rows()]

    def append(self, row: Mapping[str, Any]) -> bool:
        """Validates and writes a row; False if it was recorded before: an attempt has one row, besides follow-ups."""
        checked = validate_model(dict(row), HistoryRow, where="history row")
        data = checked.model_dump(mode="json")
        return self._lines.append(data, unless=lambda rows: self._has(_key(data), rows))

    def of_attempt(self, round_attempt_id: str) -> Row | None:
        """The first row of an attempt."""
        return next((row for row in self.rows() if row["round_attempt_id"] == round_attempt_id), None)

    def of_round(self, number: int) -> Row | None:
        """The row of a round that is over."""
        return next((dict(row) for row in rounds_of(self.rows()) if row["round"] == number), None)

    def publish(self) -> None:
        """Rewrites `history.json` from the rows."""
        atomic.write_text(self._array, json.dumps(self._lines.rows(), indent=1, ensure_ascii=False) + "\n")

    def repair(self) -> bytes:
        """Cuts off a torn last line; returns what it held."""
        return self._lines.repair()

    def torn(self) -> bytes:
        return self._lines.torn()

    def _has(self, key: tuple[str, str] | None, rows: Sequence[Row]) -> bool:
        if len(rows) < self._indexed:
            self._keys, self._indexed = set(), 0
        self._keys.update(found for row in rows[self._indexed :] if (found := _key(row)) is not None)
        self._indexed = len(rows)
        return key in self._keys


def _key(row: Row) -> tuple[str, str] | None:
    """What may be recorded once only."""
    status, branch, attempt = (row.get(name) for name in ("status", "branch", "round_attempt_id"))
    if status in FOLLOW_UPS:
        return str(status), str(branch)
    return None if attempt is None else ("attempt", attempt)
