"""`autoqec.run` and `autoqec.read_run`: a run of the research loop."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from autoqec.api.frames import frame
from autoqec.errors import InputError
from autoqec.eval.pareto import best_of
from autoqec.finds.predecoder import Predecoder, load_predecoder
from autoqec.layout import RunDir, in_runs, runs_folder
from autoqec.runner.safety import default_memory_gb
from autoqec.runs import fork_graph
from autoqec.runs.backing import backed_front
from autoqec.runs.history import rounds_of
from autoqec.runs.loop import Loop
from autoqec.runs.names import check_run_id
from autoqec.runs.overview import overview
from autoqec.runs.plan import Plan
from autoqec.runs.proposer_adapters import NAMES, choose, make_adapter
from autoqec.runs.repository import open_default
from autoqec.runs.research_run import ResearchRun
from autoqec.runs.run import Run
from autoqec.runs.run_info import locate_env

if TYPE_CHECKING:
    import pandas

    from autoqec.eval.front_schema import ParetoRow

Event = Callable[[str, dict[str, Any]], None]


@dataclass(frozen=True)
class RunRecord:
    """A run as its folder has it. path: the folder. It is read anew with every property."""

    path: Path

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
    workspace: str | Path | None = None,
    budget_minutes: float | None = None,
    budget_usd: float | None = None,
    verify_shots: int | None = None,
    event: Event | None = None,
) -> RunRecord:
    """Discovers predecoders: propose, train, analyse, verify, round by round. A stopped run of the same `run_id` resumes.

    Args:
        env: the name of a builtin environment, or a YAML file.
        rounds: in all. Default: 10, or those of the run that resumes.
        proposer: "llm", "optuna", "evolution" or "templates". Default: llm if one is configured, else optuna.
        profile: budgets of a round. Default: dev.
        run_id: names the run; all its seeds are derived from it.
        workspace: folder whose `runs/` gets the run. Default: the working directory.
        budget_minutes, budget_usd: maximum time of rounds, and cost of language models.
        verify_shots: minimum shots per p of a verification.
        event: called with what happened, and its facts.
    """
    folder = Path.cwd() if workspace is None else Path(workspace).resolve()
    name, _ = choose(proposer)
    if name not in NAMES:
        raise InputError(f"unknown proposer {name!r}", where="proposer", hint=f"known: {', '.join(NAMES)}")
    locate_env(str(env))
    made = None if run_id is None else RunDir(runs_folder(folder) / check_run_id(run_id))
    if made is not None and made.plan.exists():
        research = _resumed(made.path, str(env), proposer, profile, verify_shots)
        usd = None if budget_usd is None else Decimal(str(budget_usd))
        asked = {"rounds": rounds, "budget_minutes": budget_minutes, "budget_usd": usd}
        if changes := {key: value for key, value in asked.items() if value is not None}:
            with research.run.exclusive():
                research.replan(**changes)
    else:
        plan = Plan(
            rounds=10 if rounds is None else rounds,
            proposer=name,
            profile=profile or "dev",
            verify_shots=verify_shots,
            budget_minutes=budget_minutes,
            budget_usd=None if budget_usd is None else Decimal(str(budget_usd)),
            memory_gb=default_memory_gb(),
        )
        research = ResearchRun.begin(folder, str(env), open_default(folder), plan, run_id)
    Loop(research, make_adapter(research.plan, research.run.files), event=event).run()
    return RunRecord(research.run.files.path)


def _resumed(
    folder: Path, env: str, proposer: str | None, profile: str | None, verify_shots: int | None
) -> ResearchRun:
    """A run that is there; what it was started with stays."""
    research = ResearchRun.open(folder)
    plan = research.plan
    for where, asked, planned in (
        ("env", locate_env(env)[0], research.run.info.env),
        ("proposer", proposer, plan.proposer),
        ("profile", profile, plan.profile),
        ("verify_shots", verify_shots, plan.verify_shots),
    ):
        if asked is not None and asked != planned:
            raise InputError(
                f"run {research.run.run_id} was started with {planned}, not {asked}",
                where=where,
                hint="leave it as it was, or choose another run_id",
            )
    return research
