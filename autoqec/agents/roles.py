"""Asking a role: one question, and a validated response or a failure that the loop can record."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

from pydantic import BaseModel

from autoqec.agents import fences
from autoqec.agents.accounting import Caps, Ledger
from autoqec.agents.answers import read_answer, wire_schema
from autoqec.agents.backends import make_backend
from autoqec.agents.backends.base import Backend, Reply, Request
from autoqec.agents.calls import CallRecords, Question
from autoqec.agents.failures import REPAIRABLE, RoleFailure
from autoqec.agents.prices import Prices, Usage, usd_of
from autoqec.agents.prompts import Role, role_prompt
from autoqec.agents.redaction import Redactor
from autoqec.agents.schemas import AnalystResponse, CoderResponse, IdeatorResponse
from autoqec.agents.settings import RoleSettings, read_settings
from autoqec.agents.transcript import Transcript
from autoqec.errors import InputError
from autoqec.io.scratch import scratch_folder
from autoqec.layout import RunDir

R = TypeVar("R", bound=BaseModel)
Check = Callable[[R], None]

REPAIRS = 2


@dataclass(frozen=True)
class Limits:
    """Of one question. deadline_s: repairs and waiting included. output_tokens: reasoning included. turns: of a CLI."""

    deadline_s: float
    output_tokens: int
    turns: int


LIMITS: dict[Role, Limits] = {
    "ideator": Limits(deadline_s=600.0, output_tokens=12_000, turns=12),
    "coder": Limits(deadline_s=900.0, output_tokens=16_000, turns=30),
    "analyst": Limits(deadline_s=300.0, output_tokens=8_000, turns=6),
}
RESPONSES: dict[Role, type[BaseModel]] = {
    "ideator": IdeatorResponse,
    "coder": CoderResponse,
    "analyst": AnalystResponse,
}


@dataclass(frozen=True)
class Answer(Generic[R]):
    """A response with what it took. cost_usd: of all its calls."""

    response: R
    calls: int
    cost_usd: float
    usage: Usage


class Roles:
    """The three roles of one run. Everything they say is recorded in the run folder, and paid from its ledger.

    Raises:
        UnavailableError: a backend's program, key or recording is missing.
        InputError: there is a cap, and a model whose price is not known.
    """

    def __init__(
        self,
        run: RunDir,
        *,
        caps: Caps | None = None,
        environ: Mapping[str, str] = os.environ,
        deadline_s: float | None = None,
        backoff_s: float = 2.0,
    ) -> None:
        """deadline_s: of every question, instead of the roles' own. backoff_s: the first wait where the vendor names none."""
        self.settings: dict[Role, RoleSettings] = read_settings(environ)
        self.ledger = Ledger(run.llm_ledger, caps)
        self.prices = Prices(environ)
        self._redact = Redactor(environ)
        self._records = CallRecords(self.ledger, Transcript(run.llm_calls), self.prices, self._redact)
        self._run_id = run.path.name
        self._deadline_s = deadline_s
        self._backoff_s = backoff_s
        self._backends: dict[Role, Backend] = {
            role: make_backend(own.backend, model=own.model, environ=environ, where=own.variable)
            for role, own in self.settings.items()
        }
        self.estimate()  # a model without a price under a cap is an error now, not in the middle of a round

    @property
    def coder_edits(self) -> bool:
        """Whether the Coder can edit files in its folder, or only answer."""
        return self._backends["coder"].edits_files

    def model_of(self, role: Role) -> tuple[str, str | None]:
        """The backend that the role asks, and the model: named, or the backend's own."""
        return self._backends[role].name, self._backends[role].model

    def knows_secret(self, text: str) -> bool:
        """Whether a secret of this process's environment stands in the text."""
        return self._redact(text) != text

    def ideator(
        self, context: str, *, round: int, check: Check[IdeatorResponse] | None = None
    ) -> Answer[IdeatorResponse]:
        return self.ask("ideator", IdeatorResponse, context, round=round, check=check)

    def coder(
        self,
        context: str,
        *,
        round: int,
        folder: Path | None = None,
        check: Check[CoderResponse] | None = None,
    ) -> Answer[CoderResponse]:
        """folder: the round's worktree, where a CLI may edit; without one the answer is all that counts."""
        return self.ask("coder", CoderResponse, context, round=round, folder=folder, check=check)

    def analyst(
        self, context: str, *, round: int, check: Check[AnalystResponse] | None = None
    ) -> Answer[AnalystResponse]:
        return self.ask("analyst", AnalystResponse, context, round=round, check=check)

    def ask(
        self,
        role: Role,
        response: type[R],
        context: str,
        *,
        round: int,
        folder: Path | None = None,
        check: Check[R] | None = None,
    ) -> Answer[R]:
        """The role's response to the context.

        check: raises InputError for a response that cannot be carried out; what it says goes back to the model, as a
        response that breaks the schema does, two times at most. folder: where a CLI works; an empty one if None.

        Raises:
            RoleFailure: what the loop records.
        """
        context = self._redact(context)
        with scratch_folder("role") as scratch:
            empty = scratch / "empty"
            empty.mkdir()
            form = self._form(role, folder or empty)
            question = Question(
                self._backends[role], self._records, form, round=round, backoff_s=self._backoff_s
            )
            prompt, repairs = context, 0
            while True:
                try:
                    reply = question.ask(prompt)
                    found = read_answer(_whole(reply), response)
                    if check is not None:
                        _checked(found, check, reply)
                    return Answer(found, question.calls, float(usd_of(question.spent)), question.usage)
                except RoleFailure as failure:
                    if repairs == REPAIRS or failure.kind not in REPAIRABLE:
                        failure.role, failure.calls = role, question.calls
                        raise
                    repairs += 1
                    prompt = repair_prompt(context, failure)

    def estimate(self, context_tokens: int = 5_000, output_tokens: int = 2_000) -> dict[str, Any]:
        """What a round is likely to cost and can cost at most, in USD per role; None where no price is known."""
        per_role: dict[str, Any] = {}
        for role, backend in self._backends.items():
            form = self._form(role, Path(), prompt="x" * (context_tokens * fences.CHARACTERS_PER_TOKEN))
            price = self.prices.find(backend.model)
            worst = backend.worst_case(form, self.prices, self.ledger.caps)
            usage = Usage(input=fences.tokens(form.system) + context_tokens, output=output_tokens)
            known = worst.nano > 0 or price is not None or backend.name == "replay"
            likely = 0 if backend.name == "replay" else None if price is None else price.cost(usage)
            per_role[role] = {
                "backend": backend.name,
                "model": backend.model,
                "likely_usd": None if likely is None else float(usd_of(likely)),
                "most_usd": float(usd_of(worst.nano * (REPAIRS + 1))) if known else None,
            }
        return per_role

    def _form(self, role: Role, folder: Path, prompt: str = "") -> Request:
        spec, limits = role_prompt(role), LIMITS[role]
        return Request(
            role=role,
            run_id=self._run_id,
            number=0,
            system=spec.text,
            prompt=prompt,
            schema=wire_schema(RESPONSES[role]),
            tools=spec.tool_names,
            max_turns=limits.turns,
            max_output_tokens=limits.output_tokens,
            deadline_s=self._deadline_s or self.settings[role].deadline_s or limits.deadline_s,
            folder=folder,
        )


def _whole(reply: Reply) -> str:
    """The text of a reply that the vendor calls complete."""
    if reply.ended == "refusal":
        raise RoleFailure("refusal", f"the model declines: {reply.text.strip()[:300]!r}", reply=reply.text)
    if reply.ended == "truncated":
        raise RoleFailure("truncated", "the answer was cut off at the token limit", reply=reply.text)
    return reply.text


def _checked(found: R, check: Check[R], reply: Reply) -> None:
    try:
        check(found)
    except InputError as error:
        raise RoleFailure("rejected", str(error), reply=reply.text) from error


def repair_prompt(context: str, failure: RoleFailure) -> str:
    """The context once more, with what was answered and why it cannot be used. Both are data: they quote the model."""
    parts = [context, "# Your last answer cannot be used"]
    if failure.reply:
        parts.append(fences.fence("your last answer", failure.reply, limit=6_000))
    parts.append(fences.fence("why it was refused", failure.what, limit=2_000))
    parts.append(
        "Answer the task above again, corrected: one JSON object of the required form, and nothing else."
    )
    return "\n\n".join(parts)
