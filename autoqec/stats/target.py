"""The target of an environment: is the LER at `target_p` at most `target_ler`, as far as the shots can tell?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from pydantic import BaseModel, ConfigDict

Reached = Literal["reached", "missed", "open", "not measured"]
"""open: the interval of the LER holds the target, so that more shots would have to decide."""

Counts = tuple[int, int]
"""Failures and shots."""


class Target(BaseModel):
    """`target` of metrics and reports. ler, ler_ci and shots are None where it is not measured; reason says why."""

    model_config = ConfigDict(extra="ignore", frozen=True, allow_inf_nan=False)

    reached: Reached
    p: float
    target_ler: float
    interval_level: float
    ler: float | None = None
    ler_ci: tuple[float, float] | None = None
    shots: int | None = None
    reason: str | None = None

    @property
    def is_reached(self) -> bool | None:
        """None where the shots do not tell."""
        return {"reached": True, "missed": False}.get(self.reached)

    @property
    def text(self) -> str:
        """One line for people."""
        asked = f"LER {self.target_ler:.3g} at p = {self.p:g}"
        if self.ler is None or self.ler_ci is None:
            return f"{asked}: {self.reached}: {self.reason}"
        low, high = self.ler_ci
        return f"{asked}: {self.reached}, measured {self.ler:.3g} [{low:.3g}, {high:.3g}]"


def reach(failures: int, shots: int, target_ler: float, level: float = 0.95) -> Reached:
    """Decided by the Wilson interval of the LER: reached below the target, missed above it."""
    from autoqec.stats.intervals import wilson  # here: schemas import this module, and need no scipy

    low, high = wilson(failures, shots, level)
    return "reached" if high <= target_ler else "missed" if low > target_ler else "open"


def check_target(
    counts: Mapping[float, Counts], *, target_ler: float, target_p: float, level: float
) -> Target:
    """counts: what was measured, by p. A target_p that is not among them is not measured."""
    from autoqec.stats.intervals import wilson

    failures, shots = counts.get(target_p, (0, 0))
    if shots == 0:
        measured = ", ".join(f"{p:g}" for p in sorted(counts)) or "none"
        return Target(
            reached="not measured",
            p=target_p,
            target_ler=target_ler,
            interval_level=level,
            reason=f"target_p = {target_p:g} is not among the measured p ({measured})",
        )
    return Target(
        reached=reach(failures, shots, target_ler, level),
        p=target_p,
        target_ler=target_ler,
        interval_level=level,
        ler=failures / shots,
        ler_ci=wilson(failures, shots, level),
        shots=shots,
    )
