"""The calls of a model that were counted, held against those that ran: both must give the same answers.

Where belief propagation does not settle, as on the shots that an earlier stage leaves open, rounding alone leads it elsewhere. So the model of the
installed package with the same config, where there is one, is asked by both paths about the same shots, and what differs there is allowed twice.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from autoqec.decoders.backends.edge_weights import checked_log_odds
from autoqec.decoders.gates import I64
from autoqec.envs.problem import F64, U8
from autoqec.eval.metering import reference_of
from autoqec.eval.staged_answers import Answers
from autoqec.eval.verifier_worker import VerifierWorker
from autoqec.sandbox.confined import Refused, WorkerDied
from autoqec.sandbox.worker import HeldModel

ALLOWED, ALLOWED_SHOTS, ROUNDING = 0.02, 2, 2
"""Share of shots, and number where they are few, that the counted path may answer otherwise, and so many times those that rounding moves."""
CLOSE = 0.01
"""Log-odds that differ by less, relative to their size and to the smaller ones of the same answer, are the same with other rounding."""
SMALLER, LEAST, MOST = 0.1, 0.01, 10.0
"""Quantile of an answer's log-odds that stands for its smaller ones, within bounds: huge ones, however many, do not hide the others, and zeros do not
make the last digit of the others matter. Where all are small, the lower bound is that share of their mean: a backend looks at ratios."""
NEAR_ONE = 1 - 2.0**-20
"""Beyond it a probability in float32 has hardly any digits of its log-odds left."""


class Compared(NamedTuple):
    """otherwise: of `shots`, those that the counted path answers otherwise; by_rounding: the same of the installed package's own model, which is
    asked where it matters. missing: what was said of answers that are not there."""

    otherwise: int = 0
    shots: int = 0
    by_rounding: int = 0
    missing: str = ""

    @property
    def is_another_path(self) -> bool:
        return self.otherwise > max(ALLOWED_SHOTS, ALLOWED * self.shots) + ROUNDING * self.by_rounding


def compare(
    verifier: VerifierWorker,
    problem: str,
    model: str,
    held: HeldModel,
    counted: npt.NDArray[Any],
    whole: Answers,
    shots: U8,
    some: I64,
    stage: int = 0,
    earlier: npt.NDArray[Any] | None = None,
) -> Compared:
    """counted: the answers of the counted calls to `some` of the shots. whole: those of the process of the main test to all of them: with shots
    like those of its other questions, and the counted ones anywhere among them, this question looks like any of those."""
    as_counted = verifier.screened(problem, held, counted)
    as_run = replace(whole, raw=whole.raw[some], valid=whole.valid[some])
    all_there = bool(as_run.valid.all() and as_counted.valid.all())
    missing = "" if all_there else "; ".join((*whole.complaints, *as_counted.complaints)[:2])
    found = Compared(answered_otherwise(as_run, as_counted), len(some), missing=missing)
    if not found.is_another_path or missing:
        return found
    before = None if earlier is None else earlier[some]
    return found._replace(
        by_rounding=_by_rounding(verifier, problem, model, held, shots[some], stage, before)
    )


def answered_otherwise(some: Answers, others: Answers) -> int:
    """The shots that two paths of one stage answer differently in any number: log-odds beyond rounding, or a fault. No valid answer is another one."""
    if some.raw.shape != others.raw.shape:
        return len(some.raw)
    if some.kind == "faults":
        apart = some.raw != others.raw
    else:
        mine, theirs = _log_odds(some), _log_odds(others)
        size = np.abs(mine)
        least = LEAST * np.minimum(size.mean(axis=1, keepdims=True), 1.0)
        smaller = np.clip(np.quantile(size, SMALLER, axis=1, keepdims=True), least, MOST)
        close = CLOSE * (size + smaller)
        apart = np.abs(mine - theirs) > close
    return int((apart.any(axis=1) | ~some.valid | ~others.valid).sum())


def _log_odds(answers: Answers) -> F64:
    if answers.kind == "edges":
        return answers.raw.astype(np.float64)
    return checked_log_odds(np.minimum(answers.raw, NEAR_ONE), *answers.raw.shape).astype(np.float64)


def _by_rounding(
    verifier: VerifierWorker,
    problem: str,
    model: str,
    held: HeldModel,
    shots: U8,
    stage: int,
    earlier: npt.NDArray[Any] | None,
) -> int:
    """Shots that the two paths of the installed package's own model of the same config, untrained, answer otherwise; none where it has no such model."""
    models, twin = verifier.setup.models, reference_of(model)
    if twin not in models or models[twin].dsl != models[model].dsl:
        return 0
    try:
        worker, own = verifier.held(problem, twin)
        if (own.kind, own.columns) != (held.kind, held.columns):
            return 0
        as_run, as_counted = (
            verifier.screened(
                problem, own, worker.answers(own, shots, as_counted=path, stage=stage, earlier=earlier)
            )
            for path in (False, True)
        )
    except (Refused, WorkerDied):
        return 0
    return answered_otherwise(as_run, as_counted)
