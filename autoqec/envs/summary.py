"""What `autoqec env show` reports about an environment: plain data."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import stim

from autoqec.envs.environment import Environment
from autoqec.envs.problem import DecodingProblem


def problem_summary(problem: DecodingProblem) -> dict[str, Any]:
    """Sizes and shape of one decoding problem."""
    weights = np.diff(problem.h.indptr)
    low, high = float(problem.priors.min()), float(problem.priors.max())
    edges = np.histogram_bin_edges(np.log10(problem.priors), bins=8)
    counts, _ = np.histogram(np.log10(problem.priors), bins=edges)
    bases, basis_counts = np.unique(problem.detector_basis, return_counts=True)
    return {
        "p": problem.p,
        "detectors": problem.n_checks,
        "detectors_of_backend": problem.n_checks if problem.joint is None else int(problem.joint.seen.sum()),
        "joint_faults": None if problem.joint is None else problem.joint.n_faults,
        "faults": problem.n_faults,
        "stim_errors": stim.DetectorErrorModel(problem.dem).num_errors,
        "observables": problem.n_observables,
        "edges": problem.graph.n_edges if problem.graph else None,
        "edges_with_conflicting_observables": problem.graph.conflicts if problem.graph else None,
        "hyperedge_share": float((weights > 2).mean()),
        "weight2_share": float((weights == 2).mean()),
        "matchable": problem.is_matchable,
        "max_fault_weight": int(weights.max()),
        "undetectable_faults": int((weights == 0).sum()),
        "prior_min": low,
        "prior_max": high,
        "prior_histogram": [
            {"from": float(10**a), "to": float(10**b), "faults": int(c)}
            for a, b, c in zip(edges[:-1], edges[1:], counts, strict=True)
        ],
        "detector_basis": dict(zip(bases.tolist(), basis_counts.tolist(), strict=True)),
    }


def environment_summary(env: Environment, ps: list[float] | None = None) -> dict[str, Any]:
    """The environment's facts and, for each p, its decoding problem and how long that took to build or load."""
    rows = []
    for p in ps or env.spec.noise.p:
        start = time.perf_counter()
        problem, cached = env.load_problem(p)
        seconds = time.perf_counter() - start
        rows.append({**problem_summary(problem), "build_seconds": round(seconds, 4), "from_cache": cached})
    return {
        "name": env.spec.name,
        "origin": env.origin,
        "content_hash": env.content_hash,
        "code": env.spec.code.model_dump(mode="json"),
        "facts": env.source.facts,
        "noise": env.spec.noise.model_dump(mode="json", exclude_defaults=True),
        "backend": env.spec.classical_backend,
        "baseline_decoders": env.spec.baseline_decoders,
        "warnings": list(env.warnings),
        "dropped_detectors": env.dropped_detectors,
        "x_z_decoding": env.spec.eval_protocol.x_z_decoding,
        "problems": rows,
    }
