"""VerifyReport: what the independent verifier says about one round, on holdout shots."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator


class VerifyReport(BaseModel):
    """`delta_*` are baseline minus candidate, so a gain is positive; unknown keys are ignored when read.

    `paired_eval_bundle_id` is required for compose rounds and Pareto candidates; a report does not
    know whether it is one, so admission to the front checks it.
    """

    model_config = ConfigDict(extra="ignore", allow_inf_nan=False)

    verdict: Literal["VERIFIED", "SUSPICIOUS", "FAILED"]
    ler_holdout: float = Field(ge=0.0, le=1.0)
    ler_holdout_ci: tuple[float, float]
    delta_ler_holdout: float = Field(ge=-1.0, le=1.0)
    ler_shuffled: float = Field(ge=0.0, le=1.0)
    ablation_sanity_ok: bool
    holdout_seeds_used: list[int]
    seed_leakage_check_ok: bool
    notes: str
    # worktree path
    branch: str | None = Field(default=None, min_length=1)
    commit_sha: str | None = Field(default=None, min_length=1)
    delta_vs_baseline_holdout: float | None = Field(default=None, ge=-1.0, le=1.0)
    paired_eval_bundle_id: str | None = Field(default=None, min_length=1)

    @model_validator(mode="after")
    def _values_agree(self) -> Self:
        low, high = self.ler_holdout_ci
        if not 0.0 <= low <= high <= 1.0:
            raise ValueError(
                f"ler_holdout_ci = [{low}, {high}] must be [low, high] with 0 <= low <= high <= 1"
            )
        if (self.branch is None) != (self.commit_sha is None):
            raise ValueError(
                f"branch = {self.branch!r} and commit_sha = {self.commit_sha!r} must come together"
            )
        return self
