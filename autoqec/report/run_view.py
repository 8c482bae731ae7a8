"""A run folder as the plots, the report page and the live views see it: what a review reads, and who made it, for what, with which plan.

Reading changes nothing in the folder, and takes it in any state: half-written, torn, or made by somebody else.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from autoqec.decoders.dsl_schema import PredecoderDSL, canonical_dict
from autoqec.envs.distances import distance_of
from autoqec.envs.environment import Environment
from autoqec.envs.load import load_env
from autoqec.errors import AutoQECError
from autoqec.eval.pareto import ParetoRow, best_of
from autoqec.eval.schema import VerifyReport
from autoqec.io.locks import is_held
from autoqec.io.validate import validate_model
from autoqec.layout import RoundDir, RunDir
from autoqec.report.diagnose.loss_curve import LossCurve
from autoqec.report.reading import Gaps, json_of, quote, real, text_of
from autoqec.report.review.rounds import Reviewed, RunRecord, read_run
from autoqec.runs.plan import Plan
from autoqec.runs.run_info import RunInfo
from autoqec.search.proposal import BASELINE

State = Literal["running", "complete", "unfinished"]


@dataclass(frozen=True)
class RunView:
    """info, plan: None where their files are missing or not what they should be; gaps: what could not be read, in sentences."""

    record: RunRecord
    info: RunInfo | None
    plan: Plan | None
    gaps: tuple[str, ...]

    @property
    def files(self) -> RunDir:
        return RunDir(self.record.path)

    @property
    def run_id(self) -> str:
        return quote(self.info.run_id if self.info is not None else self.record.path.resolve().name, 60)

    @property
    def rounds(self) -> tuple[Reviewed, ...]:
        return self.record.rounds

    @property
    def verified(self) -> list[tuple[Reviewed, VerifyReport]]:
        """The rounds with a report of this machine's verifier that says VERIFIED."""
        return [
            (one, one.report)
            for one in self.rounds
            if one.report is not None and one.report.verdict == "VERIFIED"
        ]

    @property
    def best(self) -> ParetoRow | None:
        """The member of the front that its test chose; its estimate is what is quoted."""
        return best_of(self.record.archive.front)

    @property
    def best_report(self) -> VerifyReport | None:
        best = self.best
        return None if best is None else self.record.front.reports.get(best.round)

    @property
    def env_name(self) -> str:
        named = [report.env_name for _, report in self.verified if report.env_name]
        given = named[0] if named else None if self.info is None else Path(self.info.env).stem
        return quote(given or "unknown environment", 80)

    @property
    def p(self) -> float | None:
        """The physical error rate that headline figures are of."""
        told = [report.reference_p for _, report in self.verified]
        told += [real(one.row.get("reference_p")) for one in self.rounds]
        return next((p for p in told if p is not None), None)

    @property
    def heading(self) -> str:
        """What every title says: the environment, and p."""
        return self.env_name if self.p is None else f"{self.env_name}, p = {self.p:g}"

    @property
    def state(self) -> State:
        if is_held(self.files.lock):
            return "running"
        planned = None if self.plan is None else self.plan.rounds
        return "complete" if planned is not None and len(self.rounds) >= planned else "unfinished"

    @cached_property
    def env(self) -> Environment | None:
        """None where its file is not here."""
        try:
            return None if self.info is None else load_env(self.info.env)
        except AutoQECError:
            return None

    @property
    def distance(self) -> int | None:
        return None if self.env is None else distance_of(self.env)

    def round(self, number: int) -> Reviewed | None:
        return next((one for one in self.rounds if one.number == number), None)

    def loss(self, number: int) -> LossCurve:
        """Of its training, also of one that is under way behind walls; empty where there is none."""
        files = self.files.round(number)
        for log in (RoundDir(files.confined).train_log, files.train_log):
            if text := text_of(log, [], needed=False):
                return LossCurve.parse(text)
        return LossCurve()


def view_run(folder: Path) -> RunView:
    """
    Raises:
        InputError: the folder holds no run.
    """
    record = read_run(folder)
    files, gaps = RunDir(folder), [*record.gaps]
    info = _model(files.about, RunInfo, gaps)
    plan = _model(files.plan, Plan, gaps) if files.plan.exists() else None
    return RunView(record, info, plan, tuple(gaps))


def _model(path: Path, model: Any, gaps: Gaps) -> Any:
    data = json_of(path, gaps)
    if data is None:
        return None
    try:
        return validate_model(data, model, where=path.name)
    except AutoQECError as error:
        gaps.append(f"{path.name} is not what it should be: {quote(error)}")
        return None


def config_of(one: Reviewed) -> dict[str, str]:
    """The options of a round's config by their path, `training.epochs`, as text."""
    return {} if one.dsl is None else options_of(one.dsl)


def options_of(dsl: PredecoderDSL) -> dict[str, str]:
    return dict(sorted(_flat(canonical_dict(dsl), "")))


def _flat(value: Any, path: str) -> list[tuple[str, str]]:
    if isinstance(value, dict):
        return [
            pair for key, below in value.items() for pair in _flat(below, f"{path}.{key}" if path else key)
        ]
    return [(path, quote(value))]


def parents_of(one: Reviewed) -> list[str]:
    """The branches it came from, in merge order; none of a round that says nothing of it."""
    fork = one.row.get("fork_from")
    return [] if fork is None else [str(fork)] if isinstance(fork, str) else [str(name) for name in fork]


def changes(view: RunView, one: Reviewed) -> list[tuple[str, str, str, str]]:
    """How its config differs from that of each parent: (parent, option, before, after). Nothing for a fork of the baseline."""
    own = config_of(one)
    found = []
    for name in parents_of(one):
        parent = next((other for other in view.rounds if other.row.get("branch") == name), None)
        if name == BASELINE or parent is None or not own:
            continue
        before = config_of(parent)
        for option in sorted({*own, *before}):
            if own.get(option) != before.get(option):
                found.append(
                    (f"round {parent.number}", option, before.get(option, "-"), own.get(option, "-"))
                )
    return found
