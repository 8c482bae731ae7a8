"""The loop with several rounds in flight: trainings run side by side, and all else is done by this process, in the order of rounds.

A round is proposed when the round `parallel` places before it is recorded, and before the next one is. So what a proposal knows, the
order of history, all seeds and every share of the verifier's alpha follow from the rounds' numbers, whatever finishes first, wherever
it trains, and however often this process is killed.
"""

from __future__ import annotations

from collections import deque
from dataclasses import replace

from autoqec.errors import AutoQECError
from autoqec.executors.protocol import Executor, GivenUp, Lanes, Program
from autoqec.io.crash_points import crash_point
from autoqec.io.locks import locked
from autoqec.runner.schema import Failure, RoundMetrics, RunnerConfig
from autoqec.runner.supervise import write_metrics
from autoqec.runs.experiment import Experiment
from autoqec.runs.loop import Event, Loop, Outcome
from autoqec.runs.proposer_adapters import ProposerAdapter
from autoqec.runs.research_run import Progress, ResearchRun
from autoqec.runs.training_worker import message_of
from autoqec.runs.worktree_runner import Runner, failed_metrics


class ParallelLoop(Loop):
    """program: what trains a round on a lane of the executor."""

    def __init__(
        self,
        research: ResearchRun,
        proposer: ProposerAdapter,
        executor: Executor,
        program: Program,
        *,
        event: Event | None = None,
        progress: Progress | None = None,
    ) -> None:
        super().__init__(research, proposer, event=event, progress=progress)
        research.executor = executor
        self._executor, self._program = executor, program
        self._parallel = research.plan.parallel
        self._flying: deque[Experiment] = deque()
        self._sent: dict[int, Experiment] = {}
        self._trained: dict[int, RoundMetrics] = {}
        limits = research.run.limits
        research.run.limits = replace(limits, max_worktrees=limits.max_worktrees + self._parallel - 1)

    def run(self) -> Outcome:
        with self.research.run.exclusive():
            report = self.research.bring_in_order(self.proposer.spent_usd)
            self._event("in order", {"actions": report.actions, "in_flight": report.in_flight})
            self._lanes: Lanes = self._executor.lanes(self._program, self._parallel)
            try:
                stopped = self._rounds()
            except BaseException:
                self._lanes.stop()
                raise
            self._lanes.close()
            return Outcome(self.research.now.rounds_done(), stopped)

    def _rounds(self) -> str | None:
        """All rounds; why there can be no further one."""
        for experiment in Experiment.in_flight(self.research.run):
            self._launch(experiment)
        stopped = None
        while True:
            while stopped is None and len(self._flying) < self._parallel:
                if (full := self.research.room()) is not None:
                    stopped = None if full.is_complete else full.reason
                    break
                stopped = self._broke() or self._round()
            if not self._flying:
                return stopped
            experiment = self._flying.popleft()
            self._await(experiment)
            self._finish(experiment)

    def _launch(self, experiment: Experiment) -> None:
        self._flying.append(experiment)
        if experiment.needs_code:
            self._code(experiment)
        if experiment.is_over or experiment.journal.row is not None:
            return
        crash_point("before training")
        if experiment.journal.training:  # by a process that was killed; what that one started ends with it
            with locked(self.research.run.files.guard(experiment.name.round)):
                experiment.worktree.reset(experiment.commit())
        config = experiment.hand_out()
        number = self._lanes.send(message_of(config, self.research.subprocess_runner()))
        self._sent[number] = experiment
        facts = {"round": experiment.name.round, "round_dir": str(experiment.files.path)}
        self._event("training", facts)

    def _runner(self, experiment: Experiment) -> Runner:
        """For `train`, which asks it only where the training left no metrics that count."""
        return lambda _config: self._trained.pop(experiment.name.round)

    def _await(self, experiment: Experiment) -> None:
        """Takes answers, in whatever order they come, until that of the round is there."""
        while experiment in self._sent.values():
            try:
                number, answer = self._lanes.receive()
                metrics = RoundMetrics.model_validate_json(answer)
            except GivenUp as lost:
                number, metrics = lost.number, self._lost(self._sent[lost.number], lost)
            self._trained[self._sent.pop(number).name.round] = metrics

    def _lost(self, experiment: Experiment, lost: AutoQECError) -> RoundMetrics:
        config: RunnerConfig = experiment.hand_out()
        metrics = failed_metrics(config, experiment.commit(), Failure("killed", lost.what, hint=lost.hint))
        write_metrics(experiment.files, metrics)
        return metrics
