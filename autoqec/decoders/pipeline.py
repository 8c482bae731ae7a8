"""Syndrome to prediction: a predecoder in front of its classical backend.

soft_priors: the backend decodes the syndrome with the predecoder's weights for every shot.
hard_flip: the predecoder applies faults F; the backend decodes what is left, and prediction = L F XOR backend(residual).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import torch

from autoqec.decoders.backends import Backend
from autoqec.decoders.backends.matching import MatchingBackend
from autoqec.decoders.compiler import context
from autoqec.decoders.hard_flips import FaultMaps, HardFlips
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
        self._threads = threads
        self._batch = _BATCH.get(self._device.type, 1024)
        self._ctx = context(self.problem, device)
        self._maps = FaultMaps(self.problem)

    def decode(self, detectors: U8) -> U8:
        packed = checked(detectors, self.problem.n_checks, what="detectors")
        out = np.zeros((len(packed), width(self.problem.n_observables)), dtype=np.uint8)
        for start in range(0, len(packed), self._batch):
            part = packed[start : start + self._batch]
            if self.module.output_mode == "soft_priors":
                out[start : start + self._batch] = self._decode_soft(part)
            else:
                flips = self.hard_flips(part)
                out[start : start + self._batch] = self.backend.decode_residual(flips.residual, flips.frame)
        return out

    def hard_flips(self, detectors: U8) -> HardFlips:
        """Residual and frame from the applied faults, computed here from the problem's own H and L."""
        syndrome = unpack(detectors, self.problem.n_checks)
        with torch.no_grad():
            faults = self.module.applied_faults(self._tensor(syndrome), self._ctx).cpu().numpy()
        return self._maps.flips(syndrome, faults)

    def soft_weights(self, detectors: U8) -> npt.NDArray[np.float32] | None:
        """The module's own matching weights [shots, n_edges], or None where it only gives fault priors."""
        with torch.no_grad():
            weights = self.module.edge_log_odds(
                self._tensor(unpack(detectors, self.problem.n_checks)), self._ctx
            )
        return None if weights is None else weights.float().contiguous().cpu().numpy()

    def _decode_soft(self, detectors: U8) -> U8:
        if isinstance(self.backend, MatchingBackend):
            weights = self.soft_weights(detectors)
            if weights is not None:
                return self.backend.decode_edges(detectors, weights, threads=self._threads)
        with torch.no_grad():
            priors = self.module(self._tensor(unpack(detectors, self.problem.n_checks)), self._ctx)
        return self.backend.decode_priors(
            detectors, priors.cpu().numpy().astype(np.float64), threads=self._threads
        )

    def _tensor(self, syndrome: U8) -> torch.Tensor:
        return torch.from_numpy(syndrome).to(self._device, torch.float32)
