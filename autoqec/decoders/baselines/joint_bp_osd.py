"""BP+OSD on all detectors and all joint faults, where the `osd` backend decodes the observables' half alone."""

from __future__ import annotations

from dataclasses import replace

from autoqec.decoders.backends.bp_osd import BpOsd
from autoqec.decoders.baselines.registry import Baseline
from autoqec.envs.problem import DecodingProblem


def _build(problem: DecodingProblem, order: int) -> BpOsd:
    joint = problem.joint
    assert joint is not None
    return BpOsd(replace(problem, h=joint.h, l=joint.l, priors=joint.priors, joint=None), order)


ENTRY = Baseline(
    name="joint_bposd",
    summary="belief propagation + ordered statistics on both halves of the syndrome",
    build=_build,
    module="ldpc",
    distribution="ldpc",
    needs_context=True,
    sees_context=True,
    has_order=True,
)
