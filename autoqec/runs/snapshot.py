"""What a round is a function of: the `RoundContext`, built anew from disk each time."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

from autoqec.decoders.dsl_schema import canonical_dict
from autoqec.decoders.reference_p import reference_p
from autoqec.envs.environment import Environment
from autoqec.envs.load import load_env
from autoqec.envs.seeds import derive_seed
from autoqec.eval.pareto import read_front
from autoqec.io.clock import timestamp
from autoqec.runs.history import rounds_of, seconds_of
from autoqec.runs.plan import Plan
from autoqec.runs.round_state import RoundState
from autoqec.runs.run import Run
from autoqec.search.proposal import BASELINE, BASELINE_CONFIG, Branch, EnvFacts, RoundContext, Row


class Snapshots:
    """Of one run; the environment is read once."""

    def __init__(self, run: Run, plan: Plan) -> None:
        self.run, self.plan = run, plan

    @cached_property
    def env(self) -> Environment:
        return load_env(self.run.info.env)

    @cached_property
    def facts(self) -> EnvFacts:
        p = reference_p(self.env)
        return EnvFacts(self.env.spec, p, self.plan.profile, self.env.problem(p))

    def context(self, number: int | None = None) -> RoundContext:
        """For round `number`; by default the next one."""
        rows = self.run.history.rows()
        number = self.run.next_round() if number is None else number
        return RoundContext(
            env=self.facts,
            seed=derive_seed("propose", self.run.run_id, number),
            round=number,
            rounds_planned=self.plan.rounds,
            history=tuple(rounds_of(rows)),
            pareto=tuple(row.model_dump(mode="json") for row in read_front(self.run.files.path)),
            branches=self._branches(rows),
            budget_left_s=self.seconds_left(),
            memory_gb=self.plan.memory_gb / self.plan.parallel,
            checked_out=tuple(self.run.checked_out()),
            refuse_over_budget=self.plan.refuse_over_budget,
            in_flight=self._in_flight(number),
        )

    def _in_flight(self, number: int) -> tuple[Row, ...]:
        """Rounds before `number` that run side by side with it. What a round has measured is nobody's to know before it is recorded."""
        if self.plan.parallel == 1:
            return ()
        states = [RoundState(self.run, file) for file in self.run.journals() if file.journal.round < number]
        return tuple(state.proposed for state in states)

    def rounds_done(self) -> int:
        return len(rounds_of(self.run.history.rows()))

    def seconds_left(self, *, with_flight: bool = False) -> float | None:
        """Of the run's budget. Only rounds count, each for itself, so that a run may rest between two processes. with_flight: those
        that are not over count with the time that they have had."""
        if self.plan.budget_minutes is None:
            return None
        rows = self.run.history.rows()
        if with_flight and self.plan.parallel > 1:
            now = timestamp()
            flying = [file.journal for file in self.run.journals()]
            rows += [{**one.details, "started_at": one.started_at, "finished_at": now} for one in flying]
        return 60.0 * self.plan.budget_minutes - sum(map(seconds_of, rows))

    def _branches(self, rows: Sequence[Row]) -> tuple[Branch, ...]:
        there = {
            ref.removeprefix("refs/heads/") for ref in self.run.repository.reader.refs("refs/heads/exp/")
        }
        found = [Branch(BASELINE, (), canonical_dict(BASELINE_CONFIG))]
        for row in rounds_of(rows):
            branch, config, fork = row.get("branch"), row.get("dsl_config"), row.get("fork_from")
            if branch in there and config is not None and fork is not None:
                found.append(Branch(branch, (fork,) if isinstance(fork, str) else tuple(fork), config))
        return tuple(found)
