"""One training objective: where batches come from and what the loss of one is."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from autoqec.decoders.modules.predecoders import ProblemPredecoder
from autoqec.envs.packing import pack
from autoqec.runner.data import Batch, FaultSampler
from autoqec.runner.gap import Pairs
from autoqec.runner.losses import Loss

HARD_GAP = 7.0
"""Shots whose plain gap is at least this carry no signal: their class is decided already (log-odds)."""

_DRAW = 32_768  # shots looked through at a time
_FILL_DRAWS = 400  # at most so many draws fill the buffer; later draws replace
_REFRESH, _SLOT = 32, 4096  # every so many steps, up to so many shots are replaced

Seeds = Callable[[int], int]
"""From the number of a draw to its sampler seed."""


class Objective(Protocol):
    def prepare(self, step: int) -> None:
        """Called once before the first step, which is not 0 when training resumes."""
        ...

    def step(self, module: ProblemPredecoder, index: int) -> float:
        """Gradients of one batch are added to the module's; the mean loss is returned."""
        ...


class MarginalObjective:
    """A loss on marginals: of the matching edges where the backend is given those, else of the faults."""

    def __init__(self, sampler: FaultSampler, seeds: Seeds, batch: int, loss: Loss) -> None:
        self._sampler, self._seeds, self._batch, self._loss = sampler, seeds, batch, loss

    def prepare(self, step: int) -> None:
        pass

    def step(self, module: ProblemPredecoder, index: int) -> float:
        batch = self._sampler.sample(self._batch, self._seeds(index))
        ctx = {"prior_p": batch.prior_p}
        if batch.faults is None:
            raise ValueError("marginal losses need fault labels")
        log_odds, labels = module.fault_log_odds(batch.syndrome, ctx), batch.faults
        if module.edges is not None and module.output_mode == "soft_priors":
            weights = module.edge_log_odds(batch.syndrome, ctx)
            if weights is not None:
                log_odds, labels = weights.T, module.edges.labels(batch.faults)
        loss = self._loss(log_odds, labels)
        loss.backward()  # type: ignore[no-untyped-call]
        return float(loss.detach())


class GapObjective:
    """`backend_gap` on a buffer of hard shots. Shots are used several times; every 32 steps some are replaced by fresh ones.

    A batch is cut into parts. While the backend works on one part in its threads, the next part goes forward; gradients
    then flow part by part as the backend's answers arrive, so that device and backend work at the same time.
    """

    def __init__(
        self,
        sampler: FaultSampler,
        seeds: Seeds,
        batch: int,
        pairs: Pairs,
        *,
        hard_shots: int,
        parts: int = 2,
    ) -> None:
        self._pairs, self._seeds, self._parts = pairs, seeds, min(parts, batch)
        self._sampler = sampler
        self._batch = batch
        self._pool = ThreadPoolExecutor(1)
        self.buffer = self._fill(sampler, hard_shots)

    def _fill(self, sampler: FaultSampler, wanted: int) -> Batch:
        kept: list[Batch] = []
        total, draw = 0, 0
        while total < wanted and draw < _FILL_DRAWS:
            kept.append(self._hard(draw))
            total += len(kept[-1])
            draw += 1
        return Batch(
            torch.cat([b.syndrome for b in kept])[:wanted],
            torch.cat([b.observables for b in kept])[:wanted],
            None,
            torch.cat([b.which for b in kept])[:wanted],
            kept[0].priors,
        )

    def _hard(self, draw: int) -> Batch:
        """The hard ones among the shots of one draw."""
        fresh = self._sampler.sample(_DRAW, self._seeds(draw))
        hard = self._pairs.is_hard(_packed(fresh.syndrome), _packed(fresh.observables), HARD_GAP)
        part = fresh.take(torch.from_numpy(np.flatnonzero(hard)).to(fresh.syndrome.device))
        return Batch(part.syndrome, part.observables, None, part.which, part.priors)

    def prepare(self, step: int) -> None:
        """Repeats the replacements that are still in the buffer when training goes on at `step`."""
        first = max(1, step // _REFRESH - len(self.buffer) // _SLOT)
        for count in range(first, (step - 1) // _REFRESH + 1):
            self._replace(count)

    def _replace(self, count: int) -> None:
        fresh = self._hard(_FILL_DRAWS + count)
        start = (count * _SLOT) % max(len(self.buffer) - _SLOT, 1)
        size = min(_SLOT, len(fresh), len(self.buffer) - start)
        self.buffer.syndrome[start : start + size] = fresh.syndrome[:size]
        self.buffer.observables[start : start + size] = fresh.observables[:size]
        self.buffer.which[start : start + size] = fresh.which[:size]

    def step(self, module: ProblemPredecoder, index: int) -> float:
        if index and index % _REFRESH == 0:
            self._replace(index // _REFRESH)
        device = self.buffer.syndrome.device
        generator = torch.Generator().manual_seed(self._seeds(1_000_000 + index) % 2**63)
        rows = torch.randint(len(self.buffer), (self._batch,), generator=generator).to(device)
        waiting: list[tuple[Tensor, Future[Any]]] = []
        for part in rows.chunk(self._parts):
            batch = self.buffer.take(part)
            weights = module.edge_log_odds(batch.syndrome, {"prior_p": batch.prior_p})
            if weights is None:
                weights = module.fault_log_odds(batch.syndrome, {"prior_p": batch.prior_p}).T
            detached = np.ascontiguousarray(weights.detach().float().cpu().numpy())
            future = self._pool.submit(
                self._pairs.differences, _packed(batch.syndrome), _packed(batch.observables), detached
            )
            waiting.append((weights, future))
        total = 0.0
        for weights, future in waiting:
            difference, usable = future.result()
            signed = torch.from_numpy(difference).to(weights.device, weights.dtype)
            keep = torch.from_numpy(usable).to(weights.device)
            losses = F.softplus((weights * signed).sum(dim=1)) * keep
            loss = losses.sum() / self._batch
            if loss.requires_grad and bool(keep.any()):
                loss.backward()  # type: ignore[no-untyped-call]
            total += float(loss.detach())
        return total


def _packed(bits: Tensor) -> np.ndarray[Any, np.dtype[np.uint8]]:
    return pack(bits.cpu().numpy())
