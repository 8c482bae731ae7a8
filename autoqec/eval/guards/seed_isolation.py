"""Seed isolation: train, val and holdout labels are disjoint, and training kept to its own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from autoqec.eval.case import Case
from autoqec.eval.guards import Guard
from autoqec.eval.schema import GuardResult

NAME = "seed_isolation"


def judge(case: Case, _answers: Sequence[Any]) -> GuardResult:
    policy = case.env.spec.noise.seed_policy
    low, high = case.subject.train_labels
    trained = set(range(low, min(high, low + 10_000_000) + 1))
    used = set(case.bundle.labels_used())
    holdout = range(policy.holdout[0], policy.holdout[1] + 1)
    touched = sum(label in holdout for label in trained)
    strayed = sum(not policy.train[0] <= label <= policy.train[1] for label in trained)
    overlap = sum(
        policy.train[0] <= label <= policy.train[1] or policy.val[0] <= label <= policy.val[1]
        for label in used
    )
    outside = sum(label not in holdout for label in used)
    ok = not (touched or strayed or overlap or outside)
    if ok:
        text = (
            f"{len(used)} holdout labels, none in train or val; training recorded "
            + (f"{len(trained)} labels, all in train" if trained else "no labels")
            + "; holdout seeds are keyed with the verifier's secret"
        )
    else:
        text = (
            f"training recorded {touched} holdout labels and {strayed} outside the train range; "
            f"{overlap} evaluation labels lie in train or val, {outside} outside holdout"
        )
    return GuardResult(name=NAME, ok=ok, severity="breaks", number=float(touched + overlap), text=text)


GUARD = Guard(NAME, judge)
