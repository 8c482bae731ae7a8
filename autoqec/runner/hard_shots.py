"""The hard shots that a loss learns from: for `backend_gap` those whose logical class is still open under the fixed weights, a fifth
of all shots at the error rates of interest; for `failures` those that are not settled under the model's own start.

They carry all of the signal. A buffer holds many of them, and every step replaces a part of it by fresh ones, so that a shot is
seen a few times and then never again. The draws for the next steps are made in threads of their own, on a GPU in streams of their own, while the
current step trains; what they find is handed over on the host, packed.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypedDict

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from autoqec.envs.problem import U8
from autoqec.errors import InputError
from autoqec.runner.bits import packed
from autoqec.runner.data import Batch, ShotSource
from autoqec.runner.shot_buffer import I64, PackedShots, ShotBuffer, empty_like, joined

_FILL = 32_768  # shots looked through at a time to fill the buffer
_FILL_DRAWS = 400  # at most so many draws fill it; later draws replace
_AHEAD = 2  # draws in flight beside a step on a GPU: one is on the device while the other is matched
_COINS = 0x5EED  # the chances of a draw have a stream of random numbers beside that of its shots

Seeds = Callable[[int], int]
"""From the number of a draw to its sampler seed."""

IsHard = Callable[..., npt.NDArray[np.bool_ | np.float32]]
"""Of packed detectors and observables: whether each shot is kept, or its weight in the loss, 0 if it is not kept. With a first look it is given
the chances of the shots, too."""

Look = Callable[[Batch], Tensor]
"""A first look at the shots of a draw: the chance with which each is handed on to IsHard."""


class Pass(TypedDict, total=False):
    """Arguments of HardShots."""

    fill: int
    fills: int


def one_pass(shots: int, at_a_time: int = _FILL) -> Pass:
    """How HardShots looks through so many shots: about once each, and no further if few are hard."""
    fill = min(shots, at_a_time)
    return {"fill": fill, "fills": -(-shots // fill)}


def both(first: IsHard, then: IsHard) -> IsHard:
    """Whether a shot is kept by both; `then` is only asked about those that the first keeps."""

    def is_hard(detectors: U8, observables: U8, *_: object) -> npt.NDArray[np.bool_ | np.float32]:
        rows = np.flatnonzero(first(detectors, observables))
        found = then(detectors[rows], observables[rows])
        kept = np.zeros(len(detectors), dtype=found.dtype)
        kept[rows] = found
        return kept

    return is_hard


class HardShots:
    """A buffer whose content is a function of the step: every draw has its own seed.

    size: of the buffer; draw: shots looked through for each step; fill: shots looked through at a time until the buffer is full, at
    most fills times. look: in front of is_hard.
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
        look: Look | None = None,
    ) -> None:
        self._sampler, self._seeds, self._is_hard, self._draw, self._look = (
            sampler,
            seeds,
            is_hard,
            draw,
            look,
        )
        device = current_device()
        self._ahead = 1 if device is None else _AHEAD
        self._pool = ThreadPoolExecutor(self._ahead, initializer=in_own_stream, initargs=(device,))
        self._drawn: dict[int, Future[PackedShots]] = {}
        self._like: Batch
        kept = self._filled(size, fill, fills)
        found = joined(kept)
        if not len(found):
            raise InputError(
                f"no hard shot among {fills * fill:,}",
                where="training.loss",
                hint="train at a larger p (noise.reference_p)",
            )
        self.buffer = ShotBuffer(found.take(np.arange(min(size, len(found)))), self._like)
        share = len(found) / (len(kept) * fill)
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
        for later in range(step, step + 1 + self._ahead):
            if later not in self._drawn:
                self._drawn[later] = self._pool.submit(self._hard, self._first + later, self._draw)
        fresh = self._drawn.pop(step).result()
        if not len(fresh):
            return
        # Always a whole slot, round and round: the last len / slot draws tell the whole content.
        slot = np.arange(self._slot)
        self.buffer.replace((step * self._slot + slot) % len(self.buffer), fresh.take(slot % len(fresh)))

    def pick(self, size: int, step: int) -> I64:
        """Random rows of the buffer."""
        generator = torch.Generator().manual_seed(self._seeds(1_000_000 + step) % 2**63)
        rows: I64 = torch.randint(len(self.buffer), (size,), generator=generator).numpy()
        return rows

    def _filled(self, size: int, fill: int, fills: int) -> list[PackedShots]:
        """Draws until there are `size` hard shots. The first one is made here: it compiles what all others use."""
        kept, found = [self._hard(0, fill)], 0
        waiting: dict[int, Future[PackedShots]] = {}
        for number in itertools.count(1):
            found += len(kept[-1])
            if found >= size or number >= fills:
                break
            for later in range(number, min(number + self._ahead, fills)):
                if later not in waiting:
                    waiting[later] = self._pool.submit(self._hard, later, fill)
            kept.append(waiting.pop(number).result())
        return kept

    def _hard(self, draw: int, size: int) -> PackedShots:
        """The hard ones among the shots of one draw. Nothing of it stays on the device: other streams need not wait for this one."""
        seed = self._seeds(draw)
        fresh = self._sampler.sample(size, seed)
        if draw == 0:
            self._like = empty_like(fresh)
        chances = np.ones(len(fresh), dtype=np.float32)
        if self._look is not None:
            given = self._look(fresh)
            rows = (self._coins(given, seed) < given).nonzero()[:, 0]
            fresh, chances = fresh.take(rows), given[rows].cpu().numpy()
        shots = packed(fresh.syndrome), packed(fresh.observables)
        weight = self._is_hard(*shots, *(() if self._look is None else (chances,))) / chances
        # A draw comes p by p, and a slot of the buffer takes its first rows.
        kept = np.random.default_rng(seed).permutation(np.flatnonzero(weight))
        found = PackedShots(*shots, fresh.which.cpu().numpy(), weight.astype(np.float32))
        return found.take(kept)

    def _coins(self, like: Tensor, seed: int) -> Tensor:
        generator = torch.Generator(like.device).manual_seed((seed ^ _COINS) % 2**63)
        return torch.rand(like.shape, generator=generator, device=like.device)


def current_device() -> int | None:
    """Of CUDA, where this process uses it."""
    in_use = torch.cuda.is_initialized()  # type: ignore[no-untyped-call]
    return torch.cuda.current_device() if in_use else None


def in_own_stream(number: int | None) -> None:
    """A new thread would be on the first device, whichever one its process trains on, and wait for all that the training has queued."""
    if number is not None:
        torch.cuda.set_device(number)
        torch.cuda.set_stream(torch.cuda.Stream())  # type: ignore[no-untyped-call]
