"""Who speaks for the three roles in the loop: an offline proposer with the deterministic analyst, or a language model."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

from autoqec.agents import llm_proposer
from autoqec.agents.accounting import Caps
from autoqec.agents.failures import RoleFailure
from autoqec.agents.settings import is_configured
from autoqec.errors import AutoQECError, InputError
from autoqec.io.untrusted_file import read_regular
from autoqec.layout import RoundDir, RunDir
from autoqec.runs.plan import CHAT, Plan
from autoqec.search.analyst import Analysis, analyse
from autoqec.search.proposal import Proposal, Proposer, RoundContext, Row
from autoqec.search.proposers import OFFLINE
from autoqec.search.proposers import make as make_offline

LLM = "llm"
NAMES = (LLM, *OFFLINE)
_LARGE = 1 << 30


class ProposerAdapter(Protocol):
    """Every method is a function of the context; a RoleFailure means that the round has no answer of that role."""

    @property
    def name(self) -> str: ...

    def propose(self, context: RoundContext) -> Proposal:
        """With its config, or without one; then `code` is asked for it."""
        ...

    def code(self, context: RoundContext, proposal: Proposal, worktree: Path) -> Proposal: ...

    def analyse(self, context: RoundContext, row: Row, files: RoundDir) -> Analysis: ...

    def spent_usd(self, number: int) -> float | None:
        """What the answers of a round cost; None where nothing is paid."""
        ...

    def has_budget(self) -> bool: ...


class OfflineAdapter:
    def __init__(self, proposer: Proposer) -> None:
        self._proposer = proposer

    @property
    def name(self) -> str:
        return self._proposer.name

    def propose(self, context: RoundContext) -> Proposal:
        return self._proposer.propose(context)

    def code(self, context: RoundContext, proposal: Proposal, worktree: Path) -> Proposal:
        raise AutoQECError(f"the {self.name} proposer gives config and hypothesis at once")

    def analyse(self, context: RoundContext, row: Row, files: RoundDir) -> Analysis:
        return analyse(row, context.pareto)

    def spent_usd(self, number: int) -> float | None:
        return None

    def has_budget(self) -> bool:
        return True


class LlmAdapter:
    """The Ideator proposes; the Coder writes the config in the round's worktree, which is made in between."""

    name = LLM

    def __init__(self, proposer: llm_proposer.LlmProposer) -> None:
        self._proposer = proposer

    def propose(self, context: RoundContext) -> Proposal:
        return self._proposer.ideate(context)

    def code(self, context: RoundContext, proposal: Proposal, worktree: Path) -> Proposal:
        coded = self._proposer.code(context, proposal, folder=worktree)
        self._refuse_secrets(worktree)
        return coded

    def _refuse_secrets(self, worktree: Path) -> None:
        """A Coder on a command line has its own key, and what it edits would be committed."""
        leaks = [
            path.relative_to(worktree).as_posix()
            for path in _plain_files(worktree)
            if self._proposer.roles.knows_secret(read_regular(path, limit=_LARGE).decode(errors="replace"))
        ]
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


def _plain_files(folder: Path) -> Iterator[Path]:
    """All of a worktree. git is not asked what changed: others wrote there, also what git would go by."""
    for place, folders, files in os.walk(folder):
        folders.sort()
        yield from (
            path for name in sorted(files) if stat.S_ISREG((path := Path(place, name)).lstat().st_mode)
        )


def choose(proposer: str | None) -> tuple[str, str | None]:
    """The proposer's name, and why it is that one where nobody asked for it."""
    if proposer is not None:
        return proposer, None
    if is_configured():
        return LLM, None
    return "optuna", "no language model is configured (AUTOQEC_IDEATOR_BACKEND): optuna proposes"


def make_adapter(plan: Plan, files: RunDir) -> ProposerAdapter:
    """
    Raises:
        UnavailableError: a language model's program, key or recording is missing.
    """
    if plan.proposer == LLM:
        return LlmAdapter(llm_proposer.make(files, Caps.for_budget(plan.budget_usd)))
    if plan.proposer == CHAT:
        raise InputError(
            "a chat proposes the rounds of this run",
            where=str(files.path),
            hint="resume it with autoqec step",
        )
    return OfflineAdapter(make_offline(plan.proposer))
