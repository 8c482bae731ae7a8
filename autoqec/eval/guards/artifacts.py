"""Artifacts: the files of the round belong together, as far as they say so."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from autoqec.decoders.dsl_schema import PredecoderDSL, canonical_dict
from autoqec.errors import AutoQECError
from autoqec.eval.guards import Guard
from autoqec.eval.schema import GuardResult
from autoqec.eval.subject import Subject
from autoqec.eval.verification_state import VerificationState
from autoqec.io.strict_yaml import parse_yaml
from autoqec.io.validate import validate_model

NAME = "artifacts"


def judge(verification: VerificationState, _answers: Sequence[Any]) -> GuardResult:
    subject = verification.subject
    compared, wrong = 0, []
    manifest = subject.manifest or {}
    recorded = manifest.get("artifacts")
    for name in ("checkpoint.pt", "config.yaml"):
        if isinstance(recorded, dict) and name in recorded and name in subject.hashes:
            compared += 1
            if recorded[name] != subject.hashes[name]:
                wrong.append(f"{name} is not the file that the manifest records")
    if "env_hash" in manifest:
        compared += 1
        if manifest["env_hash"] != verification.env.content_hash:
            wrong.append("the manifest names another environment")
    if (other := _other_config(subject)) is not None:
        compared += 1
        if other:
            wrong.append(other)
    if subject.pointer is not None and subject.metrics is not None and subject.metrics.get("commit_sha"):
        compared += 1
        if subject.pointer.get("commit_sha") != subject.metrics["commit_sha"]:
            wrong.append("pointer and metrics name different commits")
    provenance = (subject.pointer or {}).get("provenance")
    if isinstance(provenance, dict) and provenance.get("checkpoint_sha256") is not None:
        compared += 1
        if provenance["checkpoint_sha256"] != subject.sha256:
            wrong.append("checkpoint.pt is not the one that the pointer records")
    text = "; ".join(wrong) if wrong else f"{compared} comparisons agree"
    return GuardResult(
        name=NAME,
        ok=None if not compared else not wrong,
        severity="breaks",
        number=float(len(wrong)),
        text=text if compared else "the round has neither manifest nor config beside its checkpoint",
    )


def _other_config(subject: Subject) -> str | None:
    """What is wrong between config.yaml and the checkpoint's own config: "" for nothing, None if not comparable."""
    if subject.config_file is None or subject.config is None:
        return None
    where = "config.yaml"
    try:
        read = parse_yaml(subject.config_file.decode(errors="replace"), where=where)
        beside = validate_model(read, PredecoderDSL, where=where)
    except AutoQECError as error:
        return f"config.yaml cannot be read: {error.what.splitlines()[0][:200]}"
    same = canonical_dict(beside) == canonical_dict(subject.config)
    return "" if same else "config.yaml is not the config that the checkpoint was trained with"


GUARD = Guard(NAME, judge)
