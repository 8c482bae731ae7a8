"""How the fronts grew round by round, how long they have not, and which families of experiments were tried."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from autoqec.report.review.rounds import Reviewed, RunRecord
from autoqec.stats.pareto import REFERENCE, Point, volume

PATIENCE = 5
"""Rounds without improvement after which a search is stuck."""

_LEAST_GROWTH = 0.01
"""Share by which a hypervolume has to grow to count as an improvement."""


@dataclass(frozen=True)
class Step:
    """The hypervolumes after a round: of the verified rounds, and of those whose validation gains beyond its interval."""

    round: int
    verified: float
    validated: float


@dataclass(frozen=True)
class Streak:
    """Which front it is about, the last round that enlarged it (None: no round did) and how many rounds came since."""

    front: Literal["verified", "validated"]
    last_improvement: int | None
    rounds_since: int
    is_stuck: bool


@dataclass(frozen=True)
class Family:
    """repeated: how many of the latest rounds in a row are of this family."""

    name: str
    rounds: tuple[int, ...]
    ok: int
    best_delta: float | None
    verified: int
    repeated: int


def curve(run: RunRecord) -> list[Step]:
    steps: list[Step] = []
    verified_at = {row.round: REFERENCE.box(*row.axes) for row in run.archive.rows}
    verified: list[Point] = []
    validated: list[Point] = []
    for one in run.rounds:
        if one.number in verified_at:
            verified.append(verified_at[one.number])
        if one.gains and one.costs is not None and one.delta is not None:
            validated.append(REFERENCE.box(one.delta, *one.costs))
        steps.append(Step(one.number, volume(verified), volume(validated)))
    return steps


def streak(steps: Sequence[Step], patience: int = PATIENCE) -> Streak:
    """On the verified front; on the validated one for as long as nothing is verified."""
    front: Literal["verified", "validated"] = "verified" if steps and steps[-1].verified > 0 else "validated"
    before, last, since = 0.0, None, 0
    for step in steps:
        now = getattr(step, front)
        if now > before * (1 + _LEAST_GROWTH):
            last, since = step.round, 0
        else:
            since += 1
        before = max(before, now)
    return Streak(front, last, since, since >= patience)


def families(run: RunRecord) -> list[Family]:
    """The most frequent first. Rounds without a valid config have none."""
    known = [one for one in run.rounds if one.family is not None]
    names = sorted({str(one.family) for one in known})
    verified = {row.round for row in run.archive.rows}
    found = []
    for name in names:
        members = [one for one in known if one.family == name]
        deltas = [one.delta for one in members if one.delta is not None]
        found.append(
            Family(
                name=name,
                rounds=tuple(one.number for one in members),
                ok=sum(one.is_ok for one in members),
                best_delta=max(deltas, default=None),
                verified=sum(one.number in verified for one in members),
                repeated=_latest_in_a_row(known, name),
            )
        )
    return sorted(found, key=lambda family: -len(family.rounds))


def _latest_in_a_row(rounds: Sequence[Reviewed], name: str) -> int:
    count = 0
    for one in reversed(rounds):
        if one.family != name:
            break
        count += 1
    return count


def best_by_axis(run: RunRecord) -> dict[str, Any]:
    """The round with the highest delta, the fewest FLOPs and the fewest parameters: of the verified front, else of the rounds
    that gain on validation shots."""
    rows: list[dict[str, Any]] = [
        {
            "round": row.round,
            "delta": row.delta_vs_baseline_holdout,
            "delta_ci": list(row.delta_ci),
            "flops_per_syndrome": row.flops_per_syndrome,
            "n_params": row.n_params,
        }
        for row in run.archive.front
    ]
    verified = bool(rows)
    if not rows:
        rows = [
            {
                "round": one.number,
                "delta": one.delta,
                "delta_ci": list(one.interval or ()),
                "flops_per_syndrome": one.costs[0],
                "n_params": one.costs[1],
            }
            for one in run.rounds
            if one.gains and one.costs is not None and one.delta is not None
        ]
    if not rows:
        return {"verified": False, "delta": None, "flops_per_syndrome": None, "n_params": None}
    return {
        "verified": verified,
        "delta": max(rows, key=lambda row: row["delta"]),
        "flops_per_syndrome": min(rows, key=lambda row: row["flops_per_syndrome"]),
        "n_params": min(rows, key=lambda row: row["n_params"]),
    }
