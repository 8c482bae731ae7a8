"""The language model's proposer: the Ideator says what to try and where to start from, the Coder writes the config.

The two steps can be taken apart, for a loop that makes the round's worktree in between:

    proposal = proposer.ideate(context)          # where to fork from, before any git operation
    proposal = proposer.code(context, proposal, folder=worktree)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from autoqec.agents.accounting import Caps
from autoqec.agents.context import analyst_context, coder_context, ideator_context
from autoqec.agents.failures import RoleFailure
from autoqec.agents.machine_state import machine_state
from autoqec.agents.prompts import Role
from autoqec.agents.roles import Roles
from autoqec.agents.schemas import CoderResponse, IdeatorResponse
from autoqec.agents.words_check import check_words
from autoqec.decoders.dsl_schema import PredecoderDSL, canonical_dict
from autoqec.layout import RoundDir, RunDir
from autoqec.search.analyst import Analysis, analyse
from autoqec.search.checks import ConfigCheck, check_fork, parent_config, resolve
from autoqec.search.distance import config_of
from autoqec.search.draft import describe
from autoqec.search.proposal import Proposal, RoundContext, Row, short_name

State = Callable[[RoundContext], Mapping[str, Any]]


def proposed(
    reply: IdeatorResponse, context: RoundContext, *, origin: dict[str, Any], attempt: str | None = None
) -> Proposal:
    """The Ideator's reply with the full names of the branches that it names."""
    check_fork(reply.fork_from, reply.compose_mode, context)
    fork = resolve(reply.fork_from, context)
    given = {**reply.model_dump(), "fork_from": fork, "origin": origin, "round_attempt_id": attempt}
    return Proposal.model_validate(given)


def coded(proposal: Proposal, reply: CoderResponse, **origin: Any) -> Proposal:
    return proposal.with_code(
        reply.dsl_config, rationale=reply.rationale, commit_message=reply.commit_message, **origin
    )


def coder_message(
    proposal: Proposal, context: RoundContext, machine: Mapping[str, Any], *, in_worktree: bool
) -> str:
    """What the Coder is told about a proposal: branches by their short names."""
    fork = proposal.fork_from
    names = short_name(fork) if isinstance(fork, str) else [short_name(name) for name in fork]
    idea = {**proposal.idea, "fork_from": names}
    return coder_context(
        context,
        machine,
        idea={name: value for name, value in idea.items() if value is not None},
        parent=parent_config(fork, context),
        in_worktree=in_worktree,
    )


class LlmProposer:
    """state: the machine as the roles are told about it; by default as it is now."""

    name = "llm"

    def __init__(self, roles: Roles, run: RunDir, *, state: State | None = None) -> None:
        self.roles = roles
        self._run = run
        self._state = state or self._machine

    def propose(self, context: RoundContext) -> Proposal:
        """
        Raises:
            RoleFailure: the round has no proposal; the loop records why.
        """
        return self.code(context, self.ideate(context))

    def ideate(self, context: RoundContext) -> Proposal:
        """The proposal without a config."""
        answer = self.roles.ideator(
            ideator_context(context, self._state(context)),
            round=context.round,
            check=lambda reply: check_fork(reply.fork_from, reply.compose_mode, context),
        )
        origin = {"proposer": self.name, "ideator": self._backend("ideator")}
        return proposed(answer.response, context, origin=origin)

    def code(self, context: RoundContext, proposal: Proposal, *, folder: Path | None = None) -> Proposal:
        """The proposal with its config. folder: the worktree, in which a Coder on a command line may edit modules.

        A pure compose round is its parents' merge and needs no Coder.
        """
        if proposal.compose_mode == "pure":
            return proposal.with_code(parent_config(proposal.fork_from, context), coder=None)
        check = ConfigCheck(context)
        answer = self.roles.coder(
            coder_message(
                proposal,
                context,
                self._state(context),
                in_worktree=folder is not None and self.roles.coder_edits,
            ),
            round=context.round,
            folder=folder,
            check=lambda reply: check(reply.dsl_config, reply.tier),
        )
        reply = answer.response
        if not reply.commit_message:
            what = describe(PredecoderDSL.model_validate(reply.dsl_config))
            reply = reply.model_copy(update={"commit_message": f"{self.name}: {what}"})
        return coded(proposal, reply, coder=self._backend("coder"))

    def analyse(self, context: RoundContext, row: Row, files: RoundDir) -> Analysis:
        """The Analyst's words about a round, corrected where the metrics do not support them.

        A round does not fail because nobody found words for it: then the deterministic analyst's stand, and why is recorded.
        """
        plain = analyse(row, context.pareto)
        text = analyst_context(
            context,
            row=row,
            rule=plain,
            train_log=files.train_log,
            output=files.output,
        )
        try:
            answer = self.roles.analyst(text, round=int(row.get("round") or context.round))
        except RoleFailure as failure:
            missing = f"no words from the analyst: {failure.kind}: {failure.row()['reason']}"
            return replace(plain, corrections=(missing,))
        config = config_of(row)
        known = canonical_dict(config) if config is not None else None
        return check_words(answer.response, row, context.pareto, known)

    def _backend(self, role: Role) -> list[str | None]:
        return list(self.roles.model_of(role))

    def _machine(self, context: RoundContext) -> Mapping[str, Any]:
        return machine_state(
            context.history,
            run=self._run,
            ledger=self.roles.ledger,
            rounds_left=context.rounds_planned - context.round + 1,
            seconds_left=context.budget_left_s,
            checked_out=context.checked_out,
        )


def make(run: RunDir, caps: Caps | None = None) -> LlmProposer:
    """The proposer of a run, with the backends that the environment variables name.

    Raises:
        UnavailableError: nothing is configured, or a program or key is missing.
    """
    return LlmProposer(Roles(run, caps=caps), run)
