"""The calls that one question to a role takes: each is paid for, recorded, and free of secrets."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from autoqec.agents.accounting import Ledger, Reservation, Source
from autoqec.agents.backends.base import Backend, Reply, Request
from autoqec.agents.failures import RETRYABLE, RoleFailure
from autoqec.agents.prices import Prices, Usage
from autoqec.agents.redaction import Redactor
from autoqec.agents.transcript import Transcript

TRIES = 4
"""Calls for one answer while the vendor is overloaded, limits the rate or cannot be reached."""


@dataclass(frozen=True)
class CallRecords:
    """Where every call of a run is recorded."""

    ledger: Ledger
    transcript: Transcript
    prices: Prices
    redact: Redactor


class Question:
    """Under one deadline. form: the request, but for its prompt, its number and what was set aside for it."""

    def __init__(
        self, backend: Backend, records: CallRecords, form: Request, *, round: int, backoff_s: float
    ) -> None:
        self._backend = backend
        self._records = records
        self._form = form
        self._round = round
        self._backoff_s = backoff_s
        self._until = time.monotonic() + form.deadline_s
        self.calls = 0
        self.spent = 0
        self.usage = Usage()

    def ask(self, prompt: str) -> Reply:
        """One answer, however many calls it takes while the vendor is busy."""
        tries = 1
        while True:
            try:
                return self._call(prompt)
            except RoleFailure as failure:
                if tries == TRIES or failure.kind not in RETRYABLE:
                    raise
                wait = failure.retry_after_s
                if wait is None:
                    wait = self._backoff_s * 2 ** (tries - 1)
                if time.monotonic() + wait >= self._until:
                    failure.what += f" (waiting {wait:.0f} s would pass the deadline)"
                    raise
                time.sleep(wait)
                tries += 1

    def _call(self, prompt: str) -> Reply:
        left = self._until - time.monotonic()
        if left <= 0:
            raise RoleFailure("deadline", "the time for this answer is used up")
        records, backend, role = self._records, self._backend, self._form.role
        request = replace(self._form, prompt=prompt, number=records.transcript.count(role), deadline_s=left)
        worst = backend.worst_case(request, records.prices, records.ledger.caps)
        reservation = records.ledger.reserve(
            worst.nano,
            least=worst.least,
            role=role,
            round=self._round,
            backend=backend.name,
            model=backend.model,
        )
        self.calls += 1
        # Something unforeseen leaves the reservation as it is: it counts in full.
        capped = records.ledger.caps.is_set
        granted = replace(request, budget=reservation.nano, capped=capped, prices=records.prices)
        outcome = self._outcome(granted)
        self._settle(reservation, outcome)
        records.transcript.add(
            request, outcome, call=reservation.call, backend=backend.name, round=self._round
        )
        if isinstance(outcome, RoleFailure):
            raise outcome
        return outcome

    def _outcome(self, request: Request) -> Reply | RoleFailure:
        redact = self._records.redact
        try:
            reply = self._backend.call(request)
        except RoleFailure as failure:
            failure.what, failure.reply = redact(failure.what), redact(failure.reply)
            failure.where = self._backend.name
            return failure
        return replace(reply, text=redact(reply.text))

    def _settle(self, reservation: Reservation, outcome: Reply | RoleFailure) -> None:
        price = self._records.prices.find(self._backend.model)
        nano, source = _cost(outcome, reservation, lambda usage: price.cost(usage) if price else 0)
        self.spent += nano
        self.usage += outcome.usage or Usage()
        result = outcome.kind if isinstance(outcome, RoleFailure) else outcome.ended or "ok"
        self._records.ledger.settle(reservation, nano, source=source, usage=outcome.usage, outcome=result)


def _cost(
    outcome: Reply | RoleFailure, reservation: Reservation, of_tokens: Callable[[Usage], int]
) -> tuple[int, Source]:
    if outcome.cost is not None:
        return outcome.cost, "vendor"
    if outcome.usage is not None:
        return of_tokens(outcome.usage), "prices"
    if isinstance(outcome, Reply) or outcome.charged:
        return reservation.nano, "reserved"
    return 0, "none"
