"""The loop: rounds of one author, until all are done or a budget is used up. What was in flight is taken up first."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from autoqec.agents.failures import RoleFailure
from autoqec.agents.schemas import CoderResponse, IdeatorResponse
from autoqec.errors import AutoQECError
from autoqec.eval import pareto
from autoqec.eval.pareto import read_front
from autoqec.io.crash_points import crash_point
from autoqec.runs import run_log
from autoqec.runs.experiment import RoundLifecycle
from autoqec.runs.proposer_adapters import Author
from autoqec.runs.reconcile import Report, reconcile
from autoqec.runs.research_run import Progress, Steps
from autoqec.runs.snapshot import rounds_of, seconds_of
from autoqec.search.draft import NothingLeft
from autoqec.search.proposal import Row

Event = Callable[[str, dict[str, Any]], None]
"""Called with what happened and its facts: for whoever watches."""

NO_MONEY = "the budget of money is used up"


class Paused(AutoQECError):
    """Something is left for a person to decide before the run can go on."""

    exit_code = 3


@dataclass(frozen=True)
class Outcome:
    """stopped: why before the planned rounds were done; None if they are."""

    rounds: int
    stopped: str | None


def bring_in_order(steps: Steps, spent_usd: Callable[[int], float | None] = lambda _: None) -> Report:
    """Start-up reconciliation; the caller holds the run. spent_usd: what the answers of a round cost."""
    for lifecycle in RoundLifecycle.in_flight(steps.run):
        _note_rest(lifecycle)
    report = reconcile(steps.run, record=lambda over: steps.record(over, cost_usd=spent_usd(over.name.round)))
    if report.pauses:
        raise Paused(
            "; ".join(report.pauses),
            where=str(steps.run.files.path),
            hint="decide about it by hand; `autoqec reconcile` says when nothing is left",
        )
    if not steps.plan.is_smoke:
        pareto.publish(steps.run.files.path)
    run_log.publish(steps.run, steps.plan, steps.now.context())
    return report


def _note_rest(lifecycle: RoundLifecycle) -> None:
    """The time since the last sign of life of a round that a process left in flight: it is none of its budget."""
    journal, files = lifecycle.run.files.journal(lifecycle.name.round), lifecycle.files
    seen = [path.stat().st_mtime for path in (journal, files.path, files.train_log) if path.exists()]
    passed = time.time() - max(seen)
    rested = float(lifecycle.journal.details.get("rested_s") or 0.0)
    lifecycle.note(rested_s=round(rested + max(passed, 0.0), 1))


class Loop:
    def __init__(
        self, steps: Steps, author: Author, *, event: Event | None = None, progress: Progress | None = None
    ) -> None:
        self.steps, self.author = steps, author
        self._event = event or (lambda _what, _facts: None)
        self._progress = progress
        self._unpaid: str | None = None

    def run(self) -> Outcome:
        with self.steps.run.exclusive():
            report = bring_in_order(self.steps, self.author.spent_usd)
            self._event("in order", {"actions": report.actions, "in_flight": report.in_flight})
            for lifecycle in RoundLifecycle.in_flight(self.steps.run):
                self._finish(lifecycle)
            stopped = None
            while stopped is None and self.steps.now.rounds_done() < self.steps.plan.rounds:
                stopped = self._stop() or self._round()
            return Outcome(self.steps.now.rounds_done(), stopped)

    def _stop(self) -> str | None:
        left = self.steps.now.seconds_left()
        if left is not None and left <= 0:
            return f"the budget of {self.steps.plan.budget_minutes:g} minutes is used up"
        return self._unpaid or (None if self.author.has_budget() else NO_MONEY)

    def _round(self) -> str | None:
        """One round; why there can be no further one."""
        crash_point("before proposing")
        context = self.steps.now.context()
        self._event("round", {"round": context.round, "planned": context.rounds_planned})
        try:
            idea = self.author.ideate(context)
        except RoleFailure as failure:
            if (unpaid := _unpaid(failure)) is not None:
                return unpaid  # nobody was asked, so there is no round: more money takes the run up here
            self._finish(self.steps.fail(failure))
            return None
        except NothingLeft as error:
            return error.what
        self._event("proposed", {"round": context.round, **idea.said.model_dump(mode="json")})
        self._finish(self.steps.propose(idea.said, origin=idea.origin, code=idea.code))
        return None

    def _finish(self, lifecycle: RoundLifecycle) -> Row:
        """All that is left of a round, wherever an earlier process stopped."""
        number = lifecycle.name.round
        if lifecycle.journal.commit_sha is None:
            self._code(lifecycle)
        if not lifecycle.is_over:
            crash_point("before training")
            self.steps.train(lifecycle)
            self._event("trained", {"round": number, **self.steps.row_so_far(lifecycle)})
            self._analyse(lifecycle)
            if self.steps.analyse(lifecycle)["verdict"] == "candidate" and not self.steps.plan.is_smoke:
                self._event("verifying", {"round": number})
                self.steps.verify(lifecycle, self._progress)
        crash_point("before recording")
        row = self.steps.record(lifecycle, cost_usd=self.author.spent_usd(number))
        self._event("recorded", {**row, "front": len(read_front(self.steps.run.files.path))})
        return row

    def _code(self, lifecycle: RoundLifecycle) -> None:
        if self.steps.end_failed(lifecycle):
            return
        worktree = lifecycle.prepare()
        if lifecycle.is_over or worktree is None:
            return
        if lifecycle.journal.compose_mode == "pure":
            self.steps.commit(lifecycle)
            return
        details = lifecycle.journal.details
        said, origin = details.get("coder"), None
        if said is None:
            lifecycle.worktree.reset(lifecycle.name.branch)  # what a killed Coder left half edited
            context = self.steps.now.context(lifecycle.name.round)
            try:
                code = self.author.code(context, IdeatorResponse.model_validate(details["idea"]), worktree)
            except RoleFailure as failure:
                self.steps.fail(failure, lifecycle)
                self._unpaid = _unpaid(failure)
                return
            said, origin = code.said.model_dump(mode="json"), code.origin
        self.steps.code(lifecycle, CoderResponse.model_validate(said), is_final=True, origin=origin)

    def _analyse(self, lifecycle: RoundLifecycle) -> None:
        if lifecycle.journal.details.get("analysis") is None:
            context = self.steps.now.context(lifecycle.name.round)
            row = self.steps.row_so_far(lifecycle)
            self.steps.analyse(lifecycle, self.author.analyse(context, row, lifecycle.files))


def _unpaid(failure: RoleFailure) -> str | None:
    """Why the run ends: the budget has no room for the call. A call that was made and stopped is that round's matter."""
    return f"{NO_MONEY}: {failure.what}" if failure.kind == "budget" and failure.calls == 0 else None


def results(steps: Steps) -> dict[str, Any]:
    """What a run has come to, for its end."""
    run = steps.run
    rows = rounds_of(run.history.rows())
    front = [member.model_dump(mode="json") for member in read_front(run.files.path)]
    by_round = {row["round"]: row for row in rows}
    for member in front:
        row = by_round.get(member["round"], {})  # none yet, of a round that was killed on its way to history
        verified = row.get("verification") or {}
        member["ratio"] = verified.get("ratio")
        member["target"] = verified.get("target")
    verdicts: dict[str, int] = {}
    for row in rows:
        said = str(row.get("verdict") or row["status"])
        verdicts[said] = verdicts.get(said, 0) + 1
    return {
        "run_id": run.run_id,
        "run_dir": str(run.files.path),
        "env": run.info.env,
        "rounds": len(rows),
        "rounds_planned": steps.plan.rounds,
        "verdicts": verdicts,
        "verified": verdicts.get("VERIFIED", 0),
        "front": front,
        "best": max(front, key=lambda member: member["delta_vs_baseline_holdout"], default=None),
        "candidates": run_log.candidates(rows) if steps.plan.is_smoke else None,
        "seconds": round(sum(map(seconds_of, rows)), 1),
        "cost_usd": round(sum(row.get("cost_usd") or 0.0 for row in rows), 6),
    }
