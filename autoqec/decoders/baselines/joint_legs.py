"""Many attempts of turbo propagation with ordered statistics on both halves behind each (`decoders.joint_legs`)."""

from __future__ import annotations

from autoqec.decoders.baselines.registry import Baseline
from autoqec.decoders.dsl_schema import USUAL_LEGS
from autoqec.decoders.protocol import Decoder
from autoqec.envs.problem import DecodingProblem


def _build(problem: DecodingProblem, legs: int) -> Decoder:
    from autoqec.decoders.joint_legs import JointLegs

    return JointLegs(problem, legs)


ENTRY = Baseline(
    name="joint_legs",
    summary="propagation on both halves in as many more attempts as its number says, ordered statistics on both behind each, the lightest solution",
    build=_build,
    module="torch",
    distribution="autoqec",
    note="with the extra learn",
    needs_context=True,
    sees_context=True,
    has_order=True,
    default_order=USUAL_LEGS,
)
