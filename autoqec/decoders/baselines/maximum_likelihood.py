"""Maximum likelihood (`decoders.maximum_likelihood`)."""

from __future__ import annotations

from autoqec.decoders.baselines.registry import Baseline
from autoqec.decoders.maximum_likelihood import MaximumLikelihood, too_large
from autoqec.decoders.protocol import Decoder
from autoqec.envs.problem import DecodingProblem


def _build(problem: DecodingProblem, _order: int) -> Decoder:
    return MaximumLikelihood(problem)


ENTRY = Baseline(
    name="maximum_likelihood",
    summary="the best answer to every syndrome; small or narrow problems only",
    build=_build,
    module="numpy",
    distribution="autoqec",
    refuses=too_large,
)
