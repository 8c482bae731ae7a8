"""The hard decision against H, by both ways to compute it."""

import numpy as np
import pytest
import torch

from autoqec.decoders.modules.hard_decision import has_syndrome
from autoqec.decoders.modules.structure import TannerLinks
from tests.decoders.both_halves import with_both_halves


@pytest.mark.parametrize("fused", [False, True])
@pytest.mark.parametrize("shots", [1, 8, 41])
def test_it_has_the_syndrome_where_h_says_so(shots: int, fused: bool) -> None:
    """The other half's detectors have no links here: what they saw is not asked."""
    problem, rng = with_both_halves().problem(0.02), np.random.default_rng(shots)
    h = problem.h.toarray().astype(int)
    unseen = np.flatnonzero(h.sum(axis=1) == 0)
    assert len(unseen)
    log_odds = rng.normal(3.0, 2.0, (problem.n_faults, shots)).astype(np.float32)
    syndrome = h @ (log_odds < 0) % 2
    syndrome[unseen] = rng.integers(0, 2, (len(unseen), shots))
    wrong = rng.random(shots) < 0.5
    seen = np.flatnonzero(h.sum(axis=1) > 0)
    syndrome[rng.choice(seen, shots)[wrong], np.flatnonzero(wrong)] ^= 1
    asked = torch.from_numpy(log_odds), torch.from_numpy(syndrome).float()
    assert has_syndrome(TannerLinks(problem), *asked, fused=fused).tolist() == (~wrong).tolist()
