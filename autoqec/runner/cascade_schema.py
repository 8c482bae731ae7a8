"""What a round measures of a cascade."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class StageShares(BaseModel):
    """shares: of the shots at this p that each stage is asked about."""

    model_config = ConfigDict(extra="ignore", allow_inf_nan=False)

    p: float
    shots: int
    shares: list[float]
    flops_per_syndrome: int


class CascadeFigures(BaseModel):
    """stage_flops: for a shot that reaches the stage. worst_flops: for one that reaches all."""

    model_config = ConfigDict(extra="ignore", allow_inf_nan=False)

    stage_flops: list[int]
    worst_flops: int
    thresholds: list[float]
    per_p: list[StageShares]
