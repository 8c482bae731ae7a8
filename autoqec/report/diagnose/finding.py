"""What a diagnosis is made of: findings with evidence, advice and, where a config can fix it, a patch."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any, Literal

Confidence = Literal["high", "medium", "low"]
CONFIDENCES: tuple[Confidence, ...] = ("high", "medium", "low")
HEALTHY = "healthy"


@dataclass(frozen=True)
class Evidence:
    """at: a file with a line (`train.log:31`) or a field (`metrics.json: status`). value: what stands there or was counted."""

    at: str
    value: Any

    def __str__(self) -> str:
        return f"{self.at} = {self.value}"


@dataclass(frozen=True)
class Change:
    """One field, by its path. None: not there."""

    field: str
    before: Any
    after: Any


@dataclass(frozen=True)
class Patch:
    """A DSL config that is valid and differs from the round's in the named fields. It is a suggestion: nothing applies it."""

    changes: tuple[Change, ...]
    config: dict[str, Any]
    diff: str


@dataclass(frozen=True)
class Finding:
    """env_change: what to change in the environment file, where the config is not to blame."""

    confidence: Confidence
    what: str
    evidence: tuple[Evidence, ...]
    advice: str
    patch: Patch | None = None
    env_change: Change | None = None


@dataclass(frozen=True)
class Diagnosis:
    """findings: by cause, the root cause first. gaps: files that were missing or torn. running: a process is at work on it."""

    path: str
    round: int | None
    status: str | None
    summary: str
    running: bool
    findings: dict[str, Finding]
    gaps: tuple[str, ...] = ()
    config: dict[str, Any] | None = field(default=None, repr=False)

    @property
    def cause(self) -> str:
        return next(iter(self.findings), HEALTHY)

    @property
    def is_healthy(self) -> bool:
        return not self.findings

    @property
    def patch(self) -> Patch | None:
        """The first suggested config, from the root cause on."""
        return next((found.patch for found in self.findings.values() if found.patch is not None), None)

    def to_dict(self) -> dict[str, Any]:
        return {
            "round_dir": self.path,
            "round": self.round,
            "status": self.status,
            "healthy": self.is_healthy,
            "running": self.running,
            "cause": self.cause,
            "summary": self.summary,
            "findings": [{"cause": cause, **asdict(found)} for cause, found in self.findings.items()],
            "gaps": list(self.gaps),
        }
