"""What a round may use, and what happens when it takes more."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from autoqec.decoders.dsl_schema import PredecoderDSL
from autoqec.envs.problem import DecodingProblem

_HEADROOM = 2.0


class Kept(NamedTuple):
    """Numbers of four bytes that stay for the backward pass: of each link and iteration of belief propagation, and of each number of a graph
    network's hidden layers on an edge."""

    per_link: float
    per_hidden: float


_BY_TORCH = Kept(12.0, 10.0)
_BY_DEVICE_KERNELS = Kept(2.5, 0.5)
"""Measured on an H200: 5.3 GB for hybrids of 6 x 24 and 8.8 GB for 8 x 48, batches of 8,192 shots of surface_d5_depol."""
MOST_NUMBERS = 2_000
"""Learned numbers that `loss: failures` searches among; the noise of its slope grows with them."""


@dataclass(frozen=True)
class Safety:
    """wall_clock_s: the whole round, in a process of its own, is killed after this. memory_gb: the training batch may not
    need more by estimate; None takes what the machine has free. nan_rate: share of steps that may be NaN."""

    wall_clock_s: float = 1800.0
    memory_gb: float | None = None
    nan_rate: float = 0.02


def free_memory_gb() -> float:
    """What a process may take without others being pushed out; on Linux that includes what only caches files."""
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
    except OSError:
        lines = []
    for line in lines:
        name, _, value = line.partition(":")
        if name == "MemAvailable":
            return int(value.split()[0]) / 2**20
    try:
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30
    except (ValueError, OSError):  # macOS does not say
        return default_memory_gb()


def default_memory_gb() -> float:
    """For the training batches of a whole run: half of what the machine has, whatever happens to be free."""
    return round(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**31, 1)


def estimated_memory_gb(
    dsl: PredecoderDSL, problem: DecodingProblem, *, device_kernels: bool = False
) -> float:
    """A rough upper estimate of what one training batch keeps for its backward pass, if it has one. Stages train one by one.

    device_kernels: it trains by the kernels for a GPU.
    """
    return max(_of_one_stage(part, problem, device_kernels) for part in dsl.parts)


def _of_one_stage(dsl: PredecoderDSL, problem: DecodingProblem, device_kernels: bool) -> float:
    kept = _BY_DEVICE_KERNELS if device_kernels else _BY_TORCH
    per_shot = 4.0 * problem.n_faults
    if dsl.training.epochs == 0 or dsl.training.loss == "failures":
        return _HEADROOM * 4.0 * (per_shot + 12.0 * problem.h.nnz) * dsl.training.batch_size / 2**30
    if dsl.neural_bp is not None:
        turbo = dsl.neural_bp.turbo
        extra = turbo.context_iterations if turbo else 0  # the two halves are about equally large
        iterations = (dsl.neural_bp.iterations + extra) * (turbo.exchanges if turbo else 1)
        per_shot += kept.per_link * iterations * problem.h.nnz
    if dsl.gnn is not None:
        edges = 2 * problem.graph.n_edges if problem.graph is not None else 2 * problem.h.nnz
        per_shot += kept.per_hidden * dsl.gnn.layers * dsl.gnn.hidden_dim * edges
    return _HEADROOM * 4.0 * per_shot * dsl.training.batch_size / 2**30
