"""What stands behind a row of the front: the verifier's own report in the round's folder, and a row of the history.

The files of a front can be written by whoever can write in the run's folder. For people and exports a row counts as verified
only if it is, figure by figure, the row that the verifier's report gives. A run that was copied from another machine has no
such reports here: this verifier's ledger does not know them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from autoqec.errors import AutoQECError, InputError
from autoqec.eval.pareto import Archive, ParetoRow, archive_of, stored_rows
from autoqec.eval.report_store import written_report
from autoqec.eval.schema import VerifyReport
from autoqec.layout import RunDir
from autoqec.runs.front import front_row, origin_of
from autoqec.runs.history import HistoryStore, rounds_of
from autoqec.runs.journal import open_journals
from autoqec.runs.names import parse_branch

ELSEWHERE = "a run of another machine is checked by autoqec package-run there and autoqec verify-package here"

Origin = Mapping[str, Any]


@dataclass(frozen=True)
class Unbacked:
    """A row that is not shown as verified. reason: one sentence."""

    row: ParetoRow
    reason: str

    def to_dict(self) -> dict[str, Any]:
        return {**self.row.model_dump(mode="json"), "backed": False, "reason": self.reason}


@dataclass(frozen=True)
class BackedFront:
    """archive: the rows that are backed, and the front among them. reports: behind them, by round. lost: rounds that are VERIFIED, by an authentic report and in
    history, and stand in no file of the front although no other row is the same predecoder."""

    archive: Archive
    unbacked: tuple[Unbacked, ...] = ()
    lost: tuple[int, ...] = ()
    reports: Mapping[int, VerifyReport] = field(default_factory=dict)

    @property
    def is_whole(self) -> bool:
        return not self.unbacked and not self.lost

    @property
    def remark(self) -> str | None:
        """One line for people; None where everything is backed."""
        parts = []
        if self.unbacked:
            first = self.unbacked[0]
            parts.append(
                f"{len(self.unbacked)} rows of the front are not backed and not shown as verified: "
                + f"round {first.row.round} {first.reason}"
            )
        if self.lost:
            parts.append(f"VERIFIED rounds that the front's files miss: {', '.join(map(str, self.lost))}")
        return f"{'; '.join(parts)} ({ELSEWHERE})" if parts else None


def backed_front(run_dir: str | Path, *, home: Path | None = None) -> BackedFront:
    """The front of a run folder, checked row by row. home: of the verifier.

    Raises:
        InputError: a file of the front, or the history, is not what it should be.
    """
    files = RunDir(run_dir)
    rows = stored_rows(run_dir)
    origins = _origins(files) if rows or files.history.exists() else {}
    good, bad = [], []
    reports: dict[int, VerifyReport] = {}
    for row in rows:
        try:
            reports[row.round] = _report_of(files, row, origins.get(row.round, ()), home=home)
            good.append(row)
        except AutoQECError as error:
            bad.append(Unbacked(row, error.what))
    known = {identity for row in rows for identity in row.identities()}
    lost = [
        number
        for number, found in origins.items()
        if len(found) == 1
        and number not in {row.round for row in good}
        and _is_lost(files, found[0], known, home)
    ]
    return BackedFront(archive_of(good), tuple(bad), tuple(lost), reports)


def _report_of(
    files: RunDir, row: ParetoRow, origins: Sequence[Origin], *, home: Path | None
) -> VerifyReport:
    """The report that gives this very row; an error says why there is none. origins: what history and journals say of its round."""
    if len(origins) != 1:
        raise InputError("is not in the history" if not origins else "is in the history twice")
    report = report_behind(files, origins[0], home=home)
    made = front_row(report, origins[0], row.config_sha256).among(row.intervals_over or 1)
    if made != row:
        names = [name for name in ParetoRow.model_fields if getattr(made, name) != getattr(row, name)]
        raise InputError(f"is not what its report says: {', '.join(names)}")
    return report


def report_behind(files: RunDir, origin: Origin, *, home: Path | None = None) -> VerifyReport:
    """The verifier's own report on the round of a history row that says VERIFIED.

    Raises:
        InputError: there is none, or it is about something else.
    """
    report = written_report(files.round(origin["round"]).path, home=home)
    where = f"round {origin['round']}"
    if origin.get("verdict") not in ("VERIFIED", None):
        raise InputError(f"is {origin['verdict']} in the history", where=where)
    if parse_branch(str(origin["branch"])).round != origin["round"]:
        raise InputError(f"is branch {origin['branch']} in the history", where=where)
    if report.verdict != "VERIFIED":
        raise InputError(f"its report says {report.verdict}", where=where)
    if (report.branch, report.commit_sha) != (origin["branch"], origin["commit_sha"]):
        raise InputError("its report is about another commit", where=where)
    return report


def is_relied_on(round_dir: Path, *, home: Path | None = None) -> bool:
    """Whether the report in a round's folder is the verifier's own, and what the history of its run says: another one in its place
    would take the ground from a row of the front."""
    folder = round_dir.resolve()
    files = RunDir(folder.parent)
    try:
        verdict = written_report(folder, home=home).verdict
        rows = rounds_of(HistoryStore(files).rows())
    except AutoQECError:
        return False
    return any(f"round_{row['round']}" == folder.name and row.get("verdict") == verdict for row in rows)


def why_no_report(files: RunDir, origin: Origin, *, home: Path | None = None) -> str | None:
    """Why the VERIFIED of a history row is not backed; None if it is."""
    try:
        report_behind(files, origin, home=home)
    except AutoQECError as error:
        return error.what
    return None


def _origins(files: RunDir) -> dict[int, list[Origin]]:
    """By the number of the round. A round in flight can be on the front already: its journal speaks for it."""
    found: dict[int, list[Origin]] = {}
    attempts = set()
    for row in rounds_of(HistoryStore(files).rows()):
        number = row["round"]
        if isinstance(number, int) and not isinstance(number, bool) and 0 < number < 10**9:
            found.setdefault(number, []).append(row)
            attempts.add(row["round_attempt_id"])
    for file in open_journals(files):
        journal = file.journal
        if journal.round_attempt_id not in attempts:
            facts = {"branch": journal.name.branch, "commit_sha": journal.commit_sha, "verdict": None}
            found.setdefault(journal.round, []).append({**origin_of(journal), **facts})
    return found


def _is_lost(files: RunDir, origin: Origin, known: set[tuple[str, object]], home: Path | None) -> bool:
    if origin.get("verdict") != "VERIFIED":
        return False
    try:
        row = front_row(report_behind(files, origin, home=home), origin, None)
    except AutoQECError:
        return False
    return not _is_repeat(origin) and not any(identity in known for identity in row.identities())


def _is_repeat(origin: Origin) -> bool:
    """Whether the front had the predecoder by another round. Rows of older versions say so in words."""
    told = origin.get("verification")
    if not isinstance(told, Mapping):
        return False
    known = told.get("front_has_it")
    return known is True if known is not None else str(told.get("front_reason")).startswith("same ")
