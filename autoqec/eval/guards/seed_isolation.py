"""Seed isolation: train, val and holdout labels are disjoint, and training kept to its own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from autoqec.eval.guards import Guard
from autoqec.eval.schema import GuardResult
from autoqec.eval.verification_state import VerificationState

NAME = "seed_isolation"


def judge(verification: VerificationState, _answers: Sequence[Any]) -> GuardResult:
    policy = verification.env.spec.noise.seed_policy
    recorded = verification.subject.train_labels
    labels = verification.bundle.labels_used()
    used = (labels[0], labels[-1])
    trained = common(recorded, recorded)
    touched = common(recorded, policy.holdout)
    strayed = trained - common(recorded, policy.train)
    overlap = common(used, policy.train) + common(used, policy.val)
    outside = len(labels) - common(used, policy.holdout)
    ok = not (touched or strayed or overlap or outside)
    if ok:
        text = (
            f"{len(labels)} holdout labels, none in train or val; training recorded "
            + (f"{trained} labels, all in train" if trained else "no labels")
            + "; holdout seeds are keyed with the verifier's secret"
        )
    else:
        text = (
            f"training recorded {touched} holdout labels and {strayed} outside the train range; "
            f"{overlap} evaluation labels lie in train or val, {outside} outside holdout"
        )
    return GuardResult(name=NAME, ok=ok, severity="breaks", number=float(touched + overlap), text=text)


def common(first: tuple[int, int], second: tuple[int, int]) -> int:
    """Labels in both ranges, ends included."""
    return max(0, min(first[1], second[1]) - max(first[0], second[0]) + 1)


GUARD = Guard(NAME, judge)
