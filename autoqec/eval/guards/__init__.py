"""The guards of a verification: one file each. A guard may have work for the workers; then it judges."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from autoqec.eval.schema import GuardResult
from autoqec.eval.verification_state import VerificationState
from autoqec.eval.verifier_worker import Task

_MODULES = (
    "seed_isolation",
    "checkpoint_sanity",
    "artifacts",
    "code_scope",
    "decoding_model",
    "frozen_baseline",
    "output_validity",
    "replay",
    "batch_independence",
    "ablation",
    "dose_response",
    "two_error_rates",
    "more_rounds",
    "cost_census",
    "declared_figures",
)


Judge = Callable[[VerificationState, Sequence[Any]], GuardResult]
Prepare = Callable[[VerificationState], Sequence[Task]]


def no_tasks(_case: VerificationState) -> Sequence[Task]:
    return ()


@dataclass(frozen=True)
class Guard:
    """prepare: tasks for the workers; judge: the result, from the verification's state and the tasks' answers in their order. at_once: the tasks
    follow the main test directly: a process that was asked the same shots again, or holds a second set of weights, could tell that it is over."""

    name: str
    judge: Judge
    prepare: Prepare = no_tasks
    at_once: bool = False


def guards() -> list[Guard]:
    """All guards, in the order in which a report lists them."""
    return [importlib.import_module(f"{__name__}.{name}").GUARD for name in _MODULES]
