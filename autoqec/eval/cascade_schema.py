"""What a verification report says about the stages of a cascade."""

from __future__ import annotations

from pydantic import Field

from autoqec.eval.schema_row import Row


class StageRow(Row):
    """shares: of the shots at this p that each stage was asked about; shares_upper: their exact upper 95% bounds. The FLOPs per
    syndrome that are expected with either.
    """

    p: float
    shots: int
    shares: list[float]
    shares_upper: list[float]
    flops_per_syndrome: int
    flops_upper: int

    @property
    def flops_range(self) -> tuple[int, int]:
        return self.flops_per_syndrome, self.flops_upper


class CascadeCost(Row):
    """stage_flops: for a shot that reaches the stage, counted on such shots; stage_errors: their standard errors, 0 where every shot costs the
    same, and empty in older reports. worst_flops: for one that reaches all.

    decoder_us_*: one shot at a time through all stages that it needs, with gates and backend.
    """

    stage_flops: list[int]
    stage_errors: list[float] = Field(default_factory=list)
    worst_flops: int
    per_p: list[StageRow]
    decoder_us_p50: float
    decoder_us_p99: float
    decoder_us_p999: float
