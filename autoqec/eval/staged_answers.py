"""A model's answers on the trusted side, and the gates of a cascade between them.

A cascade is asked stage by stage. Which shots go on is worked out here, from the shot's own answers by the backend, with thresholds that this side
took from the checkpoint: a model has no say in it, and no stage sees a shot that its gate does not let through.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from autoqec.decoders.answers import AnswerDecoder, Kind
from autoqec.decoders.gates import I64
from autoqec.envs.packing import width
from autoqec.envs.problem import U8


@dataclass
class Answers:
    """A model's answers to some shots, made safe for a backend.

    raw: float32 weights or priors, or packed faults, by `kind`. valid: [shots] bool; rows of invalid shots are placeholders.
    seconds: waiting for the worker. stage: [shots] of a cascade, the stage whose answer it is; None for a single one. decided: packed observables,
    as the gates saw them predicted; those of shots that the last stage answered are zero still.
    """

    raw: npt.NDArray[Any]
    valid: npt.NDArray[np.bool_]
    seconds: float
    kind: Kind
    complaints: list[str] = field(default_factory=list)
    stage: I64 | None = None
    decided: U8 | None = None


AskStage = Callable[[int, I64, npt.NDArray[Any] | None], Answers]
"""Of a stage, rows of the shots, and what the stage before said about them."""


def through_gates(
    ask: AskStage, deciders: Sequence[AnswerDecoder], thresholds: Sequence[float], detectors: U8
) -> Answers:
    """The answers that count, each of the last stage that its shot reaches. A shot without a valid answer stays where it is."""
    rows = np.arange(len(detectors))
    found = now = ask(0, rows, None)
    stage = np.zeros(len(detectors), dtype=np.int64)
    decided = np.zeros((len(detectors), width(deciders[0].backend.problem.n_observables)), dtype=np.uint8)
    for number, threshold in enumerate(thresholds, start=1):
        if not now.valid.any():
            break
        judged, sure = deciders[number - 1].judged(now.kind, now.raw, detectors[rows], sure_of_all=False)
        decided[rows] = judged.predictions
        left = np.flatnonzero((sure < threshold) & now.valid)
        if not len(left):
            break
        rows = rows[left]
        now = ask(number, rows, now.raw[left])
        stage[rows] = number
        found.raw[rows], found.valid[rows] = now.raw, now.valid
        found.seconds += now.seconds
        found.complaints = list(dict.fromkeys((*found.complaints, *now.complaints)))
    found.stage, found.decided = stage, decided
    return found


def of_all_stages(raw: npt.NDArray[Any], stages: int) -> list[npt.NDArray[Any]]:
    """The answers of each stage out of rows that hold those of all (`ModelWorker.all_answers`)."""
    return [np.ascontiguousarray(part) for part in np.split(raw, stages, axis=1)]


def predicted(answers: Answers, deciders: Sequence[AnswerDecoder], detectors: U8) -> U8:
    """Predicted observables, every shot by the backend behind the stage that answered it; a gate's predictions are not made again."""
    if answers.stage is None or answers.decided is None:
        return deciders[0].predict(answers.kind, answers.raw, detectors)
    last = np.flatnonzero(answers.stage == len(deciders) - 1)
    out = answers.decided.copy()
    if len(last):
        out[last] = deciders[-1].predict(answers.kind, answers.raw[last], detectors[last])
    return out


def log_odds_of(
    answers: Answers, deciders: Sequence[AnswerDecoder], detectors: U8
) -> npt.NDArray[np.float64]:
    """[shots] that each prediction is right."""
    if answers.stage is None:
        return deciders[0].predict_with_confidence(answers.kind, answers.raw, detectors).log_odds
    out = np.zeros(len(detectors))
    for rows, decider in _by_stage(answers.stage, deciders):
        out[rows] = decider.predict_with_confidence(answers.kind, answers.raw[rows], detectors[rows]).log_odds
    return out


def _by_stage(stage: I64, deciders: Sequence[AnswerDecoder]) -> list[tuple[I64, AnswerDecoder]]:
    pairs = [(np.flatnonzero(stage == number), decider) for number, decider in enumerate(deciders)]
    return [(rows, decider) for rows, decider in pairs if len(rows)]
