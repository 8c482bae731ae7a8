"""What a model's answers mean for a shot: the backend's prediction, and how sure it is.

soft_priors: the backend decodes the syndrome with the model's weights for every shot ("edges": of the matching graph, "priors":
fault probabilities). hard_flip: the model applies faults F; the backend decodes what is left, and prediction = L F XOR backend(residual).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import cached_property
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from autoqec.decoders.backends import Backend
from autoqec.decoders.backends.matching import MatchingBackend
from autoqec.decoders.hard_flips import FaultMaps, HardFlips
from autoqec.envs.packing import checked, unpack, width
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

    @property
    def _matching(self) -> MatchingBackend:
        assert isinstance(self.backend, MatchingBackend)
        return self.backend

    @cached_property
    def _maps(self) -> FaultMaps:
        return FaultMaps(self.backend.problem)


class AnsweringDecoder(ABC):
    """A `Decoder` made of a model that answers and a backend that decides. A subclass says where the model is.

    batch: shots that the model is asked about at a time.
    """

    def __init__(self, backend: Backend, *, batch: int, threads: int | None = 1) -> None:
        self.backend = backend
        self.problem: DecodingProblem = backend.problem
        self._answered = AnswerDecoder(backend, threads=threads)
        self._batch = batch

    @abstractmethod
    def answers(self, detectors: U8) -> tuple[Kind, npt.NDArray[Any]]:
        """What the model says about packed shots, and what kind of answer it is."""

    def decode(self, detectors: U8) -> U8:
        packed = checked(detectors, self.problem.n_checks, what="detectors")
        out = np.zeros((len(packed), width(self.problem.n_observables)), dtype=np.uint8)
        for start in range(0, len(packed), self._batch):
            part = packed[start : start + self._batch]
            out[start : start + self._batch] = self._answered.predict(*self.answers(part), part)
        return out

    def decode_with_gap(self, detectors: U8) -> tuple[U8, F64]:
        """Predictions, and the log-odds that the observable was not flipped (`AnswerDecoder.gap`): the model is asked once."""
        packed = checked(detectors, self.problem.n_checks, what="detectors")
        out = np.zeros((len(packed), width(self.problem.n_observables)), dtype=np.uint8)
        gap = np.zeros(len(packed))
        for start in range(0, len(packed), self._batch):
            part = packed[start : start + self._batch]
            answers = self.answers(part)
            gap[start : start + self._batch] = self._answered.gap(*answers, part)
            out[start : start + self._batch] = self._answered.predict(*answers, part)
        return out, gap
