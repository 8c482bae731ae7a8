"""What a model's answers mean for a shot: the backend's prediction, and how sure it is.

soft_priors: the backend decodes the syndrome with the model's weights for every shot ("edges": of the matching graph, "priors":
fault probabilities). hard_flip: the model applies faults F; the backend decodes what is left, and prediction = L F XOR backend(residual).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import cached_property
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from autoqec.decoders.backends import Backend, make_backend
from autoqec.decoders.backends.matching import MatchingBackend
from autoqec.decoders.classical_stages import ClassicalStage, classical_stage
from autoqec.decoders.gates import EXPLAINED, I64, ONE_STAGE, Gates, Staged, through_stages
from autoqec.decoders.hard_flips import FaultMaps, HardFlips
from autoqec.decoders.protocol import Confident
from autoqec.envs.packing import checked, unpack
from autoqec.envs.problem import F64, U8, DecodingProblem
from autoqec.errors import InputError, UnavailableError

Kind = Literal["edges", "priors", "faults"]
"""edges: float [shots, n_edges] log-odds; priors: float [shots, n_faults] probabilities; faults: packed [shots, ceil(n_faults / 8)]."""


class AnswerDecoder:
    """A backend behind any model. threads: None takes one per available core. by_margin: whether the gate behind it looks at the margins of explained
    shots, too."""

    def __init__(self, backend: Backend, *, threads: int | None = 1, by_margin: bool = False) -> None:
        self.backend = backend
        self._threads = threads
        self._by_margin = by_margin

    def predict(self, kind: Kind, answers: npt.NDArray[Any], detectors: U8) -> U8:
        """Predicted observables, packed like the detectors."""
        if kind == "faults":
            flips = self.flips(answers, detectors)
            return self.backend.decode_residual(flips.residual, flips.frame)
        if kind == "edges":
            return self._matching.decode_edges(detectors, answers, threads=self._threads)
        return self.backend.decode_priors(detectors, answers.astype(np.float64), threads=self._threads)

    def flips(self, faults: U8, detectors: U8) -> HardFlips:
        """Residual and frame of applied faults, by the problem's own H and L."""
        problem = self.backend.problem
        return self._maps.flips(unpack(detectors, problem.n_checks), unpack(faults, problem.n_faults))

    def predict_with_confidence(self, kind: Kind, answers: npt.NDArray[Any], detectors: U8) -> Confident:
        """The same predictions, and the log-odds that each is right under the model's weights (`Confident`).

        Raises:
            UnavailableError: matching cannot tell the classes of one of the observables apart, as on a torus.
        """
        if kind == "faults":
            flips = self.flips(answers, detectors)
            found = self.backend.decode_with_confidence(flips.residual)
            return found._replace(predictions=flips.frame ^ found.predictions)
        if kind == "edges":
            return self._matching.edges_with_confidence(detectors, answers, threads=self._threads)
        priors = answers.astype(np.float64)
        return self.backend.priors_with_confidence(detectors, priors, threads=self._threads)

    def judged(
        self, kind: Kind, answers: npt.NDArray[Any], detectors: U8, *, sure_of_all: bool
    ) -> tuple[Confident, F64]:
        """Predictions with confidence, and for each shot the number that the gate of a cascade looks at.

        Matching, and applied faults: the log-odds that the prediction is right. Ordered statistics: the same, the margin of the best candidates, where the
        model's hard decision leaves a part of the syndrome unexplained; without bound elsewhere, where a margin is found only
        if `sure_of_all`, and else NaN. By margin: those of all shots, with unexplained ones below all others.
        """
        if kind == "faults" or isinstance(self.backend, MatchingBackend):
            found = self.predict_with_confidence(kind, answers, detectors)
            return found, found.log_odds
        is_open = self._unexplained(answers, detectors)
        if self._by_margin:
            found = self.predict_with_confidence(kind, answers, detectors)
            return found, np.where(
                is_open, np.minimum(found.log_odds, EXPLAINED / 2) - EXPLAINED, found.log_odds
            )
        if sure_of_all:
            found = self.predict_with_confidence(kind, answers, detectors)
        else:
            found = Confident(self.predict(kind, answers, detectors), np.full(len(detectors), np.nan))
            if is_open.any():
                some = self.predict_with_confidence(kind, answers[is_open], detectors[is_open])
                found.log_odds[is_open] = some.log_odds
        return found, np.where(is_open, found.log_odds, np.inf)

    def flops(self, detectors: U8) -> int:
        """Of a shot, in the mean over these, beyond what the model takes: matching and ordered statistics are not counted."""
        return 0

    def _unexplained(self, priors: npt.NDArray[Any], detectors: U8) -> npt.NDArray[np.bool_]:
        """[shots] whether the faults that are likelier than not do not have the syndrome that the backend sees."""
        problem = self.backend.problem
        likely = sp.csr_array(np.asarray(priors > 0.5, dtype=np.int32))
        found = (likely @ problem.h.T.astype(np.int32)).toarray() & 1
        return np.asarray((found != unpack(problem.backend_shots(detectors), problem.n_checks)).any(axis=1))

    @property
    def _matching(self) -> MatchingBackend:
        assert isinstance(self.backend, MatchingBackend)
        return self.backend

    @cached_property
    def _maps(self) -> FaultMaps:
        return FaultMaps(self.backend.problem)


class ClassicalDecider(AnswerDecoder):
    """A classical decoder in the backend's place, whatever the model says."""

    def __init__(self, backend: Backend, decoder: ClassicalStage) -> None:
        super().__init__(backend)
        self._decoder = decoder

    def predict(self, kind: Kind, answers: npt.NDArray[Any], detectors: U8) -> U8:
        return self._decoder.decode(detectors)

    def predict_with_confidence(self, kind: Kind, answers: npt.NDArray[Any], detectors: U8) -> Confident:
        return self._decoder.decode_with_confidence(detectors)

    def judged(
        self, kind: Kind, answers: npt.NDArray[Any], detectors: U8, *, sure_of_all: bool
    ) -> tuple[Confident, F64]:
        found = self._decoder.decode_with_confidence(detectors)
        return found, found.log_odds

    def flops(self, detectors: U8) -> int:
        return self._decoder.flops(detectors)


def deciders(backend: Backend, gates: Gates, *, threads: int | None = 1) -> tuple[AnswerDecoder, ...]:
    """The backend behind every stage.

    Raises:
        InputError: no gate can be set on this problem, or the config names an order that the backend does not have.
    """
    gates.check(backend.name)
    if gates.stages > 1 and isinstance(backend, MatchingBackend):
        try:
            backend.per_shot.check_classes()
        except UnavailableError as error:
            hint = "use a predecoder of one stage: a gate needs to know how sure the answer is"
            raise InputError(error.what, where="stages", hint=hint) from error
    own = AnswerDecoder(backend, threads=threads)

    def behind(stage: int) -> AnswerDecoder:
        if (classical := classical_stage(backend.problem, gates, stage)) is not None:
            return ClassicalDecider(backend, classical)
        order, members, by_margin = gates.orders[stage], gates.members[stage], gates.lets_unsure(stage)
        if order is None and members is None:
            return AnswerDecoder(backend, threads=threads, by_margin=True) if by_margin else own
        made = make_backend(backend.problem, backend.name, order or 0, members or 1)
        return AnswerDecoder(made, threads=threads, by_margin=by_margin)

    return tuple(map(behind, range(gates.stages)))


class AnsweringDecoder(ABC):
    """A `Decoder` made of a model that answers and a backend that decides. A subclass says where the model is.

    batch: shots that the model is asked about at a time, or those of each stage. gates: between the stages of a cascade.
    """

    def __init__(
        self,
        backend: Backend,
        *,
        batch: int | Sequence[int],
        threads: int | None = 1,
        gates: Gates = ONE_STAGE,
    ) -> None:
        self.backend = backend
        self.gates = gates
        self.problem: DecodingProblem = backend.problem
        self._deciders = deciders(backend, gates, threads=threads)
        self._answered = self._deciders[0]
        self._batches = [batch] * gates.stages if isinstance(batch, int) else batch

    @abstractmethod
    def answers(
        self, detectors: U8, stage: int = 0, earlier: npt.NDArray[Any] | None = None
    ) -> tuple[Kind, npt.NDArray[Any]]:
        """What a stage of the model says about packed shots, and what kind of answer it is. earlier: what the stage before said."""

    def decode(self, detectors: U8) -> U8:
        return self.staged(detectors).predictions

    def staged(self, detectors: U8, *, sure_of_all: bool = False) -> Staged:
        """Predictions, and which stage made each; with `sure_of_all` also how sure the backend is of all of them."""
        return self._through(detectors, sure_of_all=sure_of_all)

    def reached(self, detectors: U8) -> tuple[int, ...]:
        """How many of the shots each stage is asked about. The last one is not asked for that."""
        return self._through(detectors, asks_last=False).reached(self.gates.stages)

    def _through(self, detectors: U8, *, sure_of_all: bool = False, asks_last: bool = True) -> Staged:
        packed = checked(detectors, self.problem.n_checks, what="detectors")

        def ask(stage: int, rows: I64, earlier: npt.NDArray[Any] | None) -> tuple[Kind, npt.NDArray[Any]]:
            return self.answers(packed[rows], stage, earlier)

        return through_stages(
            ask,
            self._deciders,
            self.gates.thresholds,
            packed,
            batches=self._batches,
            sure_of_all=sure_of_all,
            asks_last=asks_last,
        )

    def decode_with_confidence(self, detectors: U8) -> Confident:
        """Predictions, and the log-odds that each is right, of the stage that made it: the model is asked once."""
        found = self.staged(detectors, sure_of_all=True)
        return Confident(found.predictions, found.log_odds)
