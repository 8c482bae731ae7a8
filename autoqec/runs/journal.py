"""The journal of a round in flight: what is intended is on disk before anything is done, so that a restart can resume.

A journal exists exactly while its round is in flight. What the round has reached is found by looking at the branch, the
artifacts and the history; the journal adds what cannot be found there.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from autoqec.errors import AutoQECError
from autoqec.io import atomic
from autoqec.io.clock import timestamp
from autoqec.io.crash_points import crash_point
from autoqec.io.validate import load_model
from autoqec.layout import RunDir
from autoqec.runs.names import RoundName
from autoqec.search.proposal import Proposal


class Journal(BaseModel):
    """Round `round`, from its proposal on. parents: the commits that the branch starts from, the first one first.

    config, commit_message: what the coder handed over. prepared: the worktree holds all parents. commit_sha: the code
    commit. training: a runner was started. pointer_sha: the commit that adds the pointer. row: what history will say.
    details: what it will say besides the proposal.
    """

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)

    run_id: str
    round: int = Field(ge=1)
    slug: str
    round_attempt_id: str
    proposal: Proposal
    parents: list[str]
    started_at: str
    details: dict[str, Any] = Field(default_factory=dict)
    prepared: bool = False
    config: dict[str, Any] | None = None
    commit_message: str | None = None
    commit_sha: str | None = None
    training: bool = False
    pointer_sha: str | None = None
    row: dict[str, Any] | None = None

    @model_validator(mode="before")
    @classmethod
    def _of_an_older_program(cls, data: Any) -> Any:
        return _with_proposal(data) if isinstance(data, dict) and "proposal" not in data else data

    @field_validator("details")
    @classmethod
    def _parts_are_mappings(cls, details: dict[str, Any]) -> dict[str, Any]:
        for name in ("analysis", "role_failure"):
            if not isinstance(details.get(name), dict | None):
                raise ValueError(f"{name} is not a mapping")
        rested = details.get("rested_s")
        if not isinstance(rested, int | float | None) or isinstance(rested, bool):
            raise ValueError("rested_s is not a number")
        return details

    @classmethod
    def of(cls, name: RoundName, attempt: str, proposal: Proposal, parents: list[str]) -> Journal:
        return cls(
            run_id=name.run_id,
            round=name.round,
            slug=name.slug,
            round_attempt_id=attempt,
            proposal=proposal,
            parents=parents,
            started_at=timestamp(),
            details=proposal.details,
        )

    @property
    def known(self) -> dict[str, Any]:
        """The proposal and the details, as the history row has them."""
        of = self.proposal
        return {"idea": of.idea, "coder": of.coder, "origin": of.origin, **self.details}

    @property
    def name(self) -> RoundName:
        return RoundName(self.run_id, self.round, self.slug)

    @property
    def ordered(self) -> list[str] | None:
        parents = self.proposal.fork_from
        return parents if isinstance(parents, list) else None


def _with_proposal(data: dict[str, Any]) -> dict[str, Any]:
    """The journal of an older program, where the proposal stood in pieces. Its parents are those of the journal: the idea may name
    them in short."""
    own = ("hypothesis", "fork_from", "compose_mode")
    details = data["details"] if isinstance(data.get("details"), dict) else {}
    idea, coder, origin = (
        part if isinstance(part := details.get(name), dict) else {} for name in ("idea", "coder", "origin")
    )
    proposal = {
        **idea,
        **{name: data[name] for name in own if name in data},
        "dsl_config": coder.get("dsl_config"),
        "coder_rationale": coder.get("rationale"),
        "commit_message": coder.get("commit_message") or None,
        "origin": origin,
    }
    rest = {name: value for name, value in details.items() if name not in ("idea", "coder", "origin")}
    return {
        **{name: value for name, value in data.items() if name not in own},
        "proposal": proposal,
        "details": rest,
    }


class JournalFile:
    """The journal of one round on disk."""

    def __init__(self, files: RunDir, journal: Journal) -> None:
        self.journal = journal
        self._path = files.journal(journal.round)

    def save(self, **facts: Any) -> None:
        """Adds facts and makes them durable."""
        self.journal = self.journal.model_copy(update=facts)
        try:
            atomic.write_text(self._path, json.dumps(self.journal.model_dump(mode="json"), indent=1) + "\n")
        except OSError as error:
            raise AutoQECError(
                f"cannot be written: {error.strerror}",
                where=str(self._path),
                hint="free some space or make the folder writable, then run the same command again",
            ) from error

    def close(self) -> None:
        """The round is over."""
        crash_point("before closing the journal")
        self._path.unlink(missing_ok=True)
        crash_point("after closing the journal")


def open_journals(files: RunDir) -> Iterator[JournalFile]:
    """The rounds in flight, oldest first."""
    found = [
        path for path in files.in_flight.glob("round_*.json") if path.stem.removeprefix("round_").isdecimal()
    ]
    for path in sorted(found, key=lambda path: int(path.stem.removeprefix("round_"))):
        yield JournalFile(files, load_model(path, Journal))
