"""What a verification report says about the candidate's confidence."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from autoqec.eval.schema_row import Interval, Row

Source = Literal["estimate", "test", "fresh"]


class ReliabilityRow(Row):
    """Shots with log-odds from `low`, None: minus infinity, up to `high`. expected, mapped: failures by the log-odds as they are, and
    by the map."""

    low: float | None
    high: float | None
    shots: int
    failures: int
    failures_ci: Interval
    expected: float
    mapped: float | None = None


class KeptRow(Row):
    """What is left when a share of the shots, the least sure, is discarded. below: log-odds of the surest of those. factor: how many
    times lower the LER is."""

    share: float
    below: float | None
    shots: int
    failures: int
    ler: float
    ler_ci: Interval
    factor: float | None
    factor_ci: tuple[float | None, float | None]


class Calibration(Row):
    """Log-odds of the candidate's predictions at one p, as the trusted side computes them from its answers, against failures.

    source: shots that selected nothing, those of the test, or others outside a verification. expected: sum of 1 / (1 + e^m) over the log-odds m as they are;
    mapped: over scale * m + offset, fitted on other shots.
    """

    p: float
    source: Source
    shots: int
    failures: int
    failures_ci: Interval
    expected: float
    mapped: float | None = None
    scale: float | None = None
    offset: float | None = None
    bins: list[ReliabilityRow] = Field(default_factory=list)
    kept: list[KeptRow] = Field(default_factory=list)
