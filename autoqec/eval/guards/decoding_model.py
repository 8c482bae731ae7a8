"""Decoding model: H, L, priors and graph follow from the environment's own noise model, and from nothing else.

The verifier builds them afresh and uses those; what lies in the cache, which training used, must be the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from autoqec.envs.problem import DecodingProblem
from autoqec.eval.guards import Guard
from autoqec.eval.schema import GuardResult
from autoqec.eval.verification_state import VerificationState

NAME = "decoding_model"


def judge(verification: VerificationState, _answers: Sequence[Any]) -> GuardResult:
    largest, differing = 0.0, []
    for p, built in verification.problems.items():
        cached = verification.env.problem(p)
        if not _same_structure(built, cached):
            differing.append(f"p = {p:g}: other checks, faults or edges")
            continue
        gap = float(np.abs(built.priors - cached.priors).max(initial=0.0))
        if built.graph is not None and cached.graph is not None:
            gap = max(gap, float(np.abs(built.graph.priors - cached.graph.priors).max(initial=0.0)))
        largest = max(largest, gap)
        if gap > 1e-12 or built.dem != cached.dem:
            differing.append(f"p = {p:g}: priors differ by up to {gap:.2g}")
    text = (
        "the cached decoding model is not the environment's: " + "; ".join(differing)
        if differing
        else f"rebuilt from the circuit at {len(verification.problems)} error rates, equal to what was cached; "
        "no evaluation shot enters it"
    )
    return GuardResult(name=NAME, ok=not differing, severity="breaks", number=largest, text=text)


def _same_structure(a: DecodingProblem, b: DecodingProblem) -> bool:
    if a.h.shape != b.h.shape or a.l.shape != b.l.shape or (a.graph is None) != (b.graph is None):
        return False
    pairs: list[tuple[Any, Any]] = [
        (a.h.indices, b.h.indices),
        (a.h.indptr, b.h.indptr),
        (a.l.indices, b.l.indices),
    ]
    pairs += [(a.l.indptr, b.l.indptr), (a.detector_basis, b.detector_basis)]
    if a.graph is not None and b.graph is not None:
        pairs += [(a.graph.ends, b.graph.ends), (a.graph.observables, b.graph.observables)]
        pairs += [(a.graph.fault_edges.indices, b.graph.fault_edges.indices)]
        pairs += [(a.graph.fault_edges.indptr, b.graph.fault_edges.indptr)]
    return all(np.array_equal(x, y) for x, y in pairs)


GUARD = Guard(NAME, judge)
