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
from autoqec.decoders.protocol import Confident
from autoqec.envs.packing import checked, unpack, width
from autoqec.envs.problem import U8, DecodingProblem

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
            matcher = self._matching.per_shot
            return matcher.decode_with_margins(detectors, answers, threads=self._threads)
        priors = answers.astype(np.float64)
        return self.backend.priors_with_confidence(detectors, priors, threads=self._threads)

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

    def decode_with_confidence(self, detectors: U8) -> Confident:
        """Predictions, and the log-odds that each is right: the model is asked once."""
        packed = checked(detectors, self.problem.n_checks, what="detectors")
        out = np.zeros((len(packed), width(self.problem.n_observables)), dtype=np.uint8)
        log_odds = np.zeros(len(packed))
        for start in range(0, len(packed), self._batch):
            rows = slice(start, start + self._batch)
            part = packed[rows]
            out[rows], log_odds[rows] = self._answered.predict_with_confidence(*self.answers(part), part)
        return Confident(out, log_odds)
