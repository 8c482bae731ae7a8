"""The rounds of a run as a review sees them: history row, config and verification report together."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from autoqec.agents.accounting import Ledger
from autoqec.decoders.dsl_schema import PredecoderDSL
from autoqec.errors import AutoQECError, InputError
from autoqec.eval.pareto import Archive
from autoqec.eval.report_store import written_report
from autoqec.eval.schema import VerifyReport
from autoqec.io.locks import is_held
from autoqec.io.validate import validate_model
from autoqec.layout import RoundDir, RunDir
from autoqec.report.reading import Gaps, Row, history_of, json_of, number, quote, real, yaml_of
from autoqec.runs.backing import ELSEWHERE, BackedFront, backed_front
from autoqec.runs.history import FOLLOW_UPS, StoredRow
from autoqec.search.analyst import gains
from autoqec.search.distance import config_of
from autoqec.stats.target import Target

Interval = tuple[float, float]


@dataclass(frozen=True)
class Reviewed:
    """One round with its history row, or its metrics where it has none. report: the verifier's own on this very round, and no other.
    not_backed: why the report that lies there, or that the row speaks of, is none. usd: of its calls, None where nothing was
    recorded."""

    number: int
    row: Row
    dsl: PredecoderDSL | None
    report: VerifyReport | None
    not_backed: str | None
    usd: float | None

    @property
    def status(self) -> str:
        return quote(self.row.get("status"), 40)

    @property
    def is_ok(self) -> bool:
        return self.row.get("status") == "ok"

    @property
    def verdict(self) -> str | None:
        """The verifier's, else the analyst's."""
        verdict = self.report.verdict if self.report is not None else self.row.get("verdict")
        if self.report is None and verdict == "VERIFIED":
            return "not backed"
        return None if verdict is None else quote(verdict, 40)

    @property
    def family(self) -> str | None:
        """What kind of experiment it is: type, output mode and what it is trained for."""
        if self.dsl is None:
            return None
        trained = self.dsl.training.loss if self.dsl.training.epochs else "untrained"
        code = ", custom code" if self.dsl.tier == "2" else ""
        return f"{self.dsl.type}, {self.dsl.output_mode}, {trained}{code}"

    @property
    def gains(self) -> bool:
        """On validation shots, beyond its interval."""
        return gains(self.row)

    @property
    def delta(self) -> float | None:
        return real(self.row.get("delta_ler"))

    @property
    def interval(self) -> Interval | None:
        low, high = real(self.row.get("delta_ler_ci_low")), real(self.row.get("delta_ler_ci_high"))
        return None if low is None or high is None else (low, high)

    @property
    def costs(self) -> tuple[int, int] | None:
        flops, params = number(self.row.get("flops_per_syndrome")), number(self.row.get("n_params"))
        return None if flops is None or params is None else (flops, params)

    @property
    def target(self) -> str | None:
        """Whether the environment's target is reached: on the verifier's shots, else on those of validation."""
        if self.report is not None and self.report.target is not None:
            return self.report.target.reached
        found = self.row.get("target")
        return None if found is None else Target.model_validate(found).reached

    @property
    def seconds(self) -> float:
        """Training, validation and verification."""
        spent = sum(real(self.row.get(name)) or 0.0 for name in ("train_wallclock_s", "eval_wallclock_s"))
        return spent + ((self.report.seconds or 0.0) if self.report is not None else 0.0)

    @property
    def hypothesis(self) -> str:
        return quote(self.row.get("hypothesis") or "", 200)


@dataclass(frozen=True)
class RunRecord:
    """Everything a review is a function of. unrecorded: rounds with a folder and no row, on which no process is at work; those that
    have metrics are among the rounds. follow_ups: rows of branches that reconciliation found or missed."""

    path: Path
    rounds: tuple[Reviewed, ...]
    follow_ups: tuple[Row, ...]
    unrecorded: tuple[int, ...]
    front: BackedFront
    spent_usd: float | None
    gaps: tuple[str, ...]

    @property
    def archive(self) -> Archive:
        """The rows of the front that are backed."""
        return self.front.archive

    @property
    def is_backed(self) -> bool:
        return self.front.is_whole and all(one.not_backed is None for one in self.rounds)


def read_run(folder: Path) -> RunRecord:
    """
    Raises:
        InputError: the folder holds no run.
    """
    files = RunDir(folder)
    if not any(file.is_file() for file in (files.history, files.about, files.pareto)) and not files.rounds():
        raise InputError(
            "holds no run" if folder.is_dir() else "is not a folder",
            where=str(folder),
            hint="give the folder of a run, with history.jsonl",
        )
    gaps: Gaps = []
    ledger = Ledger(files.llm_ledger) if files.llm_ledger.is_file() else None
    rounds = []
    history = history_of(files, gaps)
    for row in history:
        n = number(row.get("round"))
        if n is not None and row.get("status") not in FOLLOW_UPS and _is_valid(row, n, gaps):
            rounds.append(_round(files.round(n), n, row, ledger, gaps))
    recorded = {one.number for one in rounds}
    lost = [n for n in files.rounds() if n not in recorded and not is_held(files.guard(n))]
    for n in lost:
        row = json_of(files.round(n).metrics, [], needed=False) or {}
        if row and _is_valid({**row, "round": n}, n, gaps):
            rounds.append(_round(files.round(n), n, {**row, "round": n}, ledger, gaps))
    rounds.sort(key=lambda one: one.number)
    return RunRecord(
        path=folder,
        rounds=tuple(rounds),
        follow_ups=tuple(row for row in history if row.get("status") in FOLLOW_UPS),
        unrecorded=tuple(lost),
        front=_front(folder, gaps),
        spent_usd=_spent(ledger, rounds, gaps),
        gaps=tuple(dict.fromkeys(gaps)),
    )


def _is_valid(row: Row, n: int, gaps: Gaps) -> bool:
    try:
        validate_model(row, StoredRow, where=f"round {n}")
    except AutoQECError as error:
        gaps.append(f"the row of round {n} breaks the rules: {quote(error)}")
        return False
    return True


def _round(files: RoundDir, n: int, row: Row, ledger: Ledger | None, gaps: Gaps) -> Reviewed:
    own: Gaps = []
    dsl = config_of(row)
    if dsl is None and (config := yaml_of(files.config, own, needed=False)) is not None:
        try:
            dsl = PredecoderDSL.model_validate(config)
        except ValidationError:
            dsl = None  # a round that was refused: its row says so
    report = not_backed = None
    if json_of(files.report, own, needed=False) is not None or row.get("verdict") == "VERIFIED":
        try:
            report = _report(files, row)
        except AutoQECError as error:
            not_backed = quote(error.what)
            own.append(f"not backed by a report of the verifier here: {not_backed} ({ELSEWHERE})")
    gaps += [f"round {n}: {gap}" for gap in own]
    usd = real(row.get("cost_usd"))
    if usd is None and ledger is not None:
        usd = _total(ledger, n)
    return Reviewed(n, row, dsl, report, not_backed, usd)


def _report(files: RoundDir, row: Row) -> VerifyReport:
    report = written_report(files.path)
    if (report.branch, report.commit_sha) != (row.get("branch"), row.get("commit_sha")):
        raise InputError("is about another commit", where=files.report.name)
    return report


def _total(ledger: Ledger, n: int | None) -> float | None:
    try:
        return ledger.totals(round=n).spent_usd
    except (AutoQECError, KeyError, TypeError):
        return None


def _spent(ledger: Ledger | None, rounds: list[Reviewed], gaps: Gaps) -> float | None:
    if ledger is not None:
        total = _total(ledger, None)
        if total is None:
            gaps.append("llm_ledger.jsonl cannot be read")
        return total
    known = [one.usd for one in rounds if one.usd is not None]
    return sum(known) if known else None


def _front(folder: Path, gaps: Gaps) -> BackedFront:
    try:
        found = backed_front(folder)
    except AutoQECError as error:
        gaps.append(f"the front cannot be read: {quote(error)}")
        return BackedFront(Archive())
    if found.remark is not None:
        gaps.append(found.remark)
    return found
