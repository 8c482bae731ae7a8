"""The environment cannot be built, or is not the one that the round was trained in."""

from __future__ import annotations

import re

from autoqec.envs.schema import EnvSpec
from autoqec.errors import AutoQECError
from autoqec.report.diagnose.case import RoundCase
from autoqec.report.diagnose.finding import Evidence, Finding
from autoqec.report.reading import quote

_OWN_FIELDS = [name for name in EnvSpec.model_fields if name != "classical_backend"]
_BLAMED = re.compile(rf"(env|{'|'.join(_OWN_FIELDS)})\b[\w.\[\]]*: ")


def find(case: RoundCase) -> Finding | None:
    return _cannot_be_built(case) or _is_another(case)


def blames(reason: str) -> bool:
    """Whether a refusal names a field of the environment."""
    return _BLAMED.match(reason) is not None or reason.startswith("classical_backend:")


def _cannot_be_built(case: RoundCase) -> Finding | None:
    evidence: list[Evidence] = []
    if case.status == "compile_error" and _BLAMED.match(case.reason):
        evidence += case.metric("status", "status_reason")
    for problem in (case.around.loaded, case.around.built):
        if isinstance(problem, AutoQECError) and problem.where != "classical_backend":
            evidence.append(Evidence(f"{case.around.said_by}: env {quote(case.around.name)}", quote(problem)))
    if not evidence:
        return None
    return Finding(
        "high",
        "the environment itself cannot be used, whatever the config",
        tuple(evidence),
        "correct the named field or file of the environment, then check it with autoqec env validate",
    )


def _is_another(case: RoundCase) -> Finding | None:
    recorded = (case.manifest or {}).get("env_hash")
    now = case.around.content_hash
    if case.around.has_changed:
        evidence = Evidence(f"{case.around.said_by}: env_yaml_sha256", case.around.yaml_sha256)
    elif isinstance(recorded, str) and now is not None and recorded != now:
        evidence = Evidence("artifact_manifest.json: env_hash", f"{quote(recorded, 64)}, and now {now}")
    else:
        return None
    return Finding(
        "high",
        "the environment is not the one that this round was trained in, so its figures cannot be compared",
        (evidence,),
        "change the environment back, or begin another run",
    )
