"""Blocks of shots, as the kernels see them: `LANES` columns of [row, shot] as [row, lane], and back."""

from __future__ import annotations

import numpy as np
from numba import njit

from autoqec.decoders.backends._kernels.simd import LANES


@njit
def take(source, first, target):  # type: ignore[no-untyped-def]
    """Columns from `first` on, as lanes; lanes beyond the batch are zero."""
    lanes = min(LANES, source.shape[1] - first)
    for row in range(source.shape[0]):
        for s in range(lanes):
            target[row, s] = source[row, first + s]
        for s in range(lanes, LANES):
            target[row, s] = np.float32(0.0)


@njit
def give(source, first, target):  # type: ignore[no-untyped-def]
    lanes = min(LANES, target.shape[1] - first)
    for row in range(target.shape[0]):
        for s in range(lanes):
            target[row, first + s] = source[row, s]
