"""Nearly maximum likelihood (`decoders.pruned_sweep`)."""

from __future__ import annotations

from autoqec.decoders.baselines.registry import Baseline
from autoqec.decoders.protocol import Decoder
from autoqec.decoders.pruned_sweep import STATES, PrunedSweep, too_wide
from autoqec.envs.problem import DecodingProblem


def _build(problem: DecodingProblem, states: int) -> Decoder:
    return PrunedSweep(problem, states)


ENTRY = Baseline(
    name="sweep",
    summary="nearly the best answer: a sweep over the detectors that keeps the likeliest patterns, as many as its number says",
    build=_build,
    module="numba",
    distribution="autoqec",
    refuses=too_wide,
    has_order=True,
    default_order=STATES,
)
