"""A training as TensorBoard shows it: one folder of event files for each round.

| tag | value |
|---|---|
| loss, learning_rate | of every step |
| selection/failures | on the selection shots, whenever a training state is scored |
| speed/shots_per_second | of wall-clock time, over the last ten steps |
| speed/device_busy | share of the last ten steps in which the device worked: of all cores' time on a CPU; on a GPU as its driver says |
"""

from __future__ import annotations

import contextlib
import time
from pathlib import Path
from typing import Any, Self

import torch

from autoqec.io.cores import available_cores

_EVERY = 10


class Telemetry:
    """folder: for the event files. batch: shots of a step. device: that trains."""

    def __init__(self, folder: Path, *, batch: int, device: torch.device) -> None:
        self._folder, self._batch, self._device = folder, batch, device
        self._writer: Any = None
        self._since = (0, 0.0, 0.0)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def begin(self, step: int) -> None:
        """step: the first. What an earlier process wrote beyond it is not shown any more."""
        from torch.utils.tensorboard import SummaryWriter

        writer: Any = SummaryWriter(str(self._folder), purge_step=step + 1 if step else None)
        self._writer = writer
        self._since = (step, time.monotonic(), time.process_time())

    def step(self, step: int, loss: float, learning_rate: float) -> None:
        self._writer.add_scalar("loss", loss, step)
        self._writer.add_scalar("learning_rate", learning_rate, step)
        before, wall, cpu = self._since
        if step - before < _EVERY:
            return
        now = (step, time.monotonic(), time.process_time())
        seconds = max(now[1] - wall, 1e-9)
        self._writer.add_scalar("speed/shots_per_second", (step - before) * self._batch / seconds, step)
        if (busy := self._busy((now[2] - cpu) / seconds)) is not None:
            self._writer.add_scalar("speed/device_busy", busy, step)
        self._since = now

    def score(self, step: int, failures: float) -> None:
        self._writer.add_scalar("selection/failures", failures, step)

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()

    def _busy(self, cores: float) -> float | None:
        """cores: that this process kept busy. None where nobody can tell."""
        if self._device.type == "cpu":
            return cores / available_cores()
        if self._device.type == "cuda":
            with contextlib.suppress(
                ImportError, RuntimeError, AttributeError
            ):  # no driver library in Python
                return torch.cuda.utilization(self._device) / 100
        return None
