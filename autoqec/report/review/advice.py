"""Recommendations: one rule each, in the order of what to do first. A rule that has nothing to say returns None."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from autoqec.report.review.summary import Review

_MANY_FAILED = 0.25
_MOST_OF_A_RUN = 0.5
_LITTLE_KEPT = 0.7


@dataclass(frozen=True)
class Recommendation:
    """id: stable, for programs. evidence: figures of the review that it rests on."""

    id: str
    text: str
    evidence: tuple[str, ...]


Rule = Callable[[Review], Recommendation | None]


def _failures(review: Review) -> Recommendation | None:
    failed, rounds = review.budget.failed_rounds, len(review.run.rounds)
    if not failed or len(failed) < _MANY_FAILED * rounds:
        return None
    spent = review.budget.failed_seconds_share
    causes = [f"{cause}: rounds {_list(numbers)}" for cause, numbers in review.causes.items()]
    return Recommendation(
        "mend_failures",
        "Fix the commonest root cause before proposing more: autoqec diagnose says how.",
        (
            f"{len(failed)} of {rounds} rounds did not end ok"
            + (f", and took {spent:.0%} of the time" if spent is not None else ""),
            *causes,
        ),
    )


def _unrecorded(review: Review) -> Recommendation | None:
    if not review.run.unrecorded:
        return None
    return Recommendation(
        "reconcile",
        "Resume the run, or run autoqec reconcile: some rounds never reached the history.",
        (f"rounds {_list(review.run.unrecorded)} have a folder and no row",),
    )


def _overfits(review: Review) -> Recommendation | None:
    found = review.overfitting
    if not found.overfitted:
        return None
    worst = [each for each in found.rounds if each.overfits]
    return Recommendation(
        "overfitting",
        "Do not build on these rounds: their validation gain does not hold on fresh shots. Give validation more shots.",
        tuple(
            f"round {each.round}: validation {each.val:.3g}, holdout {each.holdout:.3g} "
            f"[{each.holdout_ci[0]:.3g}, {each.holdout_ci[1]:.3g}], gap {each.gap:.3g} [{each.gap_ci[0]:.3g}, {each.gap_ci[1]:.3g}]"
            for each in worst
        ),
    )


def _selection(review: Review) -> Recommendation | None:
    found = review.overfitting
    compared = [each for each in found.rounds if each.same_p]
    if found.overfitted or found.kept is None or len(compared) < 3 or found.kept >= _LITTLE_KEPT:
        return None
    return Recommendation(
        "selection_noise",
        "Expect less than validation says: rounds are chosen by it. Raise min_shots_val, or verify more candidates.",
        (
            f"holdout keeps {found.kept:.0%} of the validation gains",
            f"the holdout gain is the smaller one in {found.shrank} of {len(compared)} rounds",
        ),
    )


def _stuck(review: Review) -> Recommendation | None:
    streak = review.streak
    if not streak.is_stuck:
        return None
    newest = next((family for family in review.families if family.repeated), None)
    evidence = [
        f"{streak.rounds_since} rounds without growth of the {streak.front} front",
        "no round enlarged it"
        if streak.last_improvement is None
        else f"round {streak.last_improvement} was the last to enlarge it",
    ]
    if newest is not None and newest.repeated >= 3:
        evidence.append(f"the latest {newest.repeated} rounds are all {newest.name}")
    tried = {family.name.partition(",")[0] for family in review.families}
    missing = [kind for kind in ("neural_bp", "gnn", "hybrid") if kind not in tried]
    text = "Leave the present line: compose two verified branches that changed different options, or halve the cost of the best."
    if missing:
        text = f"Leave the present line: no round has tried type {' or '.join(missing)}."
    return Recommendation("stuck", text, tuple(evidence))


def _one_family(review: Review) -> Recommendation | None:
    if not review.families or review.streak.is_stuck:
        return None
    family = review.families[0]
    total = sum(len(each.rounds) for each in review.families)
    if family.repeated < review.patience or len(family.rounds) <= _MOST_OF_A_RUN * total:
        return None
    return Recommendation(
        "one_family",
        "Try another family: the run looks at one kind of predecoder only.",
        (
            f"{len(family.rounds)} of {total} configs are {family.name}",
            f"the latest {family.repeated} in a row",
        ),
    )


def _repeated(review: Review) -> Recommendation | None:
    again = [each for each in review.repeats if each.kind != "same hypothesis"]
    if not again:
        return None
    share = review.budget.repeated_seconds_share
    kinds = Counter(each.kind for each in again)
    return Recommendation(
        "repeats",
        "Do not pay for the same config twice: change an option that counts, or compose.",
        (
            *(f"round {each.round}: {each.kind} as round {each.of}" for each in again[:5]),
            ", ".join(f"{count} {kind}" for kind, count in kinds.items())
            + (f"; {share:.0%} of the time" if share is not None else ""),
        ),
    )


def _unverified(review: Review) -> Recommendation | None:
    waiting = [one.number for one in review.run.rounds if one.gains and one.report is None]
    if not waiting:
        return None
    return Recommendation(
        "verify",
        "Verify these rounds: a gain on validation shots is not a result yet.",
        (f"rounds {_list(waiting)} gain beyond their interval and have no verification report",),
    )


def _refuted(review: Review) -> Recommendation | None:
    bad = [one for one in review.run.rounds if one.report is not None and one.report.verdict != "VERIFIED"]
    if not bad:
        return None
    guards = Counter(
        guard.name
        for one in bad
        if one.report is not None
        for guard in one.report.guards
        if guard.ok is False
    )
    broken = ", ".join(f"{name} ({count})" for name, count in guards.most_common(5))
    return Recommendation(
        "refuted",
        "Read the reports of the rounds that were not verified before forking from them.",
        (
            f"rounds {_list([one.number for one in bad])}: "
            + ", ".join(sorted({one.report.verdict for one in bad if one.report is not None})),
            *([f"guards that did not hold: {broken}"] if broken else []),
        ),
    )


def _carry_on(review: Review) -> Recommendation | None:
    streak = review.streak
    if streak.is_stuck or streak.last_improvement is None:
        return None
    return Recommendation(
        "carry_on",
        "Carry on: the front is still growing.",
        (
            f"round {streak.last_improvement} enlarged the {streak.front} front, {streak.rounds_since} rounds ago",
        ),
    )


RULES: tuple[Rule, ...] = (
    _unrecorded,
    _failures,
    _overfits,
    _unverified,
    _refuted,
    _stuck,
    _one_family,
    _repeated,
    _selection,
    _carry_on,
)


def recommendations(review: Review) -> list[Recommendation]:
    return [found for rule in RULES if (found := rule(review)) is not None]


def _list(numbers: tuple[int, ...] | list[int]) -> str:
    return ", ".join(map(str, numbers))
