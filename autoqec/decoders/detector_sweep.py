"""Exact probabilities of the observables given a syndrome, for problems that are narrow though large.

Faults are taken one detector after the other. What has to be kept of all sets of faults so far is how likely each pattern is on the detectors that
are begun and not done: P <- (1 - p) P + p P[. xor fault]. A detector is begun with the first of its faults and done after the last; then only
patterns that agree with the syndrome go on. So it takes 2**width numbers, with `width` the most detectors that are open at a time, and the observables:
9 bits for the rotated surface code of distance 3 with 3 readout rounds, 25 for distance 5 with 5.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from autoqec.decoders.sweep_order import sweep_order
from autoqec.envs.packing import checked, unpack
from autoqec.envs.problem import F64, U8, DecodingProblem

_NUMBERS = 2**17
"""Held at a time, in all shots of a part together, where one shot does not need more: 1 MB, which caches hold."""


@dataclass(frozen=True)
class Step:
    """One detector. new: how many more are open from here on, those of its faults. faults: pattern (bit i: the i-th open one, observables first)
    and probability of each. bit: of the detector itself, which is done then."""

    detector: int
    new: int
    faults: tuple[tuple[int, float], ...]
    bit: int


class DetectorSweep:
    """bits: the most that is open at a time, observables included."""

    def __init__(self, problem: DecodingProblem) -> None:
        self._n_checks, self._n_observables = problem.n_checks, problem.n_observables
        self._steps = _steps(problem, sweep_order(problem) or [])
        opened = np.cumsum([step.new for step in self._steps]) - np.arange(len(self._steps))
        self.bits = self._n_observables + int(opened.max(initial=0))

    def probabilities(self, detectors: U8, device: torch.device | str = "cpu") -> F64:
        """[shots, 2**n_observables] of each value of the observables, given the packed syndrome. Impossible syndromes give zeros."""
        syndromes = unpack(checked(detectors, self._n_checks, what="detectors"), self._n_checks)
        size = max(1, _NUMBERS >> self.bits)
        parts = [np.zeros((0, 1 << self._n_observables))]
        for low in range(0, len(syndromes), size):
            given = torch.from_numpy(syndromes[low : low + size]).to(device)
            parts.append(self._swept(given).T.cpu().numpy())
        return np.concatenate(parts)

    def _swept(self, syndromes: Tensor) -> Tensor:
        """[2**n_observables, shots]."""
        shots = len(syndromes)
        kept = torch.zeros(1 << self._n_observables, shots, dtype=torch.float64, device=syndromes.device)
        kept[0] = 1.0
        for step in self._steps:
            if step.new:
                before, kept = kept, kept.new_zeros(len(kept) << step.new, shots)
                kept[: len(before)] = before
            index = torch.arange(len(kept), device=kept.device)
            for pattern, p in step.faults:
                kept = torch.lerp(kept, kept.index_select(0, index ^ pattern), p)
            halves = kept.reshape(-1, 2, 1 << step.bit, shots)
            kept = torch.where(syndromes[:, step.detector].bool(), halves[:, 1], halves[:, 0])
            kept = kept.reshape(-1, shots)
            total = kept.sum(dim=0)
            kept = kept / torch.where(total > 0, total, torch.ones_like(total))
        return kept


def is_narrow(problem: DecodingProblem, bits: int) -> bool:
    """Whether a sweep has at most so many bits."""
    return sweep_order(problem, bits - problem.n_observables) is not None


def _steps(problem: DecodingProblem, order: list[int]) -> list[Step]:
    at = {detector: place for place, detector in enumerate(order)}
    columns, flips = problem.h.tocsc(), problem.l.tocsc()
    waiting: list[list[tuple[list[int], int, float]]] = [[] for _ in order]
    always: list[tuple[int, float]] = []
    for fault, p in enumerate(problem.priors.tolist()):
        seen = columns.indices[columns.indptr[fault] : columns.indptr[fault + 1]].tolist()
        flipped = sum(1 << int(o) for o in flips.indices[flips.indptr[fault] : flips.indptr[fault + 1]])
        if seen:
            waiting[min(at[each] for each in seen)].append((seen, flipped, p))
        else:
            always.append((flipped, p))
    steps: list[Step] = []
    is_open: list[int] = []
    for detector, faults in zip(order, waiting, strict=True):
        new = sorted({each for seen, _, _ in faults for each in seen} | {detector})
        new = [each for each in new if each not in is_open]
        is_open += new
        bit = {each: place + problem.n_observables for place, each in enumerate(is_open)}
        own = tuple((flipped + sum(1 << bit[each] for each in seen), p) for seen, flipped, p in faults)
        steps.append(Step(detector, len(new), (*always, *own), bit[detector]))
        is_open.remove(detector)
        always = []
    return steps
