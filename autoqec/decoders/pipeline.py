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
from autoqec.decoders.modules.cascade import EARLIER_EDGES, EARLIER_PRIORS, gates_of, stages_of
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
        stages = stages_of(module)
        on_cpu = self._device.type == "cpu"
        batches = [stage.cpu_batch if on_cpu else _BATCH.get(self._device.type, 1024) for stage in stages]
        super().__init__(backend, batch=batches, threads=threads, gates=gates_of(module))
        self.module = module.to(device).eval()
        self._stages = stages
        self._ctx = context(self.problem, device)

    def answers(
        self, detectors: U8, stage: int = 0, earlier: npt.NDArray[Any] | None = None
    ) -> tuple[Kind, npt.NDArray[Any]]:
        module, syndrome = self._stages[stage], self._syndrome(detectors)
        if module.output_mode == "hard_flip":
            with torch.no_grad():
                return "faults", pack(module.applied_faults(syndrome, self._ctx).cpu().numpy())
        with torch.no_grad():
            if isinstance(self.backend, MatchingBackend):
                weights = module.edge_log_odds(syndrome, self._with(earlier, EARLIER_EDGES))
                if weights is not None:
                    return "edges", weights.float().contiguous().cpu().numpy()
            return "priors", module(syndrome, self._with(earlier, EARLIER_PRIORS)).cpu().numpy()

    def hard_flips(self, detectors: U8) -> HardFlips:
        """Residual and frame from the applied faults, computed here from the problem's own H and L."""
        return self._answered.flips(self.answers(detectors)[1], detectors)

    def soft_weights(self, detectors: U8) -> npt.NDArray[np.float32] | None:
        """The module's own matching weights [shots, n_edges], or None where it only gives fault priors."""
        kind, weights = self.answers(detectors)
        return weights if kind == "edges" else None

    def _with(self, earlier: npt.NDArray[Any] | None, name: str) -> dict[str, Any]:
        """What a stage is given: the problem's own numbers, and what the stage before said."""
        if earlier is None:
            return self._ctx
        return {**self._ctx, name: torch.from_numpy(np.ascontiguousarray(earlier)).to(self._device)}

    def _syndrome(self, detectors: U8) -> torch.Tensor:
        bits = unpack(detectors, self.problem.n_checks)
        return torch.from_numpy(bits).to(self._device, torch.float32)
