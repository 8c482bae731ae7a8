"""Relay-BP of our own on both halves of the syndrome (`decoders.joint_relay`)."""

from __future__ import annotations

from autoqec.decoders.baselines.registry import Baseline
from autoqec.decoders.protocol import Decoder
from autoqec.envs.problem import DecodingProblem


def _build(problem: DecodingProblem, _order: int) -> Decoder:
    from autoqec.decoders.joint_relay import JointRelay

    return JointRelay(problem)


ENTRY = Baseline(
    name="joint_relay",
    summary="Relay-BP of our own on both halves of the syndrome, five solutions",
    build=_build,
    module="torch",
    distribution="autoqec",
    note="with the extra learn",
    needs_context=True,
    sees_context=True,
)
