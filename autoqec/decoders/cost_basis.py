"""What a cost is counted on and in; without torch, for the trusted side of a verification."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from autoqec.envs.packing import pack
from autoqec.envs.problem import U8, DecodingProblem


def typical_syndromes(problem: DecodingProblem, shots: int, seed: int = 0) -> U8:
    """Packed syndromes of faults drawn by the problem's own priors: work that depends on the shot is counted as it happens."""
    model = problem.sampled
    faults = np.random.default_rng(seed).random((shots, model.n_faults)) < model.priors
    return np.ascontiguousarray(pack((model.h.astype(np.int32) @ faults.T.astype(np.int32)).T % 2))


def learned_numbers(sizes: Mapping[str, tuple[int, int]]) -> int:
    """Numbers of a checkpoint from (elements, bytes) of its tensors: a number of eight bytes holds what two of four hold."""
    return sum(max(elements, -(-taken // 4)) for elements, taken in sizes.values())
