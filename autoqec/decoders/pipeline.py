"""Syndrome to prediction: a predecoder in front of its classical backend, in this process."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from autoqec.decoders.answers import AnsweringDecoder, Kind
from autoqec.decoders.backends import Backend
from autoqec.decoders.backends.matching import MatchingBackend
from autoqec.decoders.compiler import context
from autoqec.decoders.hard_flips import HardFlips
from autoqec.decoders.modules.base import PredecoderModule
from autoqec.envs.packing import pack, unpack
from autoqec.envs.problem import U8

_BATCH = {"cuda": 8192}


class PredecoderPipeline(AnsweringDecoder):
    """A module in this process in front of a backend, on one problem."""

    def __init__(
        self,
        module: PredecoderModule,
        backend: Backend,
        *,
        device: torch.device | str = "cpu",
        threads: int | None = 1,
    ) -> None:
        self._device = torch.device(device)
        batch = module.cpu_batch if self._device.type == "cpu" else _BATCH.get(self._device.type, 1024)
        super().__init__(backend, batch=batch, threads=threads)
        self.module = module.to(device).eval()
        self._ctx = context(self.problem, device)

    def answers(self, detectors: U8) -> tuple[Kind, npt.NDArray[Any]]:
        if self.module.output_mode == "hard_flip":
            with torch.no_grad():
                faults = self.module.applied_faults(self._syndrome(detectors), self._ctx)
            return "faults", pack(faults.cpu().numpy())
        if (
            isinstance(self.backend, MatchingBackend)
            and (weights := self.soft_weights(detectors)) is not None
        ):
            return "edges", weights
        with torch.no_grad():
            return "priors", self.module(self._syndrome(detectors), self._ctx).cpu().numpy()

    def hard_flips(self, detectors: U8) -> HardFlips:
        """Residual and frame from the applied faults, computed here from the problem's own H and L."""
        return self._answered.flips(self.answers(detectors)[1], detectors)

    def soft_weights(self, detectors: U8) -> npt.NDArray[np.float32] | None:
        """The module's own matching weights [shots, n_edges], or None where it only gives fault priors."""
        with torch.no_grad():
            weights = self.module.edge_log_odds(self._syndrome(detectors), self._ctx)
        return None if weights is None else weights.float().contiguous().cpu().numpy()

    def _syndrome(self, detectors: U8) -> torch.Tensor:
        bits = unpack(detectors, self.problem.n_checks)
        return torch.from_numpy(bits).to(self._device, torch.float32)
