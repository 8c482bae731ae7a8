"""What the rows of a verification report have in common."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict

Interval = tuple[float, float]


class Row(BaseModel):
    model_config = ConfigDict(extra="ignore", allow_inf_nan=False)
