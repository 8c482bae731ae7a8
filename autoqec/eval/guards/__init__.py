"""The guards of a verification: one file each. A guard may have work for the lanes; then it judges."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from autoqec.eval.schema import GuardResult
from autoqec.eval.verification_state import Case
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


Judge = Callable[[Case, Sequence[Any]], GuardResult]
Prepare = Callable[[Case], Sequence[Task]]


def no_tasks(_case: Case) -> Sequence[Task]:
    return ()


@dataclass(frozen=True)
class Guard:
    """prepare: tasks for the lanes; judge: the result, from the case and the tasks' answers in their order."""

    name: str
    judge: Judge
    prepare: Prepare = no_tasks


def guards() -> list[Guard]:
    """All guards, in the order in which a report lists them."""
    return [importlib.import_module(f"{__name__}.{name}").GUARD for name in _MODULES]
