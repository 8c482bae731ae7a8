"""One training objective: where batches come from and what the loss of one is."""

from __future__ import annotations

import contextlib
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from autoqec.decoders.modules.predecoders import ProblemPredecoder
from autoqec.runner.data import ShotSource
from autoqec.runner.gap import Pairs
from autoqec.runner.hard_shots import HardShots, Seeds, packed
from autoqec.runner.losses import Loss


def mixed_precision(device: torch.device) -> contextlib.AbstractContextManager[object]:
    """bfloat16 for the matrix products of graph networks on a GPU; belief propagation has none and stays exact."""
    if device.type == "cuda":
        return torch.autocast("cuda", torch.bfloat16)
    return contextlib.nullcontext()


class Objective(Protocol):
    def prepare(self, step: int) -> None:
        """Called once before the first step, which is not 0 when training resumes."""
        ...

    def step(self, module: ProblemPredecoder, index: int) -> float:
        """Gradients of one batch are added to the module's; the mean loss is returned."""
        ...


class MarginalObjective:
    """A loss on marginals: of the matching edges where the backend is given those, else of the faults."""

    def __init__(self, sampler: ShotSource, seeds: Seeds, batch: int, loss: Loss) -> None:
        self._sampler, self._seeds, self._batch, self._loss = sampler, seeds, batch, loss

    def prepare(self, step: int) -> None:
        pass

    def step(self, module: ProblemPredecoder, index: int) -> float:
        batch = self._sampler.sample(self._batch, self._seeds(index)).to(module.prior.device)
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
        return float(loss.detach())


class GapObjective:
    """`backend_gap` on hard shots.

    A batch is cut into parts. While the backend works on one part in its threads, the next part goes forward; gradients
    then flow part by part as the backend's answers arrive, so that device and backend work at the same time.
    """

    def __init__(self, shots: HardShots, batch: int, pairs: Pairs, *, parts: int = 2) -> None:
        self.shots = shots
        self._pairs, self._batch, self._parts = pairs, batch, min(parts, batch)
        self._pool = ThreadPoolExecutor(1)

    def prepare(self, step: int) -> None:
        self.shots.resume(step)

    def step(self, module: ProblemPredecoder, index: int) -> float:
        self.shots.refresh(index)
        buffer = self.shots.buffer
        waiting: list[tuple[Tensor, Tensor | None, Future[Any]]] = []
        for rows in self.shots.pick(self._batch, index).chunk(self._parts):
            batch = buffer.take(rows).to(module.prior.device)
            with mixed_precision(batch.syndrome.device):
                weights = module.backend_weights(batch.syndrome, batch.given).float()
            detached = np.ascontiguousarray(weights.detach().cpu().numpy())
            future = self._pool.submit(
                self._pairs.differences, packed(batch.syndrome), packed(batch.observables), detached
            )
            waiting.append((weights, batch.weight, future))
        # Added up on the device: a number asked for here would wait for the gradients of the part.
        parts: list[Tensor] = []
        for weights, counts, future in waiting:
            difference, usable = future.result()
            signed = torch.from_numpy(difference).to(weights.device, weights.dtype)
            keep = torch.from_numpy(usable).to(weights.device)
            losses = F.softplus((weights * signed).sum(dim=1)) * keep
            losses = losses if counts is None else losses * counts
            loss = losses.sum() / self._batch
            if loss.requires_grad and bool(usable.any()):
                loss.backward()  # type: ignore[no-untyped-call]
            parts.append(loss.detach())
        return float(torch.stack(parts).sum())
