"""One training objective: where batches come from and what the loss of one is."""

from __future__ import annotations

import contextlib
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Protocol

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from autoqec.decoders.modules.predecoders import ProblemPredecoder
from autoqec.envs.problem import U8
from autoqec.runner.bits import Fetched, sent, sent_bits
from autoqec.runner.data import Batch, ShotSource
from autoqec.runner.gap import Corrections, Pairs
from autoqec.runner.hard_shots import HardShots, Seeds, current_device, in_own_stream
from autoqec.runner.losses import Loss

_WORTH_A_PART = {"cpu": 512, "cuda": 8192}
"""Shots of a part of a batch, at least, by what computes. Fewer would leave some of many cores without work while two parts are matched; on
a GPU every part costs some 10 ms of launches, whatever its size."""
_MOST_PARTS = 4
"""While one part is matched, there are two others for the device."""


def mixed_precision(device: torch.device) -> contextlib.AbstractContextManager[object]:
    """bfloat16 for the matrix products of graph networks on a GPU; belief propagation has none and stays exact."""
    if device.type == "cuda":
        return torch.autocast("cuda", torch.bfloat16)
    return contextlib.nullcontext()


class Objective(Protocol):
    def prepare(self, step: int) -> None:
        """Called once before the first step, which is not 0 when training resumes."""
        ...

    def step(self, module: ProblemPredecoder, index: int) -> Tensor:
        """Gradients of one batch are added to the module's; the mean loss is returned, a number on the device, for which nobody has waited."""
        ...


class MarginalObjective:
    """A loss on marginals: of the matching edges where the backend is given those, else of the faults.

    ahead: the next batch is drawn beside the step, where drawing takes long. For a CPU: a tensor of another thread's stream is not ready on a GPU.
    """

    def __init__(
        self, sampler: ShotSource, seeds: Seeds, batch: int, loss: Loss, *, ahead: bool = False
    ) -> None:
        self._sampler, self._seeds, self._batch, self._loss = sampler, seeds, batch, loss
        self._pool = ThreadPoolExecutor(1) if ahead else None
        self._waiting: dict[int, Future[Batch]] = {}

    def prepare(self, step: int) -> None:
        pass

    def step(self, module: ProblemPredecoder, index: int) -> Tensor:
        batch = self._drawn(index).to(module.prior.device)
        ctx = batch.given
        if batch.faults is None:
            raise ValueError("marginal losses need fault labels")
        with mixed_precision(batch.syndrome.device):
            if module.edges is not None and module.output_mode == "soft_priors":
                log_odds, labels = (
                    module.backend_weights(batch.syndrome, ctx).T,
                    module.edges.labels(batch.faults),
                )
            else:
                log_odds, labels = module.fault_log_odds(batch.syndrome, ctx), batch.faults
        loss = self._loss(log_odds.float(), labels)
        loss.backward()  # type: ignore[no-untyped-call]
        return loss.detach()

    def _drawn(self, index: int) -> Batch:
        if self._pool is None:
            return self._draw(index)
        now = self._waiting.pop(index, None)
        self._waiting[index + 1] = self._pool.submit(self._draw, index + 1)
        return self._draw(index) if now is None else now.result()

    def _draw(self, index: int) -> Batch:
        return self._sampler.sample(self._batch, self._seeds(index))


class GapObjective:
    """`backend_gap` on hard shots.

    A batch is cut into parts. While the backend works on one part in its threads, the next part goes forward; gradients
    then flow part by part as the backend's answers arrive, so that device and backend work at the same time. Nothing waits for the device
    but the threads of the backend.
    """

    def __init__(self, shots: HardShots, batch: int, pairs: Pairs, *, parts: int | None = None) -> None:
        self.shots = shots
        self._pairs, self._batch = pairs, batch
        self._parts = min(batch, parts or _parts(batch))
        self._pool = ThreadPoolExecutor(2, initializer=in_own_stream, initargs=(current_device(),))

    def prepare(self, step: int) -> None:
        self.shots.resume(step)

    def step(self, module: ProblemPredecoder, index: int) -> Tensor:
        self.shots.refresh(index)
        buffer = self.shots.buffer
        waiting: list[tuple[Tensor, Tensor | None, Future[Corrections]]] = []
        for rows in np.array_split(self.shots.pick(self._batch, index), self._parts):
            batch = buffer.take(rows).to(module.prior.device)
            with mixed_precision(batch.syndrome.device):
                weights = module.backend_weights(batch.syndrome, batch.given).float()
            future = self._pool.submit(self._corrections, *buffer.packed(rows), Fetched(weights.detach()))
            waiting.append((weights, batch.weight, future))
        # Added up on the device: a number asked for here would wait for the gradients of the part.
        parts: list[Tensor] = []
        for weights, counts, future in waiting:
            found = future.result()
            losses = _losses(weights, found)
            losses = losses if counts is None else losses * counts
            loss = losses.sum() / self._batch
            if loss.requires_grad and found.signs.any():
                loss.backward()  # type: ignore[no-untyped-call]
            parts.append(loss.detach())
        return torch.stack(parts).sum()

    def _corrections(self, detectors: U8, observables: U8, weights: Fetched) -> Corrections:
        return self._pairs.corrections(detectors, observables, weights.wait())


def _parts(batch: int) -> int:
    """A CPU always has two: its threads match one while the other goes forward."""
    on_cpu = current_device() is None
    worth = _WORTH_A_PART["cpu" if on_cpu else "cuda"]
    return max(2 if on_cpu else 1, min(_MOST_PARTS, batch // worth))


def _losses(weights: Tensor, found: Corrections) -> Tensor:
    """[shots] softplus of what the true class weighs more than the wrong one; 0 where there is no such pair."""
    shots, n = weights.shape
    bits = sent_bits(found.both.reshape(2 * shots, -1), n, weights.device).reshape(shots, 2, n)
    signs = sent(found.signs, weights.device)
    first_less_second = bits[:, 0].to(weights.dtype) - bits[:, 1].to(weights.dtype)
    return F.softplus((weights * first_less_second).sum(dim=1) * signs) * signs.abs()
