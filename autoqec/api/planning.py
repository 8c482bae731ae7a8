"""What a caller asks of a run: the plan of a new one, or changes to that of a run which resumes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from autoqec.agents.accounting import Caps
from autoqec.agents.roles import Roles
from autoqec.errors import InputError
from autoqec.io.optional import check_installed
from autoqec.io.validate import validate_model
from autoqec.layout import RunDir, experiments_folder, runs_folder
from autoqec.runner.safety import default_memory_gb
from autoqec.runs.names import check_run_id
from autoqec.runs.plan import Plan
from autoqec.runs.preview import preview, preview_resumed
from autoqec.runs.proposer_adapters import LLM, NAMES, choose
from autoqec.runs.repository import open_default, open_workspace
from autoqec.runs.research_run import ResearchRun
from autoqec.runs.run_info import locate_env
from autoqec.search.proposers import OFFLINE

Event = Callable[[str, dict[str, Any]], None]
"""Called with what happened and its facts; `note` has a `text`."""


def ignore(_what: str, _facts: dict[str, Any]) -> None:
    """The event that nobody watches."""


@dataclass(frozen=True, kw_only=True)
class Asked:
    """Arguments of `autoqec.run`; None, or False, where the caller asks for nothing. resume: whether the run has to be there, or must
    not; None takes either."""

    env: str
    folder: Path = field(default_factory=Path.cwd)
    run_id: str | None = None
    resume: bool | None = None
    rounds: int | None = None
    proposer: str | None = None
    profile: str | None = None
    no_llm: bool = False
    budget_minutes: float | None = None
    budget_usd: Decimal | float | None = None
    round_minutes: float | None = None
    verify_shots: int | None = None
    refuse_over_budget: bool = False
    own_repository: bool = False
    parallel: int | None = None
    event: Event = ignore

    @property
    def resumes(self) -> bool:
        if self.run_id is None:
            if self.resume:
                raise InputError("which run?", where="run_id", hint="give the id of the run that resumes")
            return False
        made = RunDir(runs_folder(self.folder) / check_run_id(self.run_id))
        return made.plan.exists() if self.resume is None else self.resume

    def started(self) -> ResearchRun:
        """A new run. What is wrong is said before anything is written."""
        check_installed("torch", "safetensors")
        locate_env(self.env)
        plan = self.plan()
        if plan.proposer == LLM:
            with TemporaryDirectory() as folder:
                Roles(RunDir(folder), caps=Caps.for_budget(plan.budget_usd))
        open_repository = open_workspace if self.own_repository else open_default
        return ResearchRun.begin(self.folder, self.env, open_repository(self.folder), plan, self.run_id)

    def resumed(self) -> tuple[ResearchRun, dict[str, Any]]:
        """The run as it was planned, and what is to be changed of that: rounds and budgets may be. Writes nothing."""
        research = ResearchRun.open(runs_folder(self.folder) / check_run_id(self.run_id or ""))
        plan, repository = research.plan, Path(research.run.info.repository)
        own = str(experiments_folder(self.folder).resolve())
        for where, asked, planned in (
            ("env", locate_env(self.env)[0], research.run.info.env),
            ("profile", self.profile, plan.profile),
            ("proposer", self.proposer, plan.proposer),
            ("no_llm", self.no_llm or None, plan.is_smoke),
            ("parallel", self.parallel, plan.parallel),
            ("verify_shots", self.verify_shots, plan.verify_shots),
            ("refuse_over_budget", self.refuse_over_budget or None, plan.refuse_over_budget),
            ("own_repository", own if self.own_repository else None, str(repository.parent)),
        ):
            if asked is not None and asked != planned:
                raise InputError(
                    f"run {self.run_id} was started with {planned}, not {asked}",
                    where=where,
                    hint="leave it as it was",
                )
        changes = {name: value for name, value in self._changeable().items() if value is not None}
        replanned = validate_model({**plan.model_dump(mode="json"), **changes}, Plan, where="run")
        if replanned.rounds > plan.rounds:
            text = (
                f"Verifications share one error budget that was planned for {plan.rounds} rounds: what they left of it "
                "is all that the further ones have."
            )
            self.event("note", {"text": text})
        return research, {name: getattr(replanned, name) for name in changes}

    def preview(self) -> dict[str, Any]:
        """What would be done. Writes nothing."""
        if self.resumes:
            research, changes = self.resumed()
            return preview_resumed(research.run, research.plan.model_copy(update=changes))
        return preview(self.env, self.plan(), self.run_id)

    def plan(self) -> Plan:
        """Of a new run."""
        if self.no_llm and self.proposer not in (None, "templates"):
            raise InputError(
                f"is the smoke loop of random templates, and the proposer is {self.proposer}",
                where="no_llm",
                hint=f"leave it out: {self.proposer} needs no language model"
                if self.proposer in OFFLINE
                else "leave one out",
            )
        name, why = choose("templates" if self.no_llm else self.proposer)
        if name not in NAMES:
            raise InputError(
                f"unknown proposer {name!r}", where="proposer", hint=f"known: {', '.join(NAMES)}"
            )
        if why:
            self.event("note", {"text": why})
        asked = {
            **self._changeable(),
            "rounds": 10 if self.rounds is None else self.rounds,
            "proposer": name,
            "profile": self.profile or "dev",
            "is_smoke": self.no_llm,
            "verify_shots": self.verify_shots,
            "refuse_over_budget": self.refuse_over_budget,
            "memory_gb": default_memory_gb(),
            "parallel": self.parallel or 1,
        }
        return validate_model(asked, Plan, where="run")

    def _changeable(self) -> dict[str, Any]:
        """What may change when a run resumes, as it stands in a plan."""
        return {
            "rounds": self.rounds,
            "budget_minutes": self.budget_minutes,
            "budget_usd": None if self.budget_usd is None else str(self.budget_usd),
            "wall_clock_s": None if self.round_minutes is None else 60.0 * self.round_minutes,
        }
