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
from autoqec.envs.problem import U8
from autoqec.runner.bits import Fetched, sent_bits
from autoqec.runner.data import as_it_is
from autoqec.runner.first_look import EASY_KEPT, part_size
from autoqec.runner.gap import MatchingPairs

SETTLED = 5.0
"""Log-odds: a lead from which on a shot is easy. On surface_d5_depol at p = 5e-3 under 8 iterations of untrained belief propagation 2.8%
of the shots are below it, and all failures; 23% of the shots are open under plain weights."""

F32 = npt.NDArray[np.float32]
F64 = npt.NDArray[np.float64]


class OwnStart:
    """The weight of each shot in the loss, 0 where it is left out; a function of the shots that are looked through together.

    What plain weights have settled by far is left out, unless the model has not settled it. Without a first look plain weights are
    asked first: matching costs a CPU less than the model does.
    """

    def __init__(self, module: ProblemPredecoder, pairs: MatchingPairs) -> None:
        self._pairs = pairs
        self._start = as_it_is(module).requires_grad_(False)

    def __call__(self, detectors: U8, observables: U8, chances: F32 | None = None) -> F32:
        """chances: with which a first look handed each shot on; the weights still have to be divided by them."""
        weight = np.zeros(len(detectors), dtype=np.float32)
        rng = np.random.default_rng(list(sha256(detectors.tobytes()).digest()))
        if chances is None:
            rows = np.flatnonzero(self._pairs.is_hard(detectors, observables))
            kept_easy = np.full(len(rows), EASY_KEPT)
        else:
            rows = np.arange(len(detectors))
            kept_easy = np.minimum(1.0, EASY_KEPT / chances)
        is_easy = self.leads(detectors[rows], observables[rows]) >= SETTLED
        is_kept = rng.random(len(rows)) < kept_easy
        if chances is not None:
            easy = np.flatnonzero(is_easy & is_kept)
            is_kept[easy] = self._pairs.is_hard(detectors[easy], observables[easy])
        weight[rows] = np.where(is_easy, is_kept / kept_easy, 1.0)
        return weight

    def unsettled(self, detectors: U8, observables: U8) -> npt.NDArray[np.bool_]:
        return self.leads(detectors, observables) < SETTLED

    def leads(self, detectors: U8, observables: U8) -> F64:
        """[shots] how far the true class is below the wrong one on the weights that the model gives at its start."""
        device = self._start.prior.device
        size = part_size(device)
        found = [np.empty(0)]
        for low in range(0, len(detectors), size):
            part = slice(low, low + size)
            syndrome = sent_bits(detectors[part], self._pairs.n_checks, device).float()
            with torch.no_grad():
                weights = Fetched(self._start.backend_weights(syndrome, {}).float()).wait()
            found.append(self._pairs.leads(detectors[part], observables[part], weights))
        return np.concatenate(found)
