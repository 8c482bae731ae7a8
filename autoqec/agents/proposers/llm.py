"""The language model's proposer: the Ideator says what to try and where to start from, the Coder writes the config.

The two steps can be taken apart, for a loop that makes the round's worktree in between:

    idea = proposer.ideate(context)          # where to fork from, before any git operation
    proposal = proposer.code(context, idea, folder=worktree)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from autoqec.agents.accounting import Caps
from autoqec.agents.analyst import Checked, analyse, check_words
from autoqec.agents.context import analyst_context, coder_context, ideator_context
from autoqec.agents.distance import config_of, find_repeat
from autoqec.agents.failures import RoleFailure
from autoqec.agents.feasibility import estimate
from autoqec.agents.graph_text import short_name
from autoqec.agents.machine import machine_state
from autoqec.agents.proposal import BASELINE, Branch, Proposal, RoundContext, Row
from autoqec.agents.proposers.draft import describe
from autoqec.agents.roles import Answer, Roles
from autoqec.agents.schemas import CoderResponse, IdeatorResponse
from autoqec.decoders.custom.allowed import SLOTS
from autoqec.decoders.custom.lint import lint
from autoqec.decoders.dsl_schema import NeuralBpSpec, PredecoderDSL, canonical_dict
from autoqec.errors import InputError
from autoqec.io.validate import validate_model
from autoqec.layout import RoundDir, RunDir
from autoqec.runner.schema import canonical_fork

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

    def propose(self, context: RoundContext, *, sent_back: str | None = None) -> Proposal:
        """sent_back: why the last proposal for this round was not taken.

        Raises:
            RoleFailure: the round has no proposal; the loop records why.
        """
        return self.code(context, self.ideate(context, sent_back=sent_back))

    def ideate(self, context: RoundContext, *, sent_back: str | None = None) -> Idea:
        text = ideator_context(context, self._state(context), sent_back=sent_back)
        answer = self.roles.ideator(text, round=context.round, check=lambda said: _check_fork(said, context))
        said = answer.response
        fork = resolve(said.fork_from, context)
        return Idea(said, fork, parent_config(fork, context), answer.calls, answer.cost_usd)

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
        check = _ConfigCheck(context)
        answer = self.roles.coder(text, round=context.round, folder=folder, check=check)
        return self._proposal(idea, answer.response.dsl_config, answer)

    def analyse(self, context: RoundContext, row: Row, files: RoundDir) -> Checked:
        """The Analyst's words about a round, put right where the metrics do not support them.

        A round does not fail because nobody found words for it: then the deterministic analyst's stand, and why is recorded.
        """
        plain = analyse(row, context.pareto)
        text = analyst_context(
            context,
            row=row,
            verdict=plain.model_dump(mode="json"),
            train_log=files.train_log,
            output=files.output,
        )
        try:
            answer = self.roles.analyst(text, round=int(row.get("round") or context.round))
        except RoleFailure as failure:
            return Checked(plain, (f"no words from the analyst: {failure.kind}: {failure.row()['reason']}",))
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
        )


def make(run: RunDir, caps: Caps | None = None) -> LlmProposer:
    """The proposer of a run, with the backends that the environment variables name.

    Raises:
        UnavailableError: nothing is configured, or a program or key is missing.
    """
    return LlmProposer(Roles(run, caps=caps), run)


def resolve(fork_from: str | list[str], context: RoundContext) -> str | list[str]:
    """Full branch names for the short ones that the roles use."""
    names = {branch.name: branch.name for branch in context.branches} | {BASELINE: BASELINE}
    names |= {short_name(name): name for name in names}
    wanted = [fork_from] if isinstance(fork_from, str) else fork_from
    unknown = [name for name in wanted if name not in names]
    if unknown:
        known = ", ".join(sorted({short_name(name) for name in names}))
        raise InputError(
            f"there is no branch {unknown[0][:100]!r}", where="fork_from", mend=f"branches: {known}"
        )
    found = [names[name] for name in wanted]
    return found[0] if isinstance(fork_from, str) else found


def parent_config(fork_from: str | list[str], context: RoundContext) -> dict[str, Any]:
    """What is on the branch that the round starts from. Of several parents, the first with what the others changed."""
    by_name = {branch.name: branch for branch in context.branches}
    base = by_name[BASELINE].config if BASELINE in by_name else _PLAIN
    if isinstance(fork_from, str):
        return dict(by_name[fork_from].config) if fork_from in by_name else dict(base)
    return _merged(base, [by_name[name] for name in fork_from])


_PLAIN = canonical_dict(PredecoderDSL(type="neural_bp", output_mode="soft_priors", neural_bp=NeuralBpSpec()))


def _merged(base: Mapping[str, Any], parents: list[Branch]) -> dict[str, Any]:
    merged = {
        name: dict(value) if isinstance(value, dict) else value for name, value in parents[0].config.items()
    }
    for parent in parents[1:]:
        for name, value in parent.config.items():
            before = base.get(name)
            if isinstance(value, dict) and isinstance(before, dict) and isinstance(merged.get(name), dict):
                merged[name] |= {key: item for key, item in value.items() if before.get(key) != item}
            elif value != before:
                merged[name] = value
    try:
        return canonical_dict(PredecoderDSL.model_validate(merged))
    except ValueError:  # the parents exclude each other: git will say so, too
        return dict(parents[0].config)


def _check_fork(said: IdeatorResponse, context: RoundContext) -> None:
    """What can be said about a fork before git is asked."""
    fork = resolve(said.fork_from, context)
    if isinstance(fork, str):
        if said.compose_mode is not None:
            raise InputError(
                "compose_mode needs a list of branches",
                where="compose_mode",
                mend="give null, or a list in fork_from",
            )
        return
    if canonical_fork(fork) in {row.get("fork_from_canonical") for row in context.history}:
        raise InputError("these branches were composed before", where="fork_from", mend="compose others")
    by_name = {branch.name: branch for branch in context.branches}
    for name in fork:
        inside = [other for other in fork if other != name and other in _ancestors(name, by_name)]
        if inside:
            raise InputError(
                f"{short_name(name)} contains {short_name(inside[0])} already",
                where="fork_from",
                mend="compose branches of which none is an ancestor of another",
            )


def _ancestors(name: str, by_name: Mapping[str, Branch]) -> set[str]:
    found: set[str] = set()
    waiting = [name]
    while waiting:
        branch = by_name.get(waiting.pop())
        new = set(branch.parents) - found if branch is not None else set()
        found |= new
        waiting += new
    return found


class _ConfigCheck:
    """What the Coder is told about a config before a round is spent on it. A repeat is sent back once: the second time
    the loop gets to see it, and records it."""

    def __init__(self, context: RoundContext) -> None:
        self._context = context
        self._sent_back = False

    def __call__(self, said: CoderResponse) -> None:
        dsl = validate_model(said.dsl_config, PredecoderDSL, where="dsl_config")
        for path, function in dsl.custom_functions.items():
            lint(function, SLOTS[path], where=f"dsl_config.{path}")
        if said.tier != dsl.tier:
            raise InputError(
                f"tier is {said.tier!r}, and the config is of tier {dsl.tier!r}",
                where="tier",
                mend=f"say {dsl.tier!r}",
            )
        costs = estimate(dsl, self._context)
        if not costs.is_feasible:
            raise InputError("; ".join(costs.reasons), where="dsl_config", mend="make it smaller or cheaper")
        repeat = find_repeat(canonical_dict(dsl), self._context.history)
        if repeat is not None and not self._sent_back:
            self._sent_back = True
            raise InputError(
                repeat, where="dsl_config", mend="change what the hypothesis is about, or more of it"
            )
