"""What each role must answer. Unknown keys are refused, so that a misspelt field is repaired, not lost."""

from __future__ import annotations

from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from autoqec.runner.schema import ComposeMode, check_parents


class _Response(BaseModel):
    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)


class IdeatorResponse(_Response):
    """`expected_delta_ler` is positive for a gain; a list in `fork_from` asks for a compose round."""

    hypothesis: str = Field(min_length=1)
    expected_delta_ler: float = Field(ge=-1.0, le=1.0)
    expected_cost_s: int = Field(ge=0)
    rationale: str
    dsl_hint: dict[str, Any] | None = None
    fork_from: Literal["baseline"] | str | list[str] = "baseline"
    compose_mode: ComposeMode | None = None

    @model_validator(mode="after")
    def _parents_fit_the_mode(self) -> Self:
        check_parents(self.fork_from, self.compose_mode)
        return self


class CoderResponse(_Response):
    """`dsl_config` is a PredecoderDSL still to be validated; tier "2" has custom functions."""

    dsl_config: dict[str, Any]
    tier: Literal["1", "2"]
    rationale: str
    commit_message: str | None = None


class AnalystResponse(_Response):
    summary_1line: str = Field(min_length=1)
    verdict: Literal["candidate", "ignore"]
    next_hypothesis_seed: str

    @field_validator("summary_1line")
    @classmethod
    def _summary_is_one_line(cls, summary: str) -> str:
        if summary.splitlines() != [summary]:
            raise ValueError(f"{summary[:60]!r} has several lines: give the summary as one")
        return summary
