"""Which shots `backend_gap` learns from in front of matching: those that the model at its start gets wrong or has not settled.

The gradient of a shot is in proportion to 1 / (1 + exp(lead)), with `lead` how far the true class is below the wrong one. Almost all
shots have a large lead from the start, and next to no gradient. Of those a few are kept, each with the weight of all that it stands
for: so the mean loss of a batch is still that of all shots, and a model that gives up easy shots for hard ones pays for it.
"""

from __future__ import annotations

from hashlib import sha256

import numpy as np
import numpy.typing as npt
import torch

from autoqec.decoders.modules.predecoders import ProblemPredecoder
from autoqec.envs.packing import unpack
from autoqec.envs.problem import U8
from autoqec.runner.data import as_it_is
from autoqec.runner.gap import MatchingPairs

SETTLED = 5.0
"""Log-odds: a lead from which on a shot is easy. On surface_d5_depol at p = 5e-3 under 8 iterations of untrained belief propagation 2.8%
of the shots are below it, and all failures; 23% of the shots are open under plain weights."""
EASY_KEPT = 1 / 30
_PART = 1024


class OwnStart:
    """The weight of each shot in the loss, 0 where it is left out; a function of the shots that are looked through together."""

    def __init__(self, module: ProblemPredecoder, pairs: MatchingPairs) -> None:
        self._pairs = pairs
        self._start = as_it_is(module)

    def __call__(self, detectors: U8, observables: U8) -> npt.NDArray[np.float32]:
        weight = np.zeros(len(detectors), dtype=np.float32)
        # What plain weights have settled by far needs no look at the model.
        open_shots = np.flatnonzero(self._pairs.is_hard(detectors, observables))
        rng = np.random.default_rng(list(sha256(detectors.tobytes()).digest()))
        for rows in np.array_split(open_shots, -(-len(open_shots) // _PART)) if len(open_shots) else ():
            is_easy = self._lead(detectors[rows], observables[rows]) >= SETTLED
            kept = rng.random(len(rows)) < EASY_KEPT
            weight[rows] = np.where(is_easy, kept / EASY_KEPT, 1.0)
        return weight

    def _lead(self, detectors: U8, observables: U8) -> npt.NDArray[np.float64]:
        device = self._start.prior.device
        syndrome = torch.from_numpy(unpack(detectors, self._pairs.n_checks)).to(device).float()
        with torch.no_grad():
            weights = self._start.backend_weights(syndrome, {}).float().cpu().numpy()
        return self._pairs.leads(detectors, observables, np.ascontiguousarray(weights))
