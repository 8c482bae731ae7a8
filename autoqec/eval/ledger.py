"""The ledger of confirmations and estimates: append-only, each row chained to the one before it and marked with the secret.

A checkpoint is logged before the shots that judge it exist, and every confirmation that begins counts against its
run's plan, whatever becomes of it: trying again until the shots are kind uses up the run's alpha.

A row without the verifier's mark spends alpha like any other, and is evidence of nothing.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from autoqec.errors import AutoQECError
from autoqec.eval.family import is_lone, shared
from autoqec.eval.secret import Secret
from autoqec.io.hashing import sha256_json
from autoqec.io.jsonl import JsonLines, Row
from autoqec.io.locks import locked
from autoqec.layout import VerifierDir
from autoqec.stats.sequential import TOTAL_ALPHA, confirmation_alpha

_PURPOSE = "ledger"


class _Row(BaseModel):
    """What is read of a row again. An opening says what it may spend."""

    model_config = ConfigDict(extra="allow", allow_inf_nan=False)

    event: str
    previous: str
    alpha: float = Field(default=0.0, ge=0.0)

    @model_validator(mode="after")
    def _spends(self) -> Self:
        if self.event == "opened" and "alpha" not in self.model_fields_set:
            raise ValueError("an opened bundle without its alpha")
        return self


class Share(NamedTuple):
    """before: confirmations before this one, None for shots on which nothing is confirmed. alpha: what it may spend, 0 where
    the plan is used up. opening: the hash of its row."""

    before: int | None
    alpha: float
    opening: str | None = None


class Draw(NamedTuple):
    """An estimate bundle: its name, on which all seeds depend, and how many shots of which labels it has."""

    name: str
    shots: int
    labels: tuple[int, int]


@dataclass(frozen=True)
class Ledger:
    home: VerifierDir

    @cached_property
    def _secret(self) -> Secret:
        return Secret.of(self.home.secret)

    def rows(self) -> list[Row]:
        """All rows; an error if one was changed or taken out."""
        rows = JsonLines(self.home.ledger, _Row).rows()
        previous = ""
        for number, row in enumerate(rows, start=1):
            if row.get("previous") != previous:
                raise AutoQECError(
                    f"row {number} does not follow from the one before it: the ledger was changed",
                    where=str(self.home.ledger),
                    hint="restore it from a backup; a new one in its place would forget what was spent",
                )
            previous = sha256_json(row)
        return rows

    def wrote(self, report: str, checkpoint: str, family: str | None) -> Row | None:
        """The row that says that this verifier wrote the verification_report.json of that SHA-256, to the byte, on a checkpoint
        and on alpha of that family (None: of a round that stands alone), in a confirmation that was opened before."""
        rows = list(self._marked())
        openings = {sha256_json(row): row for row in rows if _is(row, "opened", checkpoint)}
        for row in rows:
            of = row.get("family")
            own = is_lone(of) if family is None else shared(of, family)
            opening = openings.get(str(row.get("opening")))
            if own and _is(row, "judged", checkpoint) and row.get("report") == report and opening is not None:
                return row
        return None

    def add(self, event: str, **facts: Any) -> None:
        with locked(self.home.lock):
            self._append(self.rows(), event, facts)

    def open(self, family: str, checkpoint: str, *, kind: str, confirmations: int, **facts: Any) -> Share:
        """Logs a bundle before its first shot; returns what the confirmation of a checkpoint on it may spend.

        confirmations: planned for the run; the key `rounds` of the row. A plan that is changed midway gets no more than is left.
        """
        with locked(self.home.lock):
            rows = self.rows()
            before, spent = _spent(rows, family, checkpoint)
            alpha = min(confirmation_alpha(confirmations, before), max(TOTAL_ALPHA - spent, 0.0))
            named = {
                "kind": kind,
                "rounds": confirmations,
                "family": family,
                "checkpoint": checkpoint,
                "alpha": alpha,
            }
            opening = self._append(rows, "opened", {**named, **facts})
        return Share(before, alpha, opening)

    def draw_estimate(self, family: str, checkpoint: str, env: str, wanted: Draw) -> Draw:
        """The one estimate bundle of a checkpoint in an environment: as wanted if it is the first, else the one that was
        drawn before. A second draw would be a choice between two figures."""
        with locked(self.home.lock):
            rows = self.rows()
            for row in self._marked(rows):
                if _is(row, "opened", checkpoint) and (row.get("kind"), row.get("env")) == ("estimate", env):
                    return Draw(row["name"], row["shots"], (row["labels"][0], row["labels"][1]))
            facts = {"kind": "estimate", "family": family, "checkpoint": checkpoint, "env": env, "alpha": 0.0}
            self._append(rows, "opened", {**facts, **wanted._asdict(), "labels": list(wanted.labels)})
        return wanted

    def _marked(self, rows: list[Row] | None = None) -> Iterator[Row]:
        """The rows that bear the verifier's mark."""
        for row in self.rows() if rows is None else rows:
            if self._secret.wrote(_PURPOSE, _content(row), row.get("mark")):
                yield row

    def _append(self, rows: list[Row], event: str, facts: dict[str, Any]) -> str:
        """Returns the hash of the new row."""
        previous = sha256_json(rows[-1]) if rows else ""
        row = {"event": event, "time": time.time(), "previous": previous, **facts}
        row["mark"] = self._secret.mark(_PURPOSE, _content(row))
        JsonLines(self.home.ledger).append(row)
        return sha256_json(row)


def _content(row: Row) -> str:
    return sha256_json({name: value for name, value in row.items() if name != "mark"})


def _is(row: Row, event: str, checkpoint: str) -> bool:
    return (row.get("event"), row.get("checkpoint")) == (event, checkpoint)


def _spent(rows: list[Row], family: str, checkpoint: str) -> tuple[int, float]:
    """Confirmations started in a family, or for this very checkpoint in any other, and their alpha."""
    alphas = [
        float(row["alpha"])
        for row in rows
        if row.get("event") == "opened"
        and row.get("kind") == "confirm"
        and (shared(row.get("family"), family) or row.get("checkpoint") == checkpoint)
    ]
    return len(alphas), sum(alphas)
