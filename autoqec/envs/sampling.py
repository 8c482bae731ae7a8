"""Samplers: where evaluation shots come from.

Evaluation samples the circuit (or the physical process), never the detector error model that a decoder was
built from, except where the error model is all there is (`custom_dem`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol

import numpy as np
import stim

from autoqec.envs.problem import U8

# Larger batches fall out of the cache: Stim samples d = 5 memories about 1.4x slower at 64k shots than at 4k.
_BATCH = 4096


class Shots(NamedTuple):
    """Bit-packed shots: detectors [shots, ceil(n_checks / 8)], observables [shots, ceil(n_observables / 8)]."""

    detectors: U8
    observables: U8


class Sampler(Protocol):
    def sample(self, shots: int, seed: int) -> Shots:
        """`shots` fresh shots; a function of (shots, seed) on one machine."""
        ...


def _in_batches(shots: int, draw: Callable[[int], tuple[U8, U8]]) -> Shots:
    sizes = [_BATCH] * (shots // _BATCH) + ([shots % _BATCH] if shots % _BATCH or not shots else [])
    parts = [draw(size) for size in sizes]
    if len(parts) == 1:
        return Shots(*parts[0])
    return Shots(np.concatenate([d for d, _ in parts]), np.concatenate([o for _, o in parts]))


class CircuitSampler:
    """Samples the noisy circuit itself."""

    def __init__(self, circuit: stim.Circuit) -> None:
        self.circuit = circuit

    def sample(self, shots: int, seed: int) -> Shots:
        sampler = self.circuit.compile_detector_sampler(seed=seed)
        return _in_batches(shots, lambda n: sampler.sample(n, bit_packed=True, separate_observables=True))


class DemSampler:
    """Samples a detector error model, for environments that are given as one."""

    def __init__(self, dem: stim.DetectorErrorModel) -> None:
        self.dem = dem

    def sample(self, shots: int, seed: int) -> Shots:
        sampler = self.dem.compile_sampler(seed=seed)
        return _in_batches(shots, lambda n: sampler.sample(n, bit_packed=True)[:2])
