"""The Pareto front of a run: the complete archive of verified rounds that no other dominates, without a cap.

Axes: `delta_vs_baseline_holdout` (higher), `flops_per_syndrome` (lower), `n_params` (lower).

A dominates B if A costs no more in FLOPs and no more in parameters, and A's delta is significantly higher:
the lower end of A's paired interval lies above the upper end of B's. Deltas whose intervals overlap are not
ordered, so a cheaper round does not push out one whose delta may be better, and noise does not push out
anything. This is a strict partial order, so the front does not depend on the order of admission.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from autoqec.errors import InputError
from autoqec.eval.front_schema import ParetoRow, row_of
from autoqec.eval.hypervolume import Reference, hypervolume, hypervolume_by_round
from autoqec.io import atomic
from autoqec.io.locks import locked
from autoqec.io.validate import validate_model
from autoqec.layout import RunDir

__all__ = [
    "Admission",
    "Archive",
    "ParetoRow",
    "Reference",
    "admit",
    "dominates",
    "front",
    "hypervolume",
    "hypervolume_by_round",
    "point_front",
    "read_archive",
    "read_front",
    "row_of",
]

PREVIEW_ROWS = 5


def dominates(a: ParetoRow, b: ParetoRow) -> bool:
    """A costs no more than B on both axes and gains significantly more."""
    return (
        a.flops_per_syndrome <= b.flops_per_syndrome
        and a.n_params <= b.n_params
        and a.delta_ci[0] > b.delta_ci[1]
    )


def front(rows: Iterable[ParetoRow]) -> list[ParetoRow]:
    """The rows that no other row dominates, the highest delta first."""
    rows = list(rows)
    return sorted((row for row in rows if not any(dominates(other, row) for other in rows)), key=_rank)


def point_front(rows: Iterable[ParetoRow]) -> list[ParetoRow]:
    """The front if deltas were exact: the rows that no other beats on paper. Part of `front`."""
    rows = list(rows)

    def beaten(row: ParetoRow) -> bool:
        return any(
            other.delta_vs_baseline_holdout >= row.delta_vs_baseline_holdout
            and other.flops_per_syndrome <= row.flops_per_syndrome
            and other.n_params <= row.n_params
            and _axes(other) != _axes(row)
            for other in rows
        )

    return sorted((row for row in rows if not beaten(row)), key=_rank)


def _axes(row: ParetoRow) -> tuple[float, int, int]:
    return row.delta_vs_baseline_holdout, row.flops_per_syndrome, row.n_params


def _rank(row: ParetoRow) -> tuple[float, int, int, str]:
    return -row.delta_vs_baseline_holdout, row.flops_per_syndrome, row.n_params, row.commit_sha


@dataclass(frozen=True)
class Archive:
    """All verified rounds of a run: the front, and the rounds that it dominates."""

    front: tuple[ParetoRow, ...] = ()
    dominated: tuple[ParetoRow, ...] = ()

    @property
    def rows(self) -> tuple[ParetoRow, ...]:
        return self.front + self.dominated


@dataclass(frozen=True)
class Admission:
    """What became of a row: whether it entered, why, and which members it pushed out."""

    entered: bool
    reason: str
    left: tuple[ParetoRow, ...] = ()


def add(archive: Archive, row: ParetoRow) -> tuple[Archive, Admission]:
    """The archive with `row`.

    A predecoder that is in it already, by commit, checkpoint or config, stays as it is: verifying the same
    thing again would be a second chance.
    """
    known = {identity: member for member in archive.rows for identity in member.identities()}
    for identity in row.identities():
        if identity in known:
            return archive, Admission(False, f"same {identity[0]} as {known[identity].name}")
    for member in archive.front:
        if dominates(member, row):
            reason = (
                f"dominated by {member.name}, which costs no more and gains significantly more: "
                f"{_show_delta(member)} against {_show_delta(row)}"
            )
            return Archive(archive.front, (*archive.dominated, row)), Admission(False, reason)
    left = tuple(member for member in archive.front if dominates(row, member))
    stay = (member for member in archive.front if member not in left)
    reason = "no member dominates it" + (f"; it dominates {', '.join(m.name for m in left)}" if left else "")
    members = tuple(sorted((*stay, row), key=_rank))
    return Archive(members, (*archive.dominated, *left)), Admission(True, reason, left)


def _show_delta(row: ParetoRow) -> str:
    low, high = row.delta_ci
    return f"{row.delta_vs_baseline_holdout:.3g} [{low:.3g}, {high:.3g}]"


def admit(run_dir: str | Path, row: ParetoRow) -> Admission:
    """Offer a row to the front of a run: safe among processes, and to repeat after being killed anywhere."""
    files = RunDir(run_dir)
    if not files.path.is_dir():
        raise InputError("no such run folder", where=str(run_dir))
    with locked(files.pareto_lock):
        before = read_archive(run_dir)
        after, admission = add(before, row)
        # The front is written after the rows that left it: cut off in between, they are in both files, and
        # the front's word counts.
        if after.dominated != before.dominated:
            _write(files.pareto_dominated, after.dominated)
        if after.front != before.front:
            _write(files.pareto, after.front)
        _write(files.pareto_preview, after.front[:PREVIEW_ROWS])
    return admission


def read_archive(run_dir: str | Path) -> Archive:
    """The archive in a run folder; empty before the first verified round."""
    files = RunDir(run_dir)
    members = _read(files.pareto)
    commits = {member.commit_sha for member in members}
    return Archive(
        tuple(members), tuple(row for row in _read(files.pareto_dominated) if row.commit_sha not in commits)
    )


def read_front(run_dir: str | Path) -> list[ParetoRow]:
    """The members, the highest delta first; none before the first verified round."""
    return list(read_archive(run_dir).front)


def _write(path: Path, rows: Sequence[ParetoRow]) -> None:
    text = json.dumps([row.model_dump(mode="json") for row in rows], indent=2, allow_nan=False) + "\n"
    if not path.exists() or path.read_text() != text:
        atomic.write_text(path, text)


def _read(path: Path) -> list[ParetoRow]:
    try:
        data = json.loads(path.read_text())
    except FileNotFoundError:
        return []
    except (OSError, ValueError) as error:
        raise InputError(f"cannot be read: {error}", where=str(path)) from None
    if not isinstance(data, list):
        raise InputError("is not a list of rows", where=str(path))
    return [validate_model(row, ParetoRow, where=f"{path}[{i}]") for i, row in enumerate(data)]
