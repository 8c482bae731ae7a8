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
from autoqec.decoders.gates import I64, ONE_STAGE, Gates, Staged, through_stages
from autoqec.decoders.hard_flips import FaultMaps, HardFlips
from autoqec.envs.packing import checked, unpack
from autoqec.envs.problem import F64, U8, DecodingProblem, log_odds
from autoqec.errors import UnavailableError

Kind = Literal["edges", "priors", "faults"]
"""edges: float [shots, n_edges] log-odds; priors: float [shots, n_faults] probabilities; faults: packed [shots, ceil(n_faults / 8)]."""


class AnswerDecoder:
    """A backend behind any model. threads: None takes one per available core."""

    def __init__(self, backend: Backend, *, threads: int | None = 1) -> None:
        self.backend = backend
        self._threads = threads

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

    def gap(self, kind: Kind, answers: npt.NDArray[Any], detectors: U8) -> F64:
        """[shots] log-odds that the observable was not flipped: the weight of the cheapest correction that flips it, less that of
        the cheapest that does not.

        Raises:
            UnavailableError: the backend is not matching, or the problem has several observables.
        """
        problem = self.backend.problem
        if not isinstance(self.backend, MatchingBackend) or problem.n_observables != 1:
            raise UnavailableError(
                "a confidence is known for matching with one observable, not for "
                f"{self.backend.name} with {problem.n_observables}",
                where=problem.name,
                hint="use decode",
            )
        frame = None
        if kind == "faults":
            flips = self.flips(answers, detectors)
            detectors, frame = flips.residual, flips.frame
            weights: npt.NDArray[Any] = log_odds(self.backend.graph.priors)
        else:
            weights = (
                answers if kind == "edges" else self.backend.edge_weights(answers, threads=self._threads)
            )
        gap = self.backend.per_shot.logical_classes(detectors, weights, threads=self._threads).gap
        return gap if frame is None else np.where(frame[:, 0] & 1, -gap, gap)

    def judged(self, kind: Kind, answers: npt.NDArray[Any], detectors: U8) -> tuple[U8, F64]:
        """Predictions, and how sure the backend is of each: the number that a gate of a cascade looks at, at least 0.

        Matching: the log-odds that it is right. Ordered statistics: without bound where the model's hard decision has the shot's
        syndrome, else one over the number of checks that it leaves unexplained.
        """
        predictions = self.predict(kind, answers, detectors)
        if isinstance(self.backend, MatchingBackend):
            return predictions, np.abs(self.gap(kind, answers, detectors))
        unexplained = self._unexplained(answers, detectors)
        return predictions, np.where(unexplained == 0, np.inf, 1.0 / np.maximum(unexplained, 1))

    def _unexplained(self, priors: npt.NDArray[Any], detectors: U8) -> npt.NDArray[np.int64]:
        """[shots] checks of the backend that the faults which are likelier than not do not explain."""
        problem = self.backend.problem
        likely = sp.csr_array(np.asarray(priors > 0.5, dtype=np.int32))
        found = (likely @ problem.h.T.astype(np.int32)).toarray() & 1
        return np.asarray((found != unpack(problem.backend_shots(detectors), problem.n_checks)).sum(axis=1))

    @property
    def _matching(self) -> MatchingBackend:
        assert isinstance(self.backend, MatchingBackend)
        return self.backend

    @cached_property
    def _maps(self) -> FaultMaps:
        return FaultMaps(self.backend.problem)


def deciders(backend: Backend, gates: Gates, *, threads: int | None = 1) -> tuple[AnswerDecoder, ...]:
    """The backend behind every stage."""
    gates.check(backend.problem, backend.name)
    own = AnswerDecoder(backend, threads=threads)
    return tuple(
        own
        if order is None
        else AnswerDecoder(make_backend(backend.problem, backend.name, order), threads=threads)
        for order in gates.orders
    )


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
        """Predictions, and which stage made each; with `sure_of_all` also how sure the backend is of it."""
        packed = checked(detectors, self.problem.n_checks, what="detectors")

        def ask(stage: int, rows: I64, earlier: npt.NDArray[Any] | None) -> tuple[Kind, npt.NDArray[Any]]:
            return self.answers(packed[rows], stage, earlier)

        return through_stages(
            ask, self._deciders, self.gates.thresholds, packed, batches=self._batches, sure_of_all=sure_of_all
        )

    def decode_with_gap(self, detectors: U8) -> tuple[U8, F64]:
        """Predictions, and the log-odds that the observable was not flipped (`AnswerDecoder.gap`): the model is asked once."""
        found = self.staged(detectors, sure_of_all=True)
        return found.predictions, np.where(found.predictions[:, 0] & 1, -found.sure, found.sure)
