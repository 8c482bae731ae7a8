"""The hard shots that a loss learns from: for `backend_gap` those whose logical class is still open under the fixed weights, a fifth
of all shots at the error rates of interest; for `failures` those that are not settled under the model's own start.

They carry all of the signal. A buffer holds many of them, and every step replaces a part of it by fresh ones, so that a shot is
seen a few times and then never again. The draw for the next step is made in a thread of its own while the current step trains.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from autoqec.envs.packing import pack
from autoqec.envs.problem import U8
from autoqec.errors import InputError
from autoqec.runner.data import Batch, ShotSource

_FILL = 32_768  # shots looked through at a time to fill the buffer
_FILL_DRAWS = 400  # at most so many draws fill it; later draws replace

Seeds = Callable[[int], int]
"""From the number of a draw to its sampler seed."""

IsHard = Callable[[U8, U8], npt.NDArray[np.bool_ | np.float32]]
"""Of packed detectors and observables: whether each shot is kept, or its weight in the loss, 0 if it is not kept."""


def one_pass(shots: int, at_a_time: int = _FILL) -> dict[str, int]:
    """How HardShots looks through so many shots: about once each, and no further if few are hard."""
    fill = min(shots, at_a_time)
    return {"fill": fill, "fills": -(-shots // fill)}


def both(first: IsHard, then: IsHard) -> IsHard:
    """Whether a shot is kept by both; `then` is only asked about those that the first keeps."""

    def is_hard(detectors: U8, observables: U8) -> npt.NDArray[np.bool_ | np.float32]:
        rows = np.flatnonzero(first(detectors, observables))
        found = then(detectors[rows], observables[rows])
        kept = np.zeros(len(detectors), dtype=found.dtype)
        kept[rows] = found
        return kept

    return is_hard


class HardShots:
    """A buffer whose content is a function of the step: every draw has its own seed.

    size: of the buffer; draw: shots looked through for each step; fill: shots looked through at a time until the buffer is full, at
    most fills times.
    """

    def __init__(
        self,
        sampler: ShotSource,
        seeds: Seeds,
        is_hard: IsHard,
        *,
        size: int,
        draw: int,
        fill: int = _FILL,
        fills: int = _FILL_DRAWS,
    ) -> None:
        self._sampler, self._seeds, self._is_hard, self._draw = sampler, seeds, is_hard, draw
        self._pool = ThreadPoolExecutor(1, initializer=_on_device, initargs=(_current_device(),))
        self._next: tuple[int, Future[Batch]] | None = None
        kept: list[Batch] = []
        while sum(map(len, kept)) < size and len(kept) < fills:
            kept.append(self._hard(len(kept), fill))
        if not any(map(len, kept)):
            raise InputError(
                f"no hard shot among {fills * fill:,}",
                where="training.loss",
                hint="train at a larger p (noise.reference_p)",
            )
        self.buffer = Batch(
            torch.cat([b.syndrome for b in kept])[:size],
            torch.cat([b.observables for b in kept])[:size],
            None,
            torch.cat([b.which for b in kept])[:size],
            kept[0].priors,
            weight=torch.cat([_weight(b) for b in kept])[:size],
        )
        share = sum(map(len, kept)) / (len(kept) * fill)
        self._slot = max(1, min(draw // 5, int(share * draw), len(self.buffer) // 4))
        self._first = max(fills, _FILL_DRAWS)  # number of the first draw that replaces

    def resume(self, step: int) -> None:
        """Repeats the replacements that are still in the buffer when training resumes at `step`."""
        for count in range(max(1, step - len(self.buffer) // self._slot - 1), step):
            self.refresh(count)

    def refresh(self, step: int) -> None:
        """The buffer as it is at `step`, which is one more than the step before."""
        if step == 0:
            return
        fresh = self._fresh(step)
        self._next = (step + 1, self._pool.submit(self._hard, self._first + step + 1, self._draw))
        if not len(fresh):
            return
        # Always a whole slot, round and round: the last len / slot draws tell the whole content.
        slot = torch.arange(self._slot, device=fresh.which.device)
        rows, new = (step * self._slot + slot) % len(self.buffer), fresh.take(slot % len(fresh))
        self.buffer.syndrome[rows] = new.syndrome
        self.buffer.observables[rows] = new.observables
        self.buffer.which[rows] = new.which
        _weight(self.buffer)[rows] = _weight(new)

    def pick(self, size: int, step: int) -> Tensor:
        """Random rows of the buffer."""
        generator = torch.Generator().manual_seed(self._seeds(1_000_000 + step) % 2**63)
        rows = torch.randint(len(self.buffer), (size,), generator=generator)
        return rows.to(self.buffer.syndrome.device)

    def _fresh(self, step: int) -> Batch:
        if self._next is not None and self._next[0] == step:
            return self._next[1].result()
        return self._hard(self._first + step, self._draw)

    def _hard(self, draw: int, size: int) -> Batch:
        """The hard ones among the shots of one draw."""
        fresh = self._sampler.sample(size, self._seeds(draw))
        hard = self._is_hard(packed(fresh.syndrome), packed(fresh.observables))
        device = fresh.syndrome.device
        part = fresh.take(torch.from_numpy(np.flatnonzero(hard)).to(device))
        weight = torch.from_numpy(hard[hard > 0].astype(np.float32)).to(device)
        return Batch(part.syndrome, part.observables, None, part.which, part.priors, weight=weight)


def _current_device() -> int | None:
    """Of CUDA, where this process uses it."""
    in_use = torch.cuda.is_initialized()  # type: ignore[no-untyped-call]
    return torch.cuda.current_device() if in_use else None


def _on_device(number: int | None) -> None:
    """A new thread would be on the first device, whichever one its process trains on."""
    if number is not None:
        torch.cuda.set_device(number)


def _weight(batch: Batch) -> Tensor:
    if batch.weight is None:
        raise ValueError("hard shots have weights")
    return batch.weight


def packed(bits: Tensor) -> np.ndarray[Any, np.dtype[np.uint8]]:
    return pack(bits.to(torch.uint8).cpu().numpy())
