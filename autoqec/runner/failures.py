"""`failures`: search for fewer failures through the backend, with no gradient of it (evolution strategies, Salimans et al. 2017).

The number of failures F of a batch does not change smoothly with the learned numbers x, but its mean over a Gaussian around x does:

    d/dx E F(x + s e) = E (F(x + s e) - F(x - s e)) e / (2 s),    e normal

A step estimates it from a few directions e, each tried both ways on the same shots. So a shot counts only where the two ways
answer differently, and noise of the shots themselves drops out. The optimiser then takes the estimate for a gradient.

Shots are those that the model at its start fails, or answers otherwise once its numbers are moved a little: on BB72 at p = 3e-3
one in fifty. The estimate's noise grows with the count of numbers, so models with many are refused.
"""

from __future__ import annotations

import copy
from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn.utils import parameters_to_vector, vector_to_parameters

from autoqec.decoders.modules.predecoders import ProblemPredecoder
from autoqec.envs.problem import U8
from autoqec.errors import InputError
from autoqec.runner.data import as_it_is
from autoqec.runner.hard_shots import HardShots, Seeds
from autoqec.runner.safety import MOST_NUMBERS

SIGMA = 0.05
DIRECTIONS = 8

Decode = Callable[[ProblemPredecoder, U8], U8]
"""Packed predicted observables of packed detectors, through the backend."""


def few_numbers(module: ProblemPredecoder) -> None:
    """Raises InputError where the model has too many numbers to search among."""
    count = sum(each.numel() for each in module.parameters() if each.requires_grad)
    if not 0 < count <= MOST_NUMBERS:
        raise InputError(
            f"loss: failures searches among at most {MOST_NUMBERS:,} numbers, and this model has {count:,}",
            where="training.loss",
            hint="use neural_bp with weight_sharing: per_layer, or another loss",
        )


class FailureObjective:
    def __init__(self, shots: HardShots, batch: int, decode: Decode, seeds: Seeds) -> None:
        self.shots = shots
        self._batch, self._decode, self._seeds = batch, decode, seeds

    def prepare(self, step: int) -> None:
        self.shots.resume(step)

    def step(self, module: ProblemPredecoder, index: int) -> Tensor:
        """Sets the estimate as the module's gradients; returns the mean share of failures."""
        self.shots.refresh(index)
        detectors, observables = self.shots.buffer.packed(self.shots.pick(self._batch, index))
        learned = [each for each in module.parameters() if each.requires_grad]
        here = parameters_to_vector(learned).detach()
        moved = copy.deepcopy(module).eval()

        def failed(numbers: Tensor) -> float:
            vector_to_parameters(numbers, (each for each in moved.parameters() if each.requires_grad))
            return float((self._decode(moved, detectors) != observables).any(axis=1).mean())

        slope, total = torch.zeros_like(here), 0.0
        for direction in _directions(len(here), self._seeds(2_000_000 + index), here.device):
            up, down = failed(here + SIGMA * direction), failed(here - SIGMA * direction)
            slope += (up - down) / (2 * SIGMA * DIRECTIONS) * direction
            total += (up + down) / (2 * DIRECTIONS)
        for each, part in zip(learned, torch.split(slope, [p.numel() for p in learned]), strict=True):
            each.grad = part.view_as(each).clone()
        return torch.tensor(total, dtype=torch.float64)


class Unsettled:
    """Whether the model at its start fails a shot, or answers it otherwise once its numbers are moved."""

    def __init__(self, module: ProblemPredecoder, decode: Decode, seed: int) -> None:
        self._decode = decode
        self._start, self._moved = as_it_is(module), as_it_is(module)
        with torch.no_grad():
            learned = [each for each in self._moved.parameters() if each.requires_grad]
            here = parameters_to_vector(learned)
            vector_to_parameters(here + SIGMA * _directions(len(here), seed, here.device)[0], learned)

    def __call__(self, detectors: U8, observables: U8) -> npt.NDArray[np.bool_]:
        first, second = (self._decode(module, detectors) for module in (self._start, self._moved))
        return np.asarray(((first != observables) | (first != second)).any(axis=1))


def _directions(count: int, seed: int, device: torch.device) -> Tensor:
    generator = torch.Generator().manual_seed(seed % 2**63)
    return torch.randn(DIRECTIONS, count, generator=generator).to(device)
