"""What a round trains on: the decoder's error model, the environment's own process, or recorded shots.

Losses on marginals need to know which faults happened, and only the error model says so. Losses through the backend need syndromes and
observables: they take the process where the model only comes close to it, since that is what they are judged on.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from autoqec.envs.environment import Environment
from autoqec.envs.packing import unpack
from autoqec.envs.problem import DecodingProblem
from autoqec.envs.sampling import Shots
from autoqec.runner.data import Batch, FaultSampler, ShotSource, cuts_of
from autoqec.runner.schema import TrainedOn

REFERENCE_SHARE = 0.7
THINNED_BY = 3
"""Losses on hard shots take fewer shots of a p above the reference, by this power of the ratio. Failures grow faster with p than that: on
surface_d5_depol more than half of the hard shots would be of p = 1e-2, where the round is not judged."""


class _Given:
    """Packed shots as a batch, with the priors that a predecoder is told."""

    def __init__(self, problems: Sequence[DecodingProblem], device: torch.device) -> None:
        def table(rows: list[np.ndarray]) -> Tensor:
            return torch.from_numpy(np.stack(rows)).float().to(device)

        self._device = device
        self._sizes = problems[0].sampled.n_checks, problems[0].n_observables
        self._priors = table([problem.priors for problem in problems])
        is_joint = problems[0].joint is not None
        self._joint = table([problem.sampled.priors for problem in problems]) if is_joint else None

    def _batch(self, shots: Shots, which: Tensor) -> Batch:
        syndrome, observables = (
            torch.from_numpy(unpack(bits, size)).to(self._device)
            for bits, size in zip(shots, self._sizes, strict=True)
        )
        which = which.to(self._device)
        return Batch(syndrome.float(), observables.bool(), None, which, self._priors, self._joint)


class ProcessSource(_Given):
    """Fresh shots of the environment as it is, at the p of `problems`. shares: the part of the shots that each p gets."""

    def __init__(
        self,
        env: Environment,
        problems: Sequence[DecodingProblem],
        device: torch.device,
        *,
        shares: Sequence[float],
    ) -> None:
        super().__init__(problems, device)
        self._samplers = [env.sampler(problem.p) for problem in problems]
        self._cuts = cuts_of(shares)

    def sample(self, size: int, seed: int) -> Batch:
        seeds = np.random.SeedSequence(seed).generate_state(len(self._samplers), np.uint64)
        counts = [b - a for a, b in itertools.pairwise(round(size * cut) for cut in self._cuts)]
        parts = [
            sampler.sample(count, int(own))
            for sampler, count, own in zip(self._samplers, counts, seeds, strict=True)
        ]
        shots = Shots(*(np.concatenate(bits) for bits in zip(*parts, strict=True)))
        return self._batch(shots, torch.repeat_interleave(torch.arange(len(counts)), torch.tensor(counts)))


class RecordedSource(_Given):
    """Rows of recorded shots, taken for shots at the p of `problem`. The same row comes again once all were drawn."""

    def __init__(self, shots: Shots, problem: DecodingProblem, device: torch.device) -> None:
        super().__init__([problem], device)
        self._shots = shots

    def __len__(self) -> int:
        return len(self._shots.detectors)

    def sample(self, size: int, seed: int) -> Batch:
        rng = np.random.default_rng(seed)
        whole, rest = divmod(size, len(self))
        rows = np.concatenate(
            [rng.permutation(len(self)) for _ in range(whole)] + [rng.permutation(len(self))[:rest]]
        )
        shots = Shots(self._shots.detectors[rows], self._shots.observables[rows])
        return self._batch(shots, torch.zeros(size, dtype=torch.long))


def trained_on(env: Environment, p: float, *, needs_faults: bool, is_recorded: bool) -> TrainedOn:
    """Which of the three a round trains on. needs_faults: the loss is one on marginals."""
    if is_recorded:
        return "recorded"
    return "model" if needs_faults or env.model_is_exact(p) else "process"


def make_source(
    kind: TrainedOn,
    env: Environment,
    problems: Sequence[DecodingProblem],
    device: torch.device,
    *,
    recorded: Shots | None,
    at: float,
    with_faults: bool,
) -> ShotSource:
    """Most shots are at the p `at`, where the round is judged; the rest keeps the model right along the sweep. Recorded shots are all taken
    for shots at it. with_faults: the loss is one on marginals."""
    shares = _shares([problem.p for problem in problems], at, hard=not with_faults)
    if recorded is not None:
        return RecordedSource(recorded, next(each for each in problems if each.p == at), device)
    if kind == "process":
        return ProcessSource(env, problems, device, shares=shares)
    return FaultSampler(problems, device, shares=shares, with_faults=with_faults)


def _shares(sweep: Sequence[float], at: float, *, hard: bool) -> list[float]:
    """How much of the shots each p gets, up to a factor. hard: only hard shots train."""
    others = (1 - REFERENCE_SHARE) / max(1, len(sweep) - 1)
    thinned = [others * min(1.0, at / p) ** THINNED_BY if hard else others for p in sweep]
    return [REFERENCE_SHARE if p == at else share for p, share in zip(sweep, thinned, strict=True)]
