"""Every call of a run as it was, so that the run can be replayed: `llm_calls.jsonl` in the run folder."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

from autoqec.agents.backends.base import Reply, Request
from autoqec.agents.failures import RoleFailure
from autoqec.agents.prices import Usage
from autoqec.io.jsonl import JsonLines


class Transcript:
    """The calls of one run, in the order in which they ended."""

    def __init__(self, path: Path) -> None:
        self._lines = JsonLines(path)

    def count(self, role: str) -> int:
        """How many calls of the role there were."""
        return sum(row["role"] == role for row in self._lines.rows())

    def add(
        self, request: Request, outcome: Reply | RoleFailure, *, call: str, backend: str, round: int
    ) -> None:
        row: dict[str, Any] = {"call": call, "run_id": request.run_id, "round": round, "role": request.role}
        row |= {"backend": backend, "system": request.system, "prompt": request.prompt}
        if isinstance(outcome, Reply):
            row["reply"] = asdict(outcome)
        else:
            row["failure"] = {"kind": outcome.kind, "what": outcome.what, "said": outcome.reply}
            row["failure"]["usage"] = None if outcome.usage is None else asdict(outcome.usage)
        self._lines.append(row)

    def of_role(self, role: str) -> list[dict[str, Any]]:
        return [row for row in self._lines.rows() if row["role"] == role]


def outcome_of(row: dict[str, Any]) -> Reply:
    """What was recorded, once more.

    Raises:
        RoleFailure: if that is what was recorded.
    """
    if "failure" in row:
        failure = row["failure"]
        raise RoleFailure(
            failure["kind"], failure["what"], reply=failure["said"], usage=_usage(failure["usage"])
        )
    reply = row["reply"]
    return Reply(reply["text"], _usage(reply["usage"]), None, reply["model"], reply["ended"])


def _usage(data: dict[str, int] | None) -> Usage | None:
    return None if data is None else Usage(**data)
