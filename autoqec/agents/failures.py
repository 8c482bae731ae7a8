"""How a role can fail. Every failure is one exception with a kind, which the loop records as a row before the next round."""

from __future__ import annotations

from typing import Any, Literal

from autoqec.agents.prices import Usage
from autoqec.errors import AutoQECError

Kind = Literal[
    "refusal", "empty", "truncated", "not_json", "schema", "rejected",
    "deadline", "rate_limit", "overloaded", "crash", "connection", "turns",
    "login", "credit", "model", "request", "budget", "recording",
]  # fmt: skip
"""The answer cannot be used: refusal (the model declines), empty, truncated (cut off at the token limit), not_json, schema
(not the role's response), rejected (the response is well formed and cannot be carried out: an unknown branch, a config that
does not compile). No answer: deadline, rate_limit, overloaded, crash (a CLI ended with an error), connection, turns (a CLI
used up its turns), login (key or login missing or refused), credit (the vendor's account is empty), model (the vendor does
not have it for this key), request (the vendor refuses the request as such), budget, recording (a replay has no such call)."""

REPAIRABLE: frozenset[Kind] = frozenset({"empty", "truncated", "not_json", "schema", "rejected"})
RETRYABLE: frozenset[Kind] = frozenset({"rate_limit", "overloaded", "connection"})
LASTING: frozenset[Kind] = frozenset({"login", "credit", "model"})
"""Every further call would fail the same way until the user does something about it: the run stops."""


class RoleFailure(AutoQECError):
    """A role gave no answer that can be used.

    reply: what the model answered, if anything. usage, cost: of the call, where they are known; charged: whether the call
    may have been charged although its cost is not known. retry_after_s: what the vendor asks to wait.
    """

    def __init__(
        self,
        kind: Kind,
        what: str,
        *,
        where: str | None = None,
        hint: str | None = None,
        reply: str = "",
        usage: Usage | None = None,
        cost: int | None = None,
        charged: bool = False,
        retry_after_s: float | None = None,
    ) -> None:
        super().__init__(what, where=where, hint=hint)
        self.kind: Kind = kind
        self.reply = reply
        self.usage = usage
        self.cost = cost
        self.charged = charged
        self.retry_after_s = retry_after_s
        self.role: str | None = None
        self.calls = 0

    def row(self) -> dict[str, Any]:
        """For the history: what failed, and why in one line."""
        return {
            "role": self.role,
            "kind": self.kind,
            "reason": " ".join(self.what.split())[:500],
            "calls": self.calls,
        }
