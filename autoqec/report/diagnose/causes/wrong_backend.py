"""The environment's classical backend does not fit its code: matching without a graph, or ordered statistics on a large one."""

from __future__ import annotations

from autoqec.errors import AutoQECError
from autoqec.report.diagnose.case import RoundCase
from autoqec.report.diagnose.causes import timeout
from autoqec.report.diagnose.finding import Change, Evidence, Finding
from autoqec.report.reading import quote

LARGE = 1000
"""Faults from which ordered statistics is the wrong tool for a problem that matching solves exactly: its elimination grows with
the cube of the checks."""

_FIELD = "classical_backend"


def find(case: RoundCase) -> Finding | None:
    found = _refused(case)
    return found if found is not None or case.gains else _poor(case) or _heavy(case)


def _refused(case: RoundCase) -> Finding | None:
    built = case.around.built
    evidence: list[Evidence] = []
    if case.status == "compile_error" and case.reason.startswith(f"{_FIELD}:"):
        evidence += case.metric("status", "status_reason")
    if isinstance(built, AutoQECError) and built.where == _FIELD:
        evidence.append(Evidence(f"environment: {_FIELD}", quote(built.what)))
    if not evidence:
        return None
    return Finding(
        "high",
        "faults of this noise model flip more than two detectors, so matching cannot decode it",
        tuple(evidence),
        f"set {_FIELD}: osd in the environment file; no config can fix this",
        env_change=Change(_FIELD, "mwpm", "osd"),
    )


def _poor(case: RoundCase) -> Finding | None:
    env, problem = case.around.env, case.around.problem
    if env is None or problem is None or env.spec.classical_backend != "mwpm" or problem.is_matchable:
        return None
    weights = problem.h.sum(axis=0)
    return Finding(
        "medium",
        "faults flip more than two detectors of one basis: matching runs on their decomposition and decodes them poorly",
        (
            Evidence("environment: most detectors that a fault flips", int(weights.max())),
            Evidence("environment: faults that flip more than two", int((weights > 2).sum())),
            Evidence("environment: faults", problem.n_faults),
        ),
        f"set {_FIELD}: osd in the environment file, and compare both with autoqec baseline",
        env_change=Change(_FIELD, "mwpm", "osd"),
    )


def _heavy(case: RoundCase) -> Finding | None:
    env, problem = case.around.env, case.around.problem
    if env is None or problem is None or env.spec.classical_backend != "osd":
        return None
    if problem.n_faults < LARGE or not problem.is_matchable:
        return None
    timed = case.at_reference().get("us_per_shot_plain")
    evidence = [
        Evidence(f"environment: {_FIELD}", "osd"),
        Evidence("environment: faults, each of at most two detectors", problem.n_faults),
        Evidence("environment: detectors", problem.n_checks),
    ]
    if timed is not None:
        evidence.append(Evidence(f"{case.source}: per_p us_per_shot_plain", timed))
    return Finding(
        "high" if timeout.find(case) is not None else "medium",
        "every fault flips at most two detectors: matching solves this exactly and far faster than ordered statistics",
        tuple(evidence),
        f"set {_FIELD}: mwpm in the environment file, and compare both with autoqec baseline",
        env_change=Change(_FIELD, "osd", "mwpm"),
    )
