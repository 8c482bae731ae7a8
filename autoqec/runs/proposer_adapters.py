"""Who speaks for the three roles: an offline proposer with the deterministic analyst, or a language model.

Both speak in the contract's messages, so that the steps of a round are the same for either, and for a chat.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from autoqec.agents import llm_proposer
from autoqec.agents.accounting import Caps
from autoqec.agents.failures import RoleFailure
from autoqec.agents.schemas import CoderResponse, IdeatorResponse
from autoqec.agents.settings import is_configured
from autoqec.errors import AutoQECError, InputError
from autoqec.io.git import Git
from autoqec.layout import RoundDir, RunDir
from autoqec.runs.plan import CHAT, Plan
from autoqec.search.analyst import Analysis, analyse
from autoqec.search.proposal import Proposal, Proposer, RoundContext, Row
from autoqec.search.proposers import OFFLINE
from autoqec.search.proposers import make as make_offline

LLM = "llm"
NAMES = (LLM, *OFFLINE)


@dataclass(frozen=True)
class Idea:
    """code: of an author that has the config ready with the hypothesis. origin: facts for the history row."""

    said: IdeatorResponse
    origin: dict[str, Any]
    code: CoderResponse | None = None


@dataclass(frozen=True)
class Code:
    said: CoderResponse
    origin: dict[str, Any]


class Author(Protocol):
    """Every method is a function of the context; a RoleFailure means that the round has no answer of that role."""

    @property
    def name(self) -> str: ...

    def ideate(self, context: RoundContext) -> Idea: ...

    def code(self, context: RoundContext, said: IdeatorResponse, worktree: Path) -> Code: ...

    def analyse(self, context: RoundContext, row: Row, files: RoundDir) -> Analysis: ...

    def spent_usd(self, number: int) -> float | None:
        """What the answers of a round cost; None where nothing is paid."""
        ...

    def has_budget(self) -> bool: ...


class OfflineAuthor:
    def __init__(self, proposer: Proposer) -> None:
        self._proposer = proposer

    @property
    def name(self) -> str:
        return self._proposer.name

    def ideate(self, context: RoundContext) -> Idea:
        proposal = self._proposer.propose(context)
        return Idea(_idea(proposal), proposal.origin, _code(proposal))

    def code(self, context: RoundContext, said: IdeatorResponse, worktree: Path) -> Code:
        raise AutoQECError(f"the {self.name} proposer gives config and hypothesis at once")

    def analyse(self, context: RoundContext, row: Row, files: RoundDir) -> Analysis:
        return analyse(row, context.pareto)

    def spent_usd(self, number: int) -> float | None:
        return None

    def has_budget(self) -> bool:
        return True


class LlmAuthor:
    name = LLM

    def __init__(self, proposer: llm_proposer.LlmProposer) -> None:
        self._proposer = proposer

    def ideate(self, context: RoundContext) -> Idea:
        idea = self._proposer.ideate(context)
        settings = self._proposer.roles.settings["ideator"]
        return Idea(idea.said, {"proposer": LLM, "ideator": [settings.backend, settings.model]})

    def code(self, context: RoundContext, said: IdeatorResponse, worktree: Path) -> Code:
        proposal = self._proposer.code(context, self._proposer.idea(context, said), folder=worktree)
        coder = _code(proposal)
        if coder is None:
            raise AutoQECError("a pure compose round has no coder")
        self._refuse_secrets(worktree)
        return Code(coder, {"coder": proposal.origin["coder"]})

    def _refuse_secrets(self, worktree: Path) -> None:
        """A Coder on a command line has its own key, and what it edits would be committed."""
        leaks = []
        for entry in Git(worktree).paths(
            "status", "--porcelain", "-z", "--untracked-files=all", "--no-renames"
        ):
            path = worktree / entry[3:]
            if path.is_file() and self._proposer.roles.knows_secret(path.read_text(errors="replace")):
                leaks.append(entry[3:])
        if leaks:
            failure = RoleFailure("rejected", f"a key or a password stands in {', '.join(leaks)}")
            failure.role = "coder"
            raise failure

    def analyse(self, context: RoundContext, row: Row, files: RoundDir) -> Analysis:
        return self._proposer.analyse(context, row, files)

    def spent_usd(self, number: int) -> float | None:
        return self._proposer.roles.ledger.totals(round=number).spent_usd

    def has_budget(self) -> bool:
        left = self._proposer.roles.ledger.left()
        return left is None or left > 0


def _idea(proposal: Proposal) -> IdeatorResponse:
    return IdeatorResponse(
        hypothesis=proposal.hypothesis,
        expected_delta_ler=proposal.expected_delta_ler,
        expected_cost_s=proposal.expected_cost_s,
        rationale=proposal.rationale,
        fork_from=proposal.fork_from,
        compose_mode=proposal.compose_mode,
    )


def _code(proposal: Proposal) -> CoderResponse | None:
    if proposal.compose_mode == "pure":
        return None
    return CoderResponse(
        dsl_config=proposal.dsl_config,
        tier=proposal.tier,
        rationale=proposal.rationale,
        commit_message=proposal.commit_message,
    )


def choose(proposer: str | None) -> tuple[str, str | None]:
    """The proposer's name, and why it is that one where nobody asked for it."""
    if proposer is not None:
        return proposer, None
    if is_configured():
        return LLM, None
    return "optuna", "no language model is configured (AUTOQEC_IDEATOR_BACKEND): optuna proposes"


def make_author(plan: Plan, files: RunDir) -> Author:
    """
    Raises:
        UnavailableError: a language model's program, key or recording is missing.
    """
    if plan.proposer == LLM:
        return LlmAuthor(llm_proposer.make(files, Caps.for_budget(plan.budget_usd)))
    if plan.proposer == CHAT:
        raise InputError(
            "a chat proposes the rounds of this run", where=str(files.path), hint="go on with autoqec step"
        )
    return OfflineAuthor(make_offline(plan.proposer))
