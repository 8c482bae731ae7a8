"""What compiled passes with gradients share: tensors as arrays, blocks of shots, groups of partial sums."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from torch import Tensor

from autoqec.decoders.backends._kernels.pieces import read_only
from autoqec.decoders.backends._kernels.simd import LANES

F32 = npt.NDArray[np.float32]
_GROUPS = 32
_LIFT = 40


def groups_of(units: int) -> tuple[int, npt.NDArray[np.int64]]:
    """Into how many groups units of work are put for partial sums of gradients, and where each begins: whatever the number of
    threads, so that sums do not depend on it.
    """
    groups = min(_GROUPS, units)
    return groups, np.array([units * i // max(groups, 1) for i in range(groups + 1)], dtype=np.int64)


def lifted_gradients(upstream: Sequence[Tensor]) -> tuple[list[Tensor], float]:
    """Gradients times a power of two that puts the largest near 2**40, and what undoes it.

    Those of sure faults are so small that products with them would be subnormal, which takes a CPU several times as long.
    """
    largest = max(float(each.abs().max()) if each.numel() else 0.0 for each in upstream)
    if largest == 0.0 or not math.isfinite(largest):
        return list(upstream), 1.0
    power = max(min(_LIFT - math.frexp(largest)[1], 120), -120)
    return [each * 2.0**power for each in upstream], 2.0**-power


def as_array(tensor: Tensor) -> F32:
    return read_only(tensor.detach().contiguous().numpy())


def blocks_of(batch: int) -> int:
    return -(-batch // LANES)
