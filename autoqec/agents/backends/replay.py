"""A recorded run instead of a model: the n-th call of a role gets what the n-th call of that role got then."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

from autoqec.agents.accounting import Caps
from autoqec.agents.backends.base import Reply, Request, WorstCase, unavailable
from autoqec.agents.failures import RoleFailure
from autoqec.agents.prices import Prices
from autoqec.agents.transcript import Transcript, outcome_of
from autoqec.layout import RunDir


class Replay:
    """AUTOQEC_REPLAY names the folder of the recorded run, or its file of calls. Branches of that run are called by this
    run's names, and nothing is charged."""

    name: ClassVar[str] = "replay"
    edits_files: ClassVar[bool] = False

    def __init__(self, model: str | None, environ: Mapping[str, str]) -> None:
        self.model = model
        given = environ.get("AUTOQEC_REPLAY")
        if not given:
            raise unavailable(
                "the replay backend needs AUTOQEC_REPLAY", "set it to the folder of a recorded run"
            )
        path = Path(given)
        self._path = RunDir(path).llm_calls if path.is_dir() else path
        if not self._path.is_file():
            raise unavailable(
                f"there is no recording at {self._path}", "set AUTOQEC_REPLAY to the folder of a recorded run"
            )
        self._transcript = Transcript(self._path)

    def worst_case(self, request: Request, prices: Prices, caps: Caps) -> WorstCase:
        return WorstCase(0, 0)

    def call(self, request: Request) -> Reply:
        rows = self._transcript.of_role(request.role)
        if request.number >= len(rows):
            raise RoleFailure(
                "recording",
                f"{self._path.name} holds {len(rows)} calls of the {request.role}, and this is call {request.number + 1}",
                hint="replay no more rounds than were recorded",
            )
        row = rows[request.number]
        try:
            reply = outcome_of(row)
        except RoleFailure as failure:
            failure.cost = 0
            raise
        return replace(reply, text=reply.text.replace(row["run_id"], request.run_id), cost=0)
