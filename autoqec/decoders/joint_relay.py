"""A Relay-BP of our own on both halves of the syndrome (Mueller et al. 2025): legs of min-sum with a memory for every fault.

The first leg has one memory strength for all faults, the later ones random strengths; each begins at the posteriors where the one
before it ended. A shot is done with five solutions, of which the lightest counts. `relay-bp`, the authors' program, has no wheels
for most machines; its parameters are used here. Solutions are looked for after every fourth iteration.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from autoqec.decoders.modules.neural_bp import Propagated, Weights, propagate
from autoqec.decoders.modules.structure import TannerLinks
from autoqec.envs.packing import checked, pack, unpack
from autoqec.envs.problem import U8, DecodingProblem, log_odds

FIRST_MEMORY, MEMORY = 0.125, (-0.24, 0.66)
FIRST_ITERATIONS, ITERATIONS, LEGS, SOLUTIONS = 80, 60, 60, 5
_AT_A_TIME = 4
_BATCH = 32


class JointRelay:
    def __init__(self, problem: DecodingProblem) -> None:
        joint = problem.joint
        assert joint is not None
        torch.set_num_threads(1)
        self._problem, self._links = problem, TannerLinks(joint)
        self._observables = joint.l.tocsr().astype(np.int32)
        self._prior = torch.from_numpy(log_odds(joint.priors)).float()
        low, high = MEMORY
        disorder = np.random.Generator(np.random.PCG64(0)).random((LEGS, joint.n_faults))
        later = torch.from_numpy(low + (high - low) * disorder).float()
        self._memory = torch.cat([torch.full((1, joint.n_faults), FIRST_MEMORY), later])

    def decode(self, detectors: U8) -> U8:
        packed = checked(detectors, self._problem.n_checks, what="detectors")
        flips = np.zeros((len(packed), self._observables.shape[0]), dtype=np.uint8)
        busy = np.flatnonzero(packed.any(axis=1))
        for start in range(0, len(busy), _BATCH):
            shots = busy[start : start + _BATCH]
            syndrome = torch.from_numpy(unpack(packed[shots], self._problem.n_checks)).float().T
            with torch.no_grad():
                faults = self._solve(syndrome).numpy().astype(np.int32)
            flips[shots] = (self._observables @ faults).T & 1
        return pack(flips)

    def _solve(self, syndrome: Tensor) -> Tensor:
        """[n_joint, batch] the lightest solution found; the last hard decision where there is none."""
        batch = syndrome.shape[1]
        best = torch.zeros(self._links.n_faults, batch, dtype=torch.bool)
        lightest, found = torch.full((batch,), torch.inf), torch.zeros(batch)
        left, posterior = torch.arange(batch), self._prior[:, None].expand(-1, batch)
        for leg, memory in enumerate(self._memory):
            iterations = ITERATIONS if leg else FIRST_ITERATIONS
            posterior, solved = self._leg(syndrome[:, left], posterior, memory, iterations)
            hard = posterior < 0
            weight = torch.where(hard, self._prior[:, None], 0.0).sum(dim=0)
            better = solved & (weight < lightest[left])
            taken = better | torch.isinf(lightest[left])
            best[:, left[taken]] = hard[:, taken]
            lightest[left[better]] = weight[better]
            found[left] += solved.float()
            going = found[left] < SOLUTIONS
            if not going.any():
                break
            left, posterior = left[going], posterior[:, going]
        return best

    def _leg(self, syndrome: Tensor, start: Tensor, memory: Tensor, iterations: int) -> tuple[Tensor, Tensor]:
        """Posteriors where the leg ended, and whether they have the syndrome."""
        links, batch = self._links, syndrome.shape[1]
        weights = self._weights(memory)
        end, solved = start.clone(), torch.zeros(batch, dtype=torch.bool)
        left = torch.arange(batch)
        state: Any = Propagated(start, start, torch.zeros(links.n_links, batch))
        for _ in range(0, iterations, _AT_A_TIME):
            prior = self._prior[:, None].expand(-1, len(left))
            state = propagate(links, syndrome, prior, weights, state, min_sum=True)
            flips = links.by_check.sum((state.last < 0).float()[links.fault][None])[0]
            now = (torch.remainder(flips, 2.0) == syndrome).all(dim=0)
            end[:, left] = state.last
            solved[left] = now
            if now.all():
                break
            if now.any():
                stay = torch.nonzero(~now)[:, 0]
                left, syndrome, state = left[stay], syndrome[:, stay], state.of(stay)
        return end, solved

    def _weights(self, memory: Tensor) -> Weights:
        ones = torch.ones(_AT_A_TIME, 1)
        return Weights(ones, torch.zeros(_AT_A_TIME), memory, torch.zeros(_AT_A_TIME))
