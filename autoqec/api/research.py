"""`autoqec.run` and `autoqec.read_run`: a run of the research loop."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from autoqec.api.frames import frame
from autoqec.api.planning import Asked, Event, ignore
from autoqec.errors import InputError
from autoqec.eval.pareto import best_of
from autoqec.executors.registry import LOCAL, opened
from autoqec.finds.predecoder import Predecoder, load_predecoder
from autoqec.layout import in_runs, runs_folder
from autoqec.runs import fork_graph
from autoqec.runs.backing import backed_front
from autoqec.runs.history import rounds_of
from autoqec.runs.loop import Loop
from autoqec.runs.overview import overview
from autoqec.runs.parallel_loop import ParallelLoop
from autoqec.runs.plan import read_plan
from autoqec.runs.proposer_adapters import make_adapter
from autoqec.runs.research_run import Progress
from autoqec.runs.results import results
from autoqec.runs.run import Run
from autoqec.runs.training_worker import training

if TYPE_CHECKING:
    import pandas

    from autoqec.eval.front_schema import ParetoRow
    from autoqec.runs.plan import Plan


@dataclass(frozen=True)
class RunRecord:
    """A run as its folder has it, read anew with every property.

    path: the folder. stopped: of a run that `run` has just left, why before all its rounds were done.
    """

    path: Path
    stopped: str | None = None

    @property
    def run_id(self) -> str:
        return self._run.run_id

    @property
    def env(self) -> str:
        """Builtin name or file of the environment."""
        return self._run.info.env

    @property
    def rounds(self) -> pandas.DataFrame:
        """One line per round, as in history.jsonl."""
        return frame(rounds_of(self._run.history.rows()))

    @property
    def front(self) -> pandas.DataFrame:
        """The verified Pareto front. Rows that no report of this machine's verifier backs are left out."""
        return frame(row.model_dump(mode="json") for row in self._front)

    @property
    def fork_graph(self) -> pandas.DataFrame:
        """One line per round: id, parents, and what became of it."""
        return frame(fork_graph.checked(self._run)["nodes"])

    @property
    def plan(self) -> Plan:
        """What it was asked to do."""
        return read_plan(self._run.files)

    def results(self) -> dict[str, Any]:
        """What it has come to, as `autoqec run --json` prints it."""
        return {**results(self._run, self.plan), "stopped": self.stopped}

    def predecoder(self, number: int | None = None, **options: Any) -> Predecoder:
        """The predecoder of a round; without a number, of the best round on the front, which is chosen by its test and not by the
        estimate that is quoted. Options as of `load_predecoder`."""
        if number is None:
            if (best := best_of(self._front)) is None:
                raise InputError(
                    "no round of it is verified here", where=str(self.path), hint="give the number of a round"
                )
            number = best.round
        run = self._run
        return load_predecoder(run.files.round(number).path, **{"repo": run.repository.root, **options})

    @property
    def _run(self) -> Run:
        return Run.open(self.path)

    @property
    def _front(self) -> list[ParetoRow]:
        return list(backed_front(self.path).archive.front)


def read_run(run: str | Path | None = None) -> RunRecord:
    """A run by its folder, or by its id in `runs/` of the working directory; without either, the newest one there.

    Examples:
        >>> import autoqec
        >>> autoqec.read_run("20261115-113000").front[["round", "delta_vs_baseline_holdout"]]  # doctest: +SKIP
    """
    if run is None:
        known = overview(Path.cwd())
        if not known:
            raise InputError(
                "has no runs", where=str(runs_folder(Path.cwd())), hint="give the folder of a run"
            )
        run = known[0].run_id
    return RunRecord(Run.open(in_runs(run, Path.cwd())).files.path)


def run(
    env: str | Path,
    *,
    rounds: int | None = None,
    proposer: str | None = None,
    profile: Literal["dev", "prod"] | None = None,
    run_id: str | None = None,
    resume: bool | None = None,
    workspace: str | Path | None = None,
    own_repository: bool = False,
    budget_minutes: float | None = None,
    budget_usd: Decimal | float | None = None,
    round_minutes: float | None = None,
    refuse_over_budget: bool = False,
    verify_shots: int | None = None,
    no_llm: bool = False,
    parallel: int | None = None,
    executor: str | None = None,
    round_cpus: float | None = None,
    round_gpus: float | None = None,
    event: Event = ignore,
    progress: Progress | None = None,
) -> RunRecord:
    """Discovers predecoders: propose, train, analyse, verify, round by round. A stopped run of the same `run_id` resumes.

    Args:
        env: the name of a builtin environment, or a YAML file.
        rounds: in all. Default: 10, or those of the run that resumes.
        proposer: "llm", "optuna", "evolution" or "templates". Default: llm if one is configured, else optuna.
        profile: budgets of a round. Default: dev.
        run_id: names the run; all its seeds are derived from it.
        resume: whether the run of that id has to be there, or must not. Default: either.
        workspace: folder whose `runs/` gets the run. Default: the working directory.
        own_repository: keep the branches in `.autoqec/` of the workspace, and not in AutoQEC's checkout.
        budget_minutes, budget_usd: maximum time of rounds, and cost of language models.
        round_minutes: maximum time of one round's training and validation. Default: its profile's.
        refuse_over_budget: refuse configs beyond the environment's budgets, which else run and are marked.
        verify_shots: minimum shots per p of a verification.
        no_llm: smoke loop of random templates, without verification.
        parallel: rounds in flight at a time. Default: 1, or that of the run that resumes.
        executor: where rounds train and are verified: "local", "ray" for a cluster of this machine, or "ray:ADDRESS". Default: local.
        round_cpus, round_gpus: what a training takes of a node, where several run or a cluster does; GPUs may be a fraction. Default: its
            share of what there is.
        event: called with what happened, and its facts.
        progress: of verifications, called with (what, tasks done, tasks there are).

    Rounds and budgets of a run that resumes may change; what else it was started with stays.
    """
    asked = Asked(
        env=str(env),
        folder=Path.cwd() if workspace is None else Path(workspace).resolve(),
        run_id=run_id,
        resume=resume,
        rounds=rounds,
        proposer=proposer,
        profile=profile,
        no_llm=no_llm,
        budget_minutes=budget_minutes,
        budget_usd=budget_usd,
        round_minutes=round_minutes,
        verify_shots=verify_shots,
        refuse_over_budget=refuse_over_budget,
        own_repository=own_repository,
        parallel=parallel,
        event=event,
    )
    with opened(executor or LOCAL) as machines:
        machines.check(round_cpus or 1.0, round_gpus or 0.0)
        research, changes = asked.resumed() if asked.resumes else (asked.started(), {})
        adapter = make_adapter(research.plan.model_copy(update=changes), research.run.files)
        if changes:
            with research.run.exclusive():
                research.replan(**changes)
        event("started", {"run_id": research.run.run_id, "run_dir": str(research.run.files.path)})
        watch: dict[str, Any] = {"event": event, "progress": progress}
        if research.plan.parallel == 1 and machines.name == LOCAL:
            outcome = Loop(research, adapter, **watch).run()
        else:
            cpus, gpus = machines.share(research.plan.parallel)
            program = training(round_cpus or cpus, gpus if round_gpus is None else round_gpus)
            outcome = ParallelLoop(research, adapter, machines, program, **watch).run()
    return RunRecord(research.run.files.path, outcome.stopped)
