"""The loop: rounds of one proposer, until all are done or a budget is used up. Rounds in flight are resumed first."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from autoqec.agents.failures import LASTING, RoleFailure
from autoqec.errors import UnavailableError
from autoqec.eval.pareto import read_front
from autoqec.io.crash_points import crash_point
from autoqec.runs.experiment import Experiment
from autoqec.runs.proposer_adapters import ProposerAdapter
from autoqec.runs.research_run import Progress, ResearchRun
from autoqec.runs.worktree_runner import Runner
from autoqec.search.draft import NothingLeft

Event = Callable[[str, dict[str, Any]], None]
"""Called with what happened and its facts: for whoever watches."""

NO_MONEY = "the budget of money is used up"


@dataclass(frozen=True)
class Outcome:
    """stopped: why before the planned rounds were done; None if they are."""

    rounds: int
    stopped: str | None


class Loop:
    def __init__(
        self,
        research: ResearchRun,
        proposer: ProposerAdapter,
        *,
        event: Event | None = None,
        progress: Progress | None = None,
    ) -> None:
        self.research, self.proposer = research, proposer
        self._event = event or (lambda _what, _facts: None)
        self._progress = progress
        self._unpaid: str | None = None
        self._lasting: RoleFailure | None = None

    def run(self) -> Outcome:
        """
        Raises:
            UnavailableError: the language model cannot be used until the user does something about it. The run can be resumed.
        """
        with self.research.run.exclusive():
            report = self.research.bring_in_order(self.proposer.spent_usd)
            self._event("in order", {"actions": report.actions, "in_flight": report.in_flight})
            for experiment in Experiment.in_flight(self.research.run):
                self._finish(experiment)
            stopped = None
            while stopped is None and (full := self.research.room()) is None:
                stopped = self._broke() or self._round()
            if stopped is None and full is not None and not full.is_complete:
                stopped = full.reason
            return Outcome(self.research.now.rounds_done(), stopped)

    def _broke(self) -> str | None:
        return self._unpaid or (None if self.proposer.has_budget() else NO_MONEY)

    def _round(self) -> str | None:
        """One round; why there can be no further one."""
        crash_point("before proposing")
        context = self.research.now.context()
        self._event("round", {"round": context.round, "planned": context.rounds_planned})
        try:
            proposal = self.proposer.propose(context)
        except RoleFailure as failure:
            if (unpaid := _unpaid(failure)) is not None:
                return unpaid  # nobody was asked, so there is no round: with more money the run resumes here
            if failure.kind in LASTING:
                raise self._unavailable(failure) from failure
            self._launch(self.research.propose_nothing(failure))
            return None
        except NothingLeft as error:
            return error.what
        self._event("proposed", {"round": context.round, **proposal.idea})
        self._launch(self.research.propose(proposal))
        return None

    def _launch(self, experiment: Experiment) -> None:
        """A round that was just proposed."""
        self._finish(experiment)

    def _runner(self, experiment: Experiment) -> Runner:
        facts = {"round": experiment.name.round, "round_dir": str(experiment.files.path)}
        return self.research.runner(lambda stage: self._event(stage, facts))

    def _finish(self, experiment: Experiment) -> None:
        """All that is left of a round, wherever an earlier process stopped."""
        number = experiment.name.round
        if experiment.needs_code:
            self._code(experiment)
        if not experiment.is_over:
            crash_point("before training")
            experiment.train(self._runner(experiment))
            self._event("trained", {"round": number, **experiment.row})
            context = self.research.now.context(number)
            experiment.analyse(lambda row: self.proposer.analyse(context, row, experiment.files))
            verifier = self.research.verifier(self._progress)
            if verifier is not None and experiment.is_candidate:
                self._event("verifying", {"round": number})
                experiment.verify(verifier)
        crash_point("before recording")
        row = self.research.record(experiment, cost_usd=self.proposer.spent_usd(number))
        self._event("recorded", {**row, "front": len(read_front(self.research.run.files.path))})
        if self._lasting is not None:
            raise self._unavailable(self._lasting) from self._lasting

    def _code(self, experiment: Experiment) -> None:
        worktree = experiment.prepare()
        if worktree is None:
            return
        context, proposal = self.research.now.context(experiment.name.round), experiment.proposal
        if not proposal.is_coded:
            experiment.worktree.reset(experiment.name.branch)  # what a killed Coder left half edited
            try:
                proposal = self.proposer.code(context, proposal, worktree)
            except RoleFailure as failure:
                experiment.fail(failure)
                self._unpaid = _unpaid(failure)
                self._lasting = failure if failure.kind in LASTING else None
                return
        experiment.code(proposal, context)

    def _unavailable(self, failure: RoleFailure) -> UnavailableError:
        first = f"{failure.hint}; then " if failure.hint else ""
        hint = f"{first}resume the run {self.research.run.run_id}"
        return UnavailableError(
            f"the {failure.role} gave no answer ({failure.kind}): {failure.what}",
            where=failure.where,
            hint=hint,
        )


def _unpaid(failure: RoleFailure) -> str | None:
    """Why the run ends: the budget has no room for the call. A call that was made and stopped ends its round only."""
    return f"{NO_MONEY}: {failure.what}" if failure.kind == "budget" and failure.calls == 0 else None
