"""What stands beside a gain, in every table of a run: over the plain backend, over the best classical decoder on the same shots, what
the weights add over the untrained model, and the time."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from autoqec.eval.schema import VerifyReport
from autoqec.runs.front import verification_of

COLUMNS = ("LER ratio to plain", "to best classical", "weights add", "us/shot")
"""Ratios are LER of the other over LER of the predecoder: above 1 is better."""


def of_report(report: VerifyReport) -> tuple[str, ...]:
    return of_verification(verification_of(report, None) or {})


def of_verification(verified: Mapping[str, Any]) -> tuple[str, ...]:
    """One cell for each of `COLUMNS`, from the `verification` of a history row."""
    name = verified.get("strongest_baseline")
    best = _ratio(verified.get("ratio_vs_strongest"), verified.get("ratio_vs_strongest_ci"))
    time = verified.get("us_per_shot")
    return (
        _ratio(verified.get("ratio"), verified.get("ratio_ci")),
        best if best == "-" or name is None else f"{best} {name}",
        _ratio(verified.get("ratio_vs_untrained"), verified.get("ratio_vs_untrained_ci")),
        "-" if time is None else f"{time:.3g}",
    )


def sentence(verified: Mapping[str, Any]) -> str:
    """The same in words. "Beats" is only said where every classical decoder is behind, each by its own interval."""
    plain, best, weights, time = of_verification(verified)
    parts = (
        [f"LER {plain}x lower than {verified.get('baseline') or 'the plain backend'}"] if plain != "-" else []
    )
    if best != "-":
        name = verified.get("strongest_baseline")
        ratio = best.removesuffix(f" {name}")
        beats = (
            "beats every classical decoder here"
            if verified.get("beats_classical")
            else "not shown to beat it"
        )
        parts.append(f"{ratio}x lower than {name}, the best classical decoder ({beats})")
    if weights != "-":
        parts.append(f"{weights}x lower than the untrained model")
    if time != "-":
        parts.append(f"{time} us/shot")
    return "; ".join(parts)


@dataclass(frozen=True)
class ClassicalPoint:
    """A classical decoder beside the front. gain: LER of the plain backend less its own, on the same shots."""

    name: str
    gain: float
    shots: int
    us_per_shot: float | None


def classical_points(reports: Iterable[VerifyReport]) -> list[ClassicalPoint]:
    """By gain, on the shots of the largest estimate."""
    found = [report.estimate for report in reports if report.estimate is not None]
    if not found:
        return []
    most = max(found, key=lambda estimate: estimate.shots)
    points = [
        ClassicalPoint(row.baseline, most.ler_baseline - row.ler_baseline, row.shots, row.us_per_shot)
        for row in most.classical
    ]
    return sorted(points, key=lambda point: -point.gain)


def _ratio(value: float | None, interval: Sequence[float | None] | None) -> str:
    if value is None:
        return "-"
    if not interval or interval[0] is None:
        return f"{value:.3f}"
    high = "inf" if interval[1] is None else f"{interval[1]:.3f}"
    return f"{value:.3f} ({interval[0]:.3f} .. {high})"
