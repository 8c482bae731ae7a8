"""What a role backend is given and what it gives back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Protocol

from autoqec.agents.accounting import Caps
from autoqec.agents.prices import Prices, Usage
from autoqec.errors import UnavailableError


@dataclass(frozen=True)
class Request:
    """One call. system: the role's prompt. prompt: the context and, in a repair, what was wrong. schema: of the answer.

    tools: what the role may use, in Claude Code's names; HTTP backends give none. folder: where a CLI works and reads.
    number: which call of its role in this run, from 0. budget: billionths of a dollar that were set aside for it. capped:
    whether it may cost no more than that. prices: to count by; None where nothing is counted.
    """

    role: str
    run_id: str
    number: int
    system: str
    prompt: str
    schema: Mapping[str, Any]
    tools: tuple[str, ...]
    max_turns: int
    max_output_tokens: int
    deadline_s: float
    folder: Path
    budget: int = 0
    capped: bool = False
    prices: Prices | None = None

    @property
    def may_write(self) -> bool:
        return not {"Write", "Edit"}.isdisjoint(self.tools)

    @property
    def text_bytes(self) -> int:
        return len(self.system.encode()) + len(self.prompt.encode()) + len(str(self.schema))


@dataclass(frozen=True)
class Reply:
    """What came back. cost: billionths of a dollar, where it is known; else it follows from the tokens.

    ended: "refusal" or "truncated" if the vendor says that the model declined or ran into the token limit.
    """

    text: str
    usage: Usage | None = None
    cost: int | None = None
    model: str | None = None
    ended: str | None = None


@dataclass(frozen=True)
class WorstCase:
    """What a call may cost. least: what will do if the budget has less."""

    nano: int
    least: int


class Backend(Protocol):
    """A backend checks when it is made that it can work, and says what is missing.

    edits_files: the model can change files in the request's folder, where its role may.
    """

    name: ClassVar[str]
    edits_files: ClassVar[bool]
    model: str | None

    def worst_case(self, request: Request, prices: Prices, caps: Caps) -> WorstCase: ...

    def call(self, request: Request) -> Reply:
        """Raises RoleFailure."""
        ...


def without_a_model() -> str:
    """What a user can do who has no language model."""
    from autoqec.search.proposers import OFFLINE

    return f"use a proposer that needs none: --proposer {' | '.join(OFFLINE)}"


def unavailable(what: str, hint: str, *, where: str | None = None) -> UnavailableError:
    return UnavailableError(what, where=where, hint=f"{hint}; or {without_a_model()}")


def priced(model: str | None, request: Request, prices: Prices, caps: Caps) -> WorstCase:
    """The worst case of one request over HTTP: all that is sent, and all that may be answered."""
    price = prices.need(model) if caps.is_set else prices.find(model)
    nano = 0 if price is None else price.most(request.text_bytes, request.max_output_tokens)
    return WorstCase(nano, nano)
