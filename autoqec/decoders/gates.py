"""Cascades, as the trusted side sees them: which shots a stage leaves open, and who answers each shot.

A stage answers every shot that it is asked about. The backend decides with these answers and says how sure it is; a shot below
the stage's threshold goes on to the next stage, whose answer then counts. The model has no say in it: the gate's number comes from the
shot's own answers by the backend, and the thresholds are numbers of the checkpoint. No torch here: a verifier runs this.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from autoqec.decoders.dsl_schema import MOST_LEGS, MOST_MEMBERS, MOST_STATES
from autoqec.envs.packing import width
from autoqec.envs.problem import F64, U8
from autoqec.envs.schema import MOST_ORDER
from autoqec.errors import InputError

if TYPE_CHECKING:
    from autoqec.decoders.answers import AnswerDecoder, Kind

THRESHOLDS = "thresholds"
"""The name of the gates' numbers among a checkpoint's tensors."""
START = 2.0
"""Where a threshold starts, in log-odds: such a shot is answered wrongly one time in eight."""
EVERY_SHOT = float(np.finfo(np.float32).max)
"""A threshold that every shot is below. A checkpoint holds finite numbers only."""

EXPLAINED = 1024.0
"""By how much a gate that also lets explained shots through is surer of these. Margins are far below; thresholds are kept in single precision."""
UNEXPLAINED, UNSURE = "unexplained", "unsure"
"""What a stage in front of ordered statistics takes (`StageSpec.takes`)."""

I64 = npt.NDArray[np.int64]
Answers = npt.NDArray[Any]
Ask = Callable[[int, I64, Answers | None], tuple["Kind", Answers]]
"""Of a stage, rows of the shots, and what the stage before said about them: what the stage says."""


@dataclass(frozen=True)
class Gates:
    """thresholds: one for every stage but the last. orders, members: of ordered statistics and of an ensemble of matchings behind each stage,
    None for the decoder's own; states, legs: of a sweep or of joint legs in its place. lets: which of its shots the gate behind
    each stage lets through, by what the stage after it takes.
    All but thresholds and orders may be left out."""

    thresholds: tuple[float, ...] = ()
    orders: tuple[int | None, ...] = (None,)
    members: tuple[int | None, ...] = ()
    states: tuple[int | None, ...] = ()
    legs: tuple[int | None, ...] = ()
    lets: tuple[str | None, ...] = ()

    def __post_init__(self) -> None:
        for name in ("members", "states", "legs", "lets"):
            if not getattr(self, name):
                object.__setattr__(self, name, (None,) * len(self.orders))

    @classmethod
    def of(cls, dsl: Mapping[str, Any], state: Mapping[str, Answers] | None) -> Gates:
        """From a config and the weights of a checkpoint, or, for None, of a fresh model.

        Raises:
            InputError: the weights have no threshold for every stage but the last.
        """
        stages = dsl.get("stages") if dsl.get("type") == "cascade" else None
        if not isinstance(stages, list) or not all(isinstance(stage, Mapping) for stage in stages):
            return cls()
        later = len(stages) - 1
        numbers = np.full(later, START) if state is None else np.asarray(state.get(THRESHOLDS, ()))
        if numbers.shape != (later,) or not np.isfinite(numbers).all():
            raise InputError(
                f"a cascade of {len(stages)} stages has {later} thresholds, and the checkpoint does not",
                where=THRESHOLDS,
                hint="train the round again",
            )
        return cls(
            tuple(map(float, numbers)),
            orders=_whole(stages, "order"),
            members=_whole(stages, "members"),
            states=_whole(stages, "states"),
            legs=_whole(stages, "legs"),
            lets=(
                *(value if isinstance(value := stage.get("takes"), str) else None for stage in stages[1:]),
                None,
            ),
        )

    @property
    def stages(self) -> int:
        return len(self.orders)

    def check(self, backend: str) -> None:
        """Raises InputError where the config asks the backend behind the stages for what it does not have."""
        self._check_option("order", self.orders, "osd", backend, least=0, most=MOST_ORDER)
        self._check_option("members", self.members, "mwpm", backend, least=2, most=MOST_MEMBERS)
        self._check_option("states", self.states, backend, backend, least=1, most=MOST_STATES)
        self._check_option("legs", self.legs, "osd", backend, least=1, most=MOST_LEGS)
        wanted = {takes for takes in self.lets if takes is not None}
        if unknown := wanted - {UNEXPLAINED, UNSURE}:
            raise InputError(f"takes is {UNEXPLAINED} or {UNSURE}, not {min(unknown)}", where="stages.takes")
        if wanted and backend != "osd":
            raise InputError(
                f"behind {backend} a stage takes the shots whose answers are the least sure",
                where="stages.takes",
                hint="remove takes",
            )

    def lets_unsure(self, stage: int) -> bool:
        """Whether shots that a stage explains may go on, too."""
        return self.lets[stage] == UNSURE

    @staticmethod
    def _check_option(
        name: str, given: Sequence[int | None], owner: str, backend: str, *, least: int, most: int
    ) -> None:
        numbers = [number for number in given if number is not None]
        if any(not least <= number <= most for number in numbers):
            raise InputError(f"{name} is between {least} and {most}", where=f"stages.{name}")
        if numbers and backend != owner:
            raise InputError(
                f"{backend} has no {name}",
                where=f"stages.{name}",
                hint=f"remove {name}, or use an environment with classical_backend: {owner}",
            )


def _whole(stages: Sequence[Mapping[str, Any]], name: str) -> tuple[int | None, ...]:
    """An option of every stage, None where it is not a whole number."""
    given = (stage.get(name) for stage in stages)
    return tuple(value if type(value) is int else None for value in given)


ONE_STAGE = Gates()
"""Of a predecoder that is not a cascade."""


class Staged(NamedTuple):
    """predictions: packed observables. stage: [shots] the stage that answered. log_odds: [shots] that its prediction is right; sure: [shots] what
    a gate behind that stage looks at. Both are NaN where they were not asked for.
    """

    predictions: U8
    log_odds: F64
    sure: F64
    stage: I64

    def reached(self, stages: int) -> tuple[int, ...]:
        """How many shots each stage was asked about."""
        return tuple(int((self.stage >= stage).sum()) for stage in range(stages))


def through_stages(
    ask: Ask,
    deciders: Sequence[AnswerDecoder],
    thresholds: Sequence[float],
    detectors: U8,
    *,
    batches: Sequence[int] | None = None,
    sure_of_all: bool = False,
    asks_last: bool = True,
) -> Staged:
    """Every shot through the stages that it needs.

    batches: shots to ask each stage about at a time; all at once by default. sure_of_all: log-odds of all shots, also where no gate needs them.
    asks_last: whether more is wanted of the last stage than which shots reach it.
    """
    shots = len(detectors)
    predictions = np.zeros((shots, width(deciders[0].backend.problem.n_observables)), dtype=np.uint8)
    log_odds, sure = np.full(shots, np.nan), np.full(shots, np.nan)
    answered = np.zeros(shots, dtype=np.int64)
    rows, before = np.arange(shots), None
    for stage, decider in enumerate(deciders):
        is_last = stage == len(deciders) - 1
        answered[rows] = stage
        if is_last and not asks_last:
            break
        open_rows: list[I64] = []
        open_answers: list[Answers] = []
        batch = max(len(rows), 1) if batches is None else batches[stage]
        for start in range(0, len(rows), batch):
            some = rows[start : start + batch]
            kind, answers = ask(stage, some, None if before is None else before[start : start + batch])
            if is_last and not sure_of_all:
                predictions[some] = decider.predict(kind, answers, detectors[some])
                log_odds[some] = sure[some] = np.nan
            else:
                found, sure[some] = decider.judged(kind, answers, detectors[some], sure_of_all=sure_of_all)
                predictions[some], log_odds[some] = found
            if not is_last:
                left = np.flatnonzero(sure[some] < thresholds[stage])
                open_rows.append(some[left])
                open_answers.append(answers[left])
        if is_last or not sum(map(len, open_rows)):
            break
        rows, before = np.concatenate(open_rows), np.concatenate(open_answers)
    return Staged(predictions, log_odds, sure, answered)


def expected_flops(flops: Sequence[float], shares: Sequence[float]) -> int:
    """flops: of each stage. shares: of the shots that reach it."""
    return round(sum(each * share for each, share in zip(flops, shares, strict=True)))


def planned_shares(
    flops: Sequence[int], shares: Sequence[float | None], mean_flops: int | None
) -> tuple[float, ...]:
    """The share of shots that should reach each stage: as the config says or, by its mean cost, what is left beyond the first stage in
    equal parts for the others.

    Raises:
        InputError: the first stage alone costs more.
    """
    if mean_flops is None:
        return (1.0, *(share or 0.0 for share in shares[1:]))
    left = mean_flops - flops[0]
    if left <= 0:
        raise InputError(
            f"the first stage alone takes {flops[0]} FLOPs, and mean_flops is {mean_flops}",
            where="mean_flops",
            hint="raise it, or make the first stage smaller",
        )
    planned = [1.0]
    for each in flops[1:]:
        planned.append(min(planned[-1], left / (len(flops) - 1) / max(each, 1)))
    return tuple(planned)
