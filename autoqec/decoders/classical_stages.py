"""Last stages of a cascade that are classical decoders: the trusted side does them with the environment's priors, whatever the model says.

A new one is a row here and in `dsl_schema.CLASSICAL`. It is imported where it is used: joint legs propagate in torch, which a verifier's own
process does without where it can.
"""

from __future__ import annotations

from typing import Protocol

from autoqec.decoders.gates import Gates
from autoqec.decoders.protocol import Confident
from autoqec.envs.problem import U8, DecodingProblem


class ClassicalStage(Protocol):
    def decode(self, detectors: U8) -> U8: ...

    def decode_with_confidence(self, detectors: U8) -> Confident: ...

    def flops(self, detectors: U8) -> int:
        """Of a shot, in the mean over these."""
        ...


def classical_stage(problem: DecodingProblem, gates: Gates, stage: int) -> ClassicalStage | None:
    """The decoder of a stage; None where it is a network.

    Raises:
        InputError: it cannot decode this problem.
    """
    if (states := gates.states[stage]) is not None:
        from autoqec.decoders.pruned_sweep import PrunedSweep

        return PrunedSweep(problem, states)
    if (legs := gates.legs[stage]) is not None:
        from autoqec.decoders.joint_legs import JointLegs

        return JointLegs(problem, legs)
    return None
