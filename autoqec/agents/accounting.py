"""What the calls of a run cost, and the cap that they keep.

Before a call its worst case is reserved; afterwards the reservation is replaced by what the call cost. The cap counts both,
so that calls in flight cannot pass it together. The ledger is a file of the run folder that any number of processes use:

    {"event": "reserve", "call": ..., "round": 3, "role": "coder", "nano_usd": 212000000, ...}
    {"event": "settle",  "call": ..., "nano_usd": 48120000, "source": "vendor", "outcome": "ok", ...}

A reservation that was never settled (its process was killed) counts in full: the vendor may have charged for it.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, fields
from decimal import Decimal
from pathlib import Path
from typing import Any, Literal
from uuid import uuid4

from pydantic import BaseModel, ConfigDict, Field

from autoqec.agents.failures import RoleFailure
from autoqec.agents.prices import Usage, nano_of, usd_of
from autoqec.io.clock import timestamp
from autoqec.io.jsonl import JsonLines
from autoqec.io.locks import locked

Source = Literal["vendor", "prices", "reserved", "none"]
"""Where a cost comes from: the vendor said it (a program its sum, or every response its tokens), tokens of the whole call
times prices, the whole reservation (the call was cut off), or nothing was charged."""


@dataclass(frozen=True)
class Caps:
    """In USD. total: of the run, None without a cap. call: what one call through a CLI may cost, whose turns cannot be counted beforehand."""

    total: Decimal | None = None
    call: Decimal = Decimal("1.00")

    @classmethod
    def for_budget(cls, usd: Decimal | None) -> Caps:
        """A cap for the run, and calls small enough that a round with a repair fits into it."""
        return cls() if usd is None else cls(total=usd, call=min(cls.call, usd / 4))

    @property
    def is_set(self) -> bool:
        return self.total is not None


@dataclass(frozen=True)
class Totals:
    """calls: settled ones. in_flight: the sum of reservations."""

    spent: int = 0
    in_flight: int = 0
    calls: int = 0
    usage: Usage = field(default_factory=Usage)

    @property
    def spent_usd(self) -> float:
        return float(usd_of(self.spent))

    @property
    def in_flight_usd(self) -> float:
        return float(usd_of(self.in_flight))


@dataclass(frozen=True)
class Reservation:
    call: str
    nano: int


class _LedgerRow(BaseModel):
    model_config = ConfigDict(extra="allow", allow_inf_nan=False)

    event: Literal["reserve", "settle"]
    call: str
    nano_usd: int = Field(ge=0)
    round: int | None = None
    role: str | None = None
    tokens: dict[str, int] | None = None


class Ledger:
    """The accounts of one run."""

    def __init__(self, path: Path, caps: Caps | None = None) -> None:
        self.caps = caps or Caps()
        self._lines = JsonLines(path, _LedgerRow)
        self._lock = path.with_name(f".{path.name}.reserve.lock")

    def reserve(
        self, nano: int, *, role: str, round: int, backend: str, model: str | None, least: int | None = None
    ) -> Reservation:
        """Sets the worst case of a call aside. least: what will do if less than `nano` is left.

        Raises:
            RoleFailure: of kind "budget" if the cap would be passed.
        """
        with locked(self._lock):
            left = self.left()
            granted = nano if left is None else min(nano, left)
            if granted < (nano if least is None else least):
                raise RoleFailure(
                    "budget",
                    f"a call of the {role} may cost ${usd_of(nano):.2f}, and ${usd_of(max(0, granted)):.2f} of the budget is left",
                    hint="raise the budget, or choose a cheaper model",
                )
            call = str(uuid4())
            row: dict[str, Any] = {"event": "reserve", "call": call, "round": round, "role": role}
            row |= {"backend": backend, "model": model, "nano_usd": granted, "at": timestamp()}
            self._lines.append(row)
        return Reservation(call, granted)

    def settle(
        self, reservation: Reservation, nano: int, *, source: Source, usage: Usage | None, outcome: str
    ) -> None:
        """What the call cost in the end. Only the first settlement of a call counts."""
        row: dict[str, Any] = {
            "event": "settle",
            "call": reservation.call,
            "nano_usd": nano,
            "source": source,
        }
        row |= {"tokens": asdict(usage) if usage is not None else None, "outcome": outcome, "at": timestamp()}
        self._lines.append(
            row,
            unless=lambda rows: any(r["event"] == "settle" and r["call"] == reservation.call for r in rows),
        )

    def totals(self, *, round: int | None = None, role: str | None = None) -> Totals:
        opened: dict[str, dict[str, Any]] = {}
        settled: dict[str, dict[str, Any]] = {}
        for row in self._lines.rows():
            (opened if row["event"] == "reserve" else settled)[row["call"]] = row
        spent = in_flight = calls = 0
        usage = Usage()
        for call, row in opened.items():
            if (round is not None and row.get("round") != round) or (
                role is not None and row.get("role") != role
            ):
                continue
            if call in settled:
                spent += settled[call]["nano_usd"]
                usage += Usage(**_known(settled[call].get("tokens") or {}))
                calls += 1
            else:
                in_flight += row["nano_usd"]
        return Totals(spent, in_flight, calls, usage)

    def left(self) -> int | None:
        """What the cap leaves, in billionths of a dollar; None without a cap."""
        if self.caps.total is None:
            return None
        total = self.totals()
        return nano_of(self.caps.total) - total.spent - total.in_flight

    def summary(self) -> dict[str, Any]:
        """For prompts, reports and records: dollars as numbers."""
        total = self.totals()
        left = self.left()
        return {
            "spent_usd": total.spent_usd,
            "in_flight_usd": total.in_flight_usd,
            "left_usd": None if left is None else float(usd_of(max(0, left))),
            "calls": total.calls,
            "tokens": asdict(total.usage),
        }


def _known(tokens: dict[str, int]) -> dict[str, int]:
    """Without kinds of tokens that another version counts."""
    return {each.name: tokens[each.name] for each in fields(Usage) if each.name in tokens}
