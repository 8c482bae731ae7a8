"""The review of a run: all its parts, and the recommendations that follow from them."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict
from pathlib import Path
from typing import Any

from autoqec.report.diagnose import diagnose_run
from autoqec.report.review import progress
from autoqec.report.review.advice import recommendations
from autoqec.report.review.budget import budget
from autoqec.report.review.overfitting import overfitting
from autoqec.report.review.repeats import repeats
from autoqec.report.review.rounds import RunRecord, read_run
from autoqec.report.review.summary import Review
from autoqec.stats.pareto import REFERENCE


def review_run(folder: Path, *, patience: int = progress.PATIENCE) -> Review:
    """
    Raises:
        InputError: the folder holds no run.
    """
    run = read_run(folder)
    steps = progress.curve(run)
    found = repeats(run.rounds)
    return Review(
        run=run,
        statuses=_counts(one.status for one in run.rounds),
        verdicts=_counts(one.verdict or "none" for one in run.rounds),
        curve=tuple(steps),
        streak=progress.streak(steps, patience),
        families=tuple(progress.families(run)),
        best=progress.best_by_axis(run),
        repeats=tuple(found),
        overfitting=overfitting(run.rounds),
        budget=budget(run, [each.round for each in found if each.kind != "same hypothesis"]),
        causes=_causes(folder, run),
        patience=patience,
    )


def _counts(values: Any) -> dict[str, int]:
    return dict(Counter(values).most_common())


def _causes(folder: Path, run: RunRecord) -> dict[str, tuple[int, ...]]:
    failed = {one.number for one in run.rounds if not one.is_ok} | {*run.unrecorded}
    if not failed:
        return {}
    by_cause: dict[str, list[int]] = {}
    for one in diagnose_run(folder, only=failed).unhealthy:
        by_cause.setdefault(one.cause, []).append(one.round or 0)
    return {cause: tuple(rounds) for cause, rounds in by_cause.items()}


def as_dict(review: Review) -> dict[str, Any]:
    """The review with its recommendations, as plain data."""
    run = review.run
    return {
        "run_dir": str(run.path),
        "rounds": [
            {
                "round": one.number,
                "status": one.status,
                "verdict": one.verdict,
                "backed": None if one.report is None and one.not_backed is None else one.not_backed is None,
                "not_backed": one.not_backed,
                "family": one.family,
                "hypothesis": one.hypothesis,
                "delta_val": one.delta,
                "delta_val_ci": one.interval,
                "target": one.target,
                "seconds": one.seconds,
                "usd": one.usd,
            }
            for one in run.rounds
        ],
        "backed": run.is_backed,
        "not_backed": [each.to_dict() for each in run.front.unbacked],
        "statuses": review.statuses,
        "verdicts": review.verdicts,
        "hypervolume": {
            "reference": asdict(REFERENCE),
            "by_round": [asdict(step) for step in review.curve],
        },
        "stuck": asdict(review.streak) | {"patience": review.patience},
        "families": [asdict(family) for family in review.families],
        "best": review.best,
        "repeats": [asdict(repeat) for repeat in review.repeats],
        "overfitting": asdict(review.overfitting),
        "budget": asdict(review.budget),
        "failure_causes": {cause: list(rounds) for cause, rounds in review.causes.items()},
        "recommendations": [asdict(each) for each in recommendations(review)],
        "unrecorded_rounds": list(run.unrecorded),
        "gaps": list(run.gaps),
    }
