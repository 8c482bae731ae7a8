"""Shots in memory, packed: on the host for the backend, and on the device for the model. Rows are picked on both without a copy between them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from autoqec.envs.problem import U8
from autoqec.runner.bits import sent, unpacked
from autoqec.runner.data import Batch

I64 = npt.NDArray[np.int64]


@dataclass(frozen=True)
class PackedShots:
    """On the host. detectors, observables: packed rows. which: the p of each shot. weight: of each in the loss."""

    detectors: U8
    observables: U8
    which: I64
    weight: npt.NDArray[np.float32]

    def __len__(self) -> int:
        return len(self.detectors)

    @property
    def columns(self) -> tuple[npt.NDArray[Any], ...]:
        return self.detectors, self.observables, self.which, self.weight

    def take(self, rows: I64) -> PackedShots:
        return PackedShots(*(column[rows] for column in self.columns))


def joined(parts: Sequence[PackedShots]) -> PackedShots:
    return PackedShots(*map(np.concatenate, zip(*(part.columns for part in parts), strict=True)))


class ShotBuffer:
    """like: a batch of the same source, which says how many bits a shot has, its device, and the priors."""

    def __init__(self, shots: PackedShots, like: Batch) -> None:
        self._host = joined([shots])  # a copy of its own
        self._bits = like.syndrome.shape[1], like.observables.shape[1]
        self._priors, self._joint = like.priors, like.joint_priors
        self._device = like.syndrome.device
        self._columns = [sent(part, self._device) for part in shots.columns]

    def __len__(self) -> int:
        return len(self._host)

    @property
    def weight(self) -> Tensor:
        return self._columns[-1]

    def replace(self, rows: I64, new: PackedShots) -> None:
        """Puts shots in the place of those in `rows`."""
        at = sent(rows, self._device)
        for column, kept, part in zip(self._columns, self._host.columns, new.columns, strict=True):
            kept[rows] = part
            column[at] = sent(part, self._device)

    def packed(self, rows: I64) -> tuple[U8, U8]:
        """Detectors and observables of these rows, on the host."""
        return self._host.detectors[rows], self._host.observables[rows]

    def take(self, rows: I64) -> Batch:
        """These rows as a model is given them, on the device of the source."""
        at = sent(rows, self._device)
        detectors, observables, which, weight = (column[at] for column in self._columns)
        n_detectors, n_observables = self._bits
        return Batch(
            syndrome=unpacked(detectors, n_detectors).float(),
            observables=unpacked(observables, n_observables).bool(),
            faults=None,
            which=which,
            priors=self._priors,
            joint_priors=self._joint,
            weight=weight,
        )


def empty_like(batch: Batch) -> Batch:
    """What a buffer has to know of its source, and no shots."""
    return batch.take(torch.zeros(0, dtype=torch.long, device=batch.syndrome.device))
