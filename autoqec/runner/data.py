"""Endless labelled training data, sampled from the error models of all p of the sweep, on the training device if it can.

A fault happens an odd number of times with probability p exactly when its count is Poisson with mean -log(1 - 2p) / 2.
So the counts of a whole batch are drawn at once and thrown into random shots: the cost is that of the faults that happen,
not of all that could.
"""

from __future__ import annotations

import copy
import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from autoqec.decoders.modules.structure import padded_rows
from autoqec.envs.problem import DecodingProblem
from autoqec.errors import InputError


@dataclass
class Batch:
    """syndrome: [batch, n_checks] float; observables: [batch, n_observables] bool; faults: [n_faults, batch] bool, the
    labels; which: [batch] the p of each shot, as a row of `priors` [n_p, n_faults] and of `joint_priors` [n_p, n_joint];
    weight: [batch] of each shot in the loss, where they differ."""

    syndrome: Tensor
    observables: Tensor
    faults: Tensor | None
    which: Tensor
    priors: Tensor
    joint_priors: Tensor | None = None
    weight: Tensor | None = None

    @property
    def prior_p(self) -> Tensor:
        """[batch, n_faults], each shot with the priors of its own p."""
        return self.priors[self.which]

    @property
    def given(self) -> dict[str, Tensor]:
        """What a predecoder is told about the priors of each shot."""
        if self.joint_priors is None:
            return {"prior_p": self.prior_p}
        return {"prior_p": self.prior_p, "joint_p": self.joint_priors, "which_p": self.which}

    def __len__(self) -> int:
        return len(self.syndrome)

    def take(self, rows: Tensor) -> Batch:
        faults = None if self.faults is None else self.faults[:, rows]
        picked = self.syndrome[rows], self.observables[rows], faults, self.which[rows]
        weight = None if self.weight is None else self.weight[rows]
        return Batch(*picked, self.priors, self.joint_priors, weight)

    def to(self, device: torch.device) -> Batch:
        faults = None if self.faults is None else self.faults.to(device)
        joint = None if self.joint_priors is None else self.joint_priors.to(device)
        weight = None if self.weight is None else self.weight.to(device)
        rest = (self.syndrome, self.observables, self.which, self.priors)
        syndrome, observables, which, priors = (part.to(device) for part in rest)
        return Batch(syndrome, observables, faults, which, priors, joint, weight)


class ShotSource(Protocol):
    """Where training shots come from."""

    def sample(self, size: int, seed: int) -> Batch:
        """`size` shots, a function of (size, seed) on one machine."""
        ...


Module = TypeVar("Module", bound=torch.nn.Module)


def sampling_device(training: torch.device) -> torch.device:
    """The training device, but for Apple's MPS: it has neither Poisson draws nor doubles, and takes work from one thread."""
    return torch.device("cpu") if training.type == "mps" else training


def as_it_is(module: Module) -> Module:
    """A copy that does not learn, for looking through shots while the module itself trains."""
    training = next(module.parameters()).device
    return copy.deepcopy(module).to(sampling_device(training)).eval()


def cuts_of(shares: Sequence[float]) -> list[float]:
    """Where a batch is cut so that each part has its share: from 0 to 1."""
    parts = np.asarray(shares)
    return [0.0, *np.cumsum(parts / parts.sum()).tolist()]


def _differ(a: sp.csc_array[Any], b: sp.csc_array[Any]) -> bool:
    return not (np.array_equal(a.indptr, b.indptr) and np.array_equal(a.indices, b.indices))


class FaultSampler:
    """Samples all problems of a sweep; they must have the same faults, and differ in their priors.

    shares: the part of the shots that each problem gets, in equal parts by default. with_faults: whether shots come with the faults that
    happened, which takes most of the memory.
    """

    def __init__(
        self,
        problems: Sequence[DecodingProblem],
        device: torch.device | str,
        *,
        shares: Sequence[float] | None = None,
        with_faults: bool = True,
    ) -> None:
        self._with_faults = with_faults
        models = [problem.sampled for problem in problems]
        first = models[0]
        for problem, other in zip(problems[1:], models[1:], strict=True):
            if other.h.shape != first.h.shape or _differ(other.h, first.h) or _differ(other.l, first.l):
                raise InputError(
                    f"the faults at p = {problem.p:g} are not those at p = {problems[0].p:g}",
                    where="noise.p",
                    hint="use a sweep on which the noise model keeps its structure",
                )
        self._device = torch.device(device)
        self._cuts = cuts_of([1.0] * len(problems) if shares is None else shares)
        self._n_checks, self._n_faults, self._n_observables = (
            first.n_checks,
            first.n_faults,
            problems[0].n_observables,
        )
        self._checks = self._table(first.h.indptr, first.h.indices, first.n_checks)
        self._flips = self._table(first.l.indptr, first.l.indices, problems[0].n_observables)
        priors = np.stack([model.priors for model in models])
        self._sampled_priors = torch.from_numpy(priors).float().to(self._device)
        self._priors, self._fault_of = self._sampled_priors, None
        self._n_labels = first.n_faults
        if (joint := problems[0].joint) is not None:
            shown = np.stack([problem.priors for problem in problems])
            self._priors = torch.from_numpy(shown).float().to(self._device)
            # Faults that the backend does not see get a row of their own, which is dropped.
            place = np.where(joint.fault_of < 0, problems[0].n_faults, joint.fault_of).astype(np.int64)
            self._fault_of = torch.from_numpy(place).to(self._device)
            self._n_labels = problems[0].n_faults
        # Probabilities of exactly 1/2 would need infinitely many faults; 0.499 is as good a coin.
        rates = -0.5 * np.log1p(-2 * np.minimum(priors, 0.499))
        self._rates = torch.from_numpy(rates).to(self._device)

    def _table(self, indptr: np.ndarray, indices: np.ndarray, fill: int) -> Tensor:
        return torch.from_numpy(padded_rows(indptr.astype(np.int64), indices.astype(np.int64), fill)).to(
            self._device
        )

    def sample(self, size: int, seed: int) -> Batch:
        """`size` shots, a function of (size, seed) on one device type."""
        generator = torch.Generator(self._device).manual_seed(seed % 2**63)
        n_p = len(self._priors)
        bounds = [round(size * cut) for cut in self._cuts]
        faults, shots = [], []
        for k, (low, high) in enumerate(itertools.pairwise(bounds)):
            counts = torch.poisson(self._rates[k] * (high - low), generator=generator).long()
            happened = torch.repeat_interleave(torch.arange(self._n_faults, device=self._device), counts)
            faults.append(happened)
            shots.append(
                torch.randint(
                    low, max(high, low + 1), happened.shape, generator=generator, device=self._device
                )
            )
        fault, shot = torch.cat(faults), torch.cat(shots)
        which = torch.zeros(size, dtype=torch.long, device=self._device)
        for k in range(1, n_p):
            which[bounds[k] :] = k
        return Batch(
            syndrome=self._parity(self._checks, fault, shot, self._n_checks, size).float(),
            observables=self._parity(self._flips, fault, shot, self._n_observables, size).bool(),
            faults=self._labels(fault, shot, size) if self._with_faults else None,
            which=which,
            priors=self._priors,
            joint_priors=None if self._fault_of is None else self._sampled_priors,
        )

    def _labels(self, fault: Tensor, shot: Tensor, size: int) -> Tensor:
        """[n_faults, size] whether each happened an odd number of times."""
        labels = torch.zeros((self._n_labels + 1) * size, dtype=torch.int32, device=self._device)
        shown = fault if self._fault_of is None else self._fault_of[fault]
        labels.index_add_(0, shown * size + shot, torch.ones_like(fault, dtype=torch.int32))
        return (labels & 1).bool().view(self._n_labels + 1, size)[: self._n_labels]

    def _parity(self, table: Tensor, fault: Tensor, shot: Tensor, rows: int, size: int) -> Tensor:
        """[size, rows]: how often each row of the faults' symptoms was hit, mod 2."""
        hits = table[fault]
        flat = (hits * size + shot[:, None]).flatten()
        total = torch.zeros((rows + 1) * size, dtype=torch.int32, device=self._device)
        total.index_add_(0, flat, torch.ones_like(flat, dtype=torch.int32))
        return (total & 1).view(rows + 1, size)[:rows].T.contiguous()
