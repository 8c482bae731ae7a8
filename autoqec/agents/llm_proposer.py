"""The language model's proposer: the Ideator says what to try and where to start from, the Coder writes the config.

The two steps can be taken apart, for a loop that makes the round's worktree in between:

    idea = proposer.ideate(context)          # where to fork from, before any git operation
    proposal = proposer.code(context, idea, folder=worktree)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from autoqec.agents.accounting import Caps
from autoqec.agents.context import analyst_context, coder_context, ideator_context
from autoqec.agents.failures import RoleFailure
from autoqec.agents.machine_state import machine_state
from autoqec.agents.roles import Answer, Roles
from autoqec.agents.schemas import CoderResponse, IdeatorResponse
from autoqec.agents.words_check import check_words
from autoqec.decoders.dsl_schema import PredecoderDSL, canonical_dict
from autoqec.layout import RoundDir, RunDir
from autoqec.search.analyst import Analysis, analyse
from autoqec.search.checks import ConfigCheck, check_fork, parent_config, resolve
from autoqec.search.distance import config_of
from autoqec.search.draft import describe
from autoqec.search.proposal import Proposal, RoundContext, Row

State = Callable[[RoundContext], Mapping[str, Any]]


@dataclass(frozen=True)
class Idea:
    """What the Ideator wants. fork_from: full names. parent: the config to start from; for several parents, their merge."""

    said: IdeatorResponse
    fork_from: str | list[str]
    parent: dict[str, Any]
    calls: int
    cost_usd: float


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

    def ideate(self, context: RoundContext) -> Idea:
        text = ideator_context(context, self._state(context))
        answer = self.roles.ideator(
            text,
            round=context.round,
            check=lambda reply: check_fork(reply.fork_from, reply.compose_mode, context),
        )
        return self.idea(context, answer.response, calls=answer.calls, cost_usd=answer.cost_usd)

    def idea(
        self, context: RoundContext, said: IdeatorResponse, *, calls: int = 0, cost_usd: float = 0.0
    ) -> Idea:
        """What the Ideator said, with the branches that it names. Of an earlier process, its calls are not counted again."""
        fork = resolve(said.fork_from, context)
        return Idea(said, fork, parent_config(fork, context), calls, cost_usd)

    def code(self, context: RoundContext, idea: Idea, *, folder: Path | None = None) -> Proposal:
        """The proposal with its config. folder: the worktree, in which a Coder on a command line may edit modules.

        A pure compose round is its parents' merge and needs no Coder.
        """
        if idea.said.compose_mode == "pure":
            return self._proposal(idea, idea.parent, None)
        text = coder_context(
            context,
            self._state(context),
            idea=idea.said.model_dump(mode="json", exclude_none=True),
            parent=idea.parent,
            in_worktree=folder is not None and self.roles.coder_edits,
        )
        check = ConfigCheck(context)
        answer = self.roles.coder(
            text,
            round=context.round,
            folder=folder,
            check=lambda reply: check(reply.dsl_config, reply.tier),
        )
        return self._proposal(idea, answer.response.dsl_config, answer)

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

    def _proposal(
        self, idea: Idea, config: Mapping[str, Any], answer: Answer[CoderResponse] | None
    ) -> Proposal:
        dsl = PredecoderDSL.model_validate(dict(config))
        said = answer.response if answer is not None else None
        message = said.commit_message if said is not None else None
        settings = self.roles.settings
        return Proposal(
            hypothesis=idea.said.hypothesis,
            rationale=said.rationale if said is not None else idea.said.rationale,
            dsl_config=canonical_dict(dsl),
            fork_from=idea.fork_from,
            compose_mode=idea.said.compose_mode,
            expected_delta_ler=idea.said.expected_delta_ler,
            expected_cost_s=idea.said.expected_cost_s,
            commit_message=message or f"llm: {describe(dsl)}",
            origin={
                "proposer": self.name,
                "ideator": [settings["ideator"].backend, settings["ideator"].model],
                "coder": None if answer is None else [settings["coder"].backend, settings["coder"].model],
                "calls": idea.calls + (answer.calls if answer is not None else 0),
                "cost_usd": idea.cost_usd + (answer.cost_usd if answer is not None else 0.0),
            },
        )

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
