"""The ledger of confirmations: append-only, each row chained to the one before it.

A checkpoint is logged before the shots that judge it exist, and every confirmation that begins counts against its
run's plan, whatever becomes of it: trying again until the shots are kind uses up the run's alpha.
"""

from __future__ import annotations

import re
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from autoqec.errors import AutoQECError
from autoqec.io.hashing import sha256_json
from autoqec.io.jsonl import JsonLines
from autoqec.io.locks import locked
from autoqec.layout import VerifierDir
from autoqec.stats.sequential import TOTAL_ALPHA, confirmation_alpha

_RUN_ID = re.compile(r"\d{8}-\d{6}")


def family_of(round_dir: Path) -> str:
    """What shares one plan of confirmations: the run that holds the round, or a round that stands alone."""
    path = round_dir.resolve()
    return str(path.parent if _RUN_ID.fullmatch(path.parent.name) else path)


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
    the plan is used up."""

    before: int | None
    alpha: float


@dataclass(frozen=True)
class Ledger:
    home: VerifierDir

    def rows(self) -> list[dict[str, Any]]:
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

    def verdict_of(self, checkpoint: str, bundle: str) -> str | None:
        """What was judged of a checkpoint on a bundle."""
        judged = [
            row
            for row in self.rows()
            if row["event"] == "judged" and (row.get("checkpoint"), row.get("bundle")) == (checkpoint, bundle)
        ]
        return str(judged[-1]["verdict"]) if judged else None

    def wrote(self, report: str, family: str) -> bool:
        """Whether this verifier wrote the verification_report.json of that SHA-256, to the byte, on alpha of that family."""
        return any(
            row["event"] == "judged" and (row.get("report"), row.get("family")) == (report, family)
            for row in self.rows()
        )

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
            self._append(rows, "opened", {**named, **facts})
        return Share(before, alpha)

    def _append(self, rows: list[dict[str, Any]], event: str, facts: dict[str, Any]) -> None:
        previous = sha256_json(rows[-1]) if rows else ""
        row = {"event": event, "time": time.time(), "previous": previous, **facts}
        JsonLines(self.home.ledger).append(row)


def _spent(rows: list[dict[str, Any]], family: str, checkpoint: str) -> tuple[int, float]:
    """Confirmations started in a family, or for this very checkpoint in any other, and their alpha."""
    alphas = [
        row["alpha"]
        for row in rows
        if row["event"] == "opened"
        and row.get("kind") == "confirm"
        and (row.get("family") == family or row.get("checkpoint") == checkpoint)
    ]
    return len(alphas), sum(alphas)
