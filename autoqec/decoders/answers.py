"""What a predecoder answers a backend with, and how the backend uses it. One rule for networks in torch and in exported files.

edge_log_odds: matching weights [shots, n_edges]. fault_probabilities: [shots, n_faults]. applied_faults: a correction already
made, [shots, n_faults] of 0 and 1; the backend decodes what is left, and prediction = L F XOR backend(residual).
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from autoqec.decoders.backends import Backend
from autoqec.decoders.backends.matching import MatchingBackend
from autoqec.decoders.hard_flips import FaultMaps, HardFlips
from autoqec.envs.packing import unpack
from autoqec.envs.problem import U8

AnswerKind = Literal["edge_log_odds", "fault_probabilities", "applied_faults"]


class AnswerDecoder:
    """A backend that decodes shots with the answers of a predecoder."""

    def __init__(self, backend: Backend, *, threads: int | None = 1) -> None:
        self.backend = backend
        self._threads = threads
        self._maps = FaultMaps(backend.problem)

    def decode(self, kind: AnswerKind, detectors: U8, answers: npt.NDArray[Any]) -> U8:
        """Packed shots and one row of answers for each -> packed predictions."""
        if kind == "applied_faults":
            flips = self.flips(detectors, answers)
            return self.backend.decode_residual(flips.residual, flips.frame)
        if kind == "edge_log_odds" and isinstance(self.backend, MatchingBackend):
            return self.backend.decode_edges(
                detectors, np.ascontiguousarray(answers, dtype=np.float32), threads=self._threads
            )
        return self.backend.decode_priors(detectors, answers.astype(np.float64), threads=self._threads)

    def flips(self, detectors: U8, faults: npt.NDArray[Any]) -> HardFlips:
        """Residual and frame of applied faults, by the problem's own H and L."""
        return self._maps.flips(unpack(detectors, self.backend.problem.n_checks), faults)
