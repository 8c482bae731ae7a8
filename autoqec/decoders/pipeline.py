"""Syndrome to prediction: a predecoder in front of its classical backend.

soft_priors: the backend decodes the syndrome with the predecoder's weights for every shot.
hard_flip: the predecoder applies faults F; the backend decodes what is left, and prediction = L F XOR backend(residual).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from autoqec.decoders.answers import AnswerDecoder, AnswerKind
from autoqec.decoders.backends import Backend
from autoqec.decoders.backends.matching import MatchingBackend
from autoqec.decoders.compiler import context
from autoqec.decoders.hard_flips import HardFlips
from autoqec.decoders.modules.base import PredecoderModule
from autoqec.envs.packing import checked, unpack, width
from autoqec.envs.problem import U8, DecodingProblem

# Shots at a time: on a CPU the activations of a graph network should stay in its cache.
_BATCH = {"cpu": 128, "cuda": 8192}


class PredecoderPipeline:
    """A `Decoder` made of a module and a backend, on one problem."""

    def __init__(
        self,
        module: PredecoderModule,
        backend: Backend,
        *,
        device: torch.device | str = "cpu",
        threads: int | None = 1,
    ) -> None:
        self.module = module.to(device).eval()
        self.backend = backend
        self.problem: DecodingProblem = backend.problem
        self._device = torch.device(device)
        self._answered = AnswerDecoder(backend, threads=threads)
        self._batch = _BATCH.get(self._device.type, 1024)
        self._ctx = context(self.problem, device)

    def decode(self, detectors: U8) -> U8:
        packed = checked(detectors, self.problem.n_checks, what="detectors")
        out = np.zeros((len(packed), width(self.problem.n_observables)), dtype=np.uint8)
        for start in range(0, len(packed), self._batch):
            part = packed[start : start + self._batch]
            kind, answers = self.answers(part)
            out[start : start + self._batch] = self._answered.decode(kind, part, answers)
        return out

    def answers(self, detectors: U8) -> tuple[AnswerKind, npt.NDArray[Any]]:
        """What the backend decodes these packed shots with, and which of the three it is."""
        syndrome = self._tensor(detectors)
        with torch.no_grad():
            if self.module.output_mode == "hard_flip":
                return "applied_faults", self.module.applied_faults(syndrome, self._ctx).cpu().numpy()
            if isinstance(self.backend, MatchingBackend):
                weights = self.soft_weights(detectors)
                if weights is not None:
                    return "edge_log_odds", weights
            return "fault_probabilities", self.module(syndrome, self._ctx).cpu().numpy()

    def hard_flips(self, detectors: U8) -> HardFlips:
        """Residual and frame from the applied faults, computed here from the problem's own H and L."""
        with torch.no_grad():
            faults = self.module.applied_faults(self._tensor(detectors), self._ctx).cpu().numpy()
        return self._answered.flips(detectors, faults)

    def soft_weights(self, detectors: U8) -> npt.NDArray[np.float32] | None:
        """The module's own matching weights [shots, n_edges], or None where it only gives fault priors."""
        with torch.no_grad():
            weights = self.module.edge_log_odds(self._tensor(detectors), self._ctx)
        return None if weights is None else weights.float().contiguous().cpu().numpy()

    def _tensor(self, detectors: U8) -> torch.Tensor:
        return torch.from_numpy(unpack(detectors, self.problem.n_checks)).to(self._device, torch.float32)
