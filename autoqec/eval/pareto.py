"""The Pareto front of a run: the complete set of verified rounds that no other dominates, without a cap.

Axes: `delta_vs_baseline_holdout` (higher), `flops_per_syndrome` (lower), `n_params` (lower), as measured on the estimate bundle
of each round. Intervals are simultaneous over all verified rounds. A dominated round is within the noise of the front as long as no round that costs no more gains clearly more:
the lower end of that round's paired interval would have to lie above the upper end of its own. Such rounds are listed beside
the front, since fresh shots may turn the order round.

Both are functions of the set of rows, so that they do not depend on the order of admission.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from autoqec.errors import InputError
from autoqec.eval.front_schema import Origin, ParetoRow, row_of
from autoqec.io import atomic
from autoqec.io.locks import locked
from autoqec.io.strict_yaml import read_json
from autoqec.io.validate import validate_model
from autoqec.layout import RunDir
from autoqec.stats.pareto import REFERENCE, Reference, dominates, non_dominated, volume

__all__ = [
    "PREVIEW_ROWS",
    "Admission",
    "Archive",
    "Origin",
    "ParetoRow",
    "add",
    "admit",
    "archive_of",
    "best_of",
    "front",
    "hypervolume",
    "hypervolume_by_round",
    "publish",
    "read_archive",
    "read_front",
    "read_rows",
    "row_of",
]

PREVIEW_ROWS = 5
_MAX_BYTES = 64 << 20
_MAX_VALUES = 1_000_000


@dataclass(frozen=True)
class Archive:
    """All verified rounds of a run: the front, what it dominates within the noise, and what it dominates clearly. In each
    the highest delta first."""

    front: tuple[ParetoRow, ...] = ()
    within_noise: tuple[ParetoRow, ...] = ()
    dominated: tuple[ParetoRow, ...] = ()

    @property
    def rows(self) -> tuple[ParetoRow, ...]:
        return self.front + self.within_noise + self.dominated


def front(rows: Iterable[ParetoRow]) -> list[ParetoRow]:
    """The rows that no other row dominates, the highest delta first."""
    return sorted(non_dominated(rows, lambda row: row.axes), key=_rank)


def archive_of(rows: Iterable[ParetoRow]) -> Archive:
    rows = list(rows)
    rows = sorted((row.among(len(rows)) for row in rows), key=_rank)
    members = front(rows)
    on_front = {row.commit_sha for row in members}
    others = [row for row in rows if row.commit_sha not in on_front]
    clearly = {row.commit_sha for row in others if any(_clearly_beats(other, row) for other in rows)}
    return Archive(
        front=tuple(members),
        within_noise=tuple(row for row in others if row.commit_sha not in clearly),
        dominated=tuple(row for row in others if row.commit_sha in clearly),
    )


def _clearly_beats(a: ParetoRow, b: ParetoRow) -> bool:
    """A dominates B, and the paired intervals of their deltas do not overlap."""
    return dominates(a.axes, b.axes) and a.delta_ci[0] > b.delta_ci[1]


def best_of(rows: Iterable[ParetoRow]) -> ParetoRow | None:
    """The row with the largest gain in its test. Its figure is that of other shots, and so is not flattered by the choice."""
    return max(rows, key=lambda row: (row.chosen_by, -row.flops_per_syndrome), default=None)


def _rank(row: ParetoRow) -> tuple[float, int, int, str]:
    return -row.delta_vs_baseline_holdout, row.flops_per_syndrome, row.n_params, row.commit_sha


def hypervolume(rows: Iterable[ParetoRow], reference: Reference = REFERENCE) -> float:
    return volume(reference.box(*row.axes) for row in rows)


def hypervolume_by_round(
    rows: Sequence[ParetoRow], reference: Reference = REFERENCE
) -> list[tuple[int, float]]:
    """The hypervolume after each round. Give dominated rows as well: they counted in their time."""
    rounds = sorted({row.round for row in rows})
    return [(last, hypervolume((row for row in rows if row.round <= last), reference)) for last in rounds]


@dataclass(frozen=True)
class Admission:
    """What became of a row: whether it is on the front, why, and which members it pushed out. is_repeat: the front has this predecoder
    by another round."""

    entered: bool
    reason: str
    left: tuple[ParetoRow, ...] = ()
    is_repeat: bool = False


def add(archive: Archive, row: ParetoRow) -> tuple[Archive, Admission]:
    """The archive with `row`. The same row again changes nothing, and gets the answer that it has by then.

    A predecoder that is in it already, by commit, checkpoint or config, stays as it is: verifying the same
    thing again would be a second chance.
    """
    known = {identity: member for member in archive.rows for identity in member.identities()}
    for identity in row.identities():
        if identity in known and known[identity].figures != row.figures:
            return archive, Admission(False, f"same {identity[0]} as {known[identity].name}", is_repeat=True)
    there = {member.commit_sha for member in archive.rows}
    after = archive if row.commit_sha in there else archive_of((*archive.rows, row))
    row = next(member for member in after.rows if member.commit_sha == row.commit_sha)
    stays = {member.commit_sha for member in after.front}
    left = tuple(member for member in archive.front if member.commit_sha not in stays)
    return after, Admission(row in after.front, _reason(row, after, left), left)


def _reason(row: ParetoRow, archive: Archive, left: Sequence[ParetoRow]) -> str:
    better = next((member for member in archive.front if dominates(member.axes, row.axes)), None)
    if better is None:
        pushed_out = f"; it dominates {', '.join(member.name for member in left)}" if left else ""
        return f"no other dominates it{pushed_out}"
    noise = "; within the noise" if row in archive.within_noise else ""
    return (
        f"dominated by {better.name}, which costs no more and gains no less: "
        f"{_show_delta(better)} against {_show_delta(row)}{noise}"
    )


def _show_delta(row: ParetoRow) -> str:
    low, high = row.delta_ci
    return f"{row.delta_vs_baseline_holdout:.3g} [{low:.3g}, {high:.3g}]"


def admit(run_dir: str | Path, row: ParetoRow) -> Admission:
    """Offer a row to the front of a run: safe among processes, and to repeat after being killed anywhere."""
    files = _files(run_dir)
    with locked(files.pareto_lock):
        after, admission = add(read_archive(run_dir), row)
        _write_all(files, after)
    return admission


def publish(run_dir: str | Path) -> None:
    """The files of the front as they should be: empty ones before the first verified round."""
    files = _files(run_dir)
    with locked(files.pareto_lock):
        _write_all(files, read_archive(run_dir))


def _files(run_dir: str | Path) -> RunDir:
    files = RunDir(run_dir)
    if not files.path.is_dir():
        raise InputError("no such run folder", where=str(run_dir))
    return files


def _write_all(files: RunDir, archive: Archive) -> None:
    """A row is written where it goes before it is gone where it was: cut off in between, it is in two files, and none is lost.

    Rows leave the front for either list, and change between the lists in both directions: intervals widen with the number of rounds.
    """
    there = {row.commit_sha for row in read_rows(files.pareto_within_noise)}
    kept = {row.commit_sha for row in archive.within_noise}
    leaving = tuple(row for row in archive.dominated if row.commit_sha in there - kept)
    for path, rows in (
        (files.pareto_within_noise, archive.within_noise + leaving),
        (files.pareto_dominated, archive.dominated),
        (files.pareto_within_noise, archive.within_noise),
    ):
        if rows or path.exists():
            _write(path, rows)
    _write(files.pareto, archive.front)
    _write(files.pareto_preview, archive.front[:PREVIEW_ROWS])


def read_archive(run_dir: str | Path) -> Archive:
    """The archive in a run folder; empty before the first verified round. Which file a row is in does not count."""
    return archive_of(stored_rows(run_dir))


def stored_rows(run_dir: str | Path) -> list[ParetoRow]:
    """All rows of a run folder's front files, as they are there."""
    files = RunDir(run_dir)
    found = (files.pareto_dominated, files.pareto_within_noise, files.pareto)
    return list({row.commit_sha: row for path in found for row in read_rows(path)}.values())


def read_front(run_dir: str | Path) -> list[ParetoRow]:
    """The members, the highest delta first; none before the first verified round."""
    return list(read_archive(run_dir).front)


def _write(path: Path, rows: Sequence[ParetoRow]) -> None:
    text = json.dumps([row.model_dump(mode="json") for row in rows], indent=2, allow_nan=False) + "\n"
    if not path.exists() or path.read_text() != text:
        atomic.write_text(path, text)


def read_rows(path: Path) -> list[ParetoRow]:
    """The rows in one file of a front; none where there is no such file."""
    if not path.exists() and not path.is_symlink():
        return []
    data = read_json(path, limit=_MAX_BYTES, nodes=_MAX_VALUES)
    if not isinstance(data, list):
        raise InputError("is not a list of rows", where=str(path))
    return [validate_model(row, ParetoRow, where=f"{path}[{i}]") for i, row in enumerate(data)]
