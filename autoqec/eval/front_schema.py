"""One row of the Pareto front. A row that may not be on the front cannot be made."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal, Self

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    SerializerFunctionWrapHandler,
    field_validator,
    model_serializer,
    model_validator,
)

from autoqec.errors import InputError
from autoqec.eval.schema import VerifyReport
from autoqec.io.validate import validate_model
from autoqec.stats.pareto import Axes

SHA_PATTERN = r"^([0-9a-f]{40}|[0-9a-f]{64})$"


class ParetoRow(BaseModel):
    """A verified, committed round with what it gains and what it costs.

    `delta_vs_baseline_holdout` is baseline LER minus candidate LER on the shots of `paired_eval_bundle_id`,
    and `delta_ci` its paired interval. `config_sha256` stands for all that was trained, edited code included.
    `target_reached` is whether its LER at the environment's target_p is at most target_ler; None where that is open or not
    measured, and then it is not written.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    round_attempt_id: str = Field(min_length=1)
    commit_sha: str = Field(pattern=SHA_PATTERN)
    branch: str = Field(min_length=1)
    delta_vs_baseline_holdout: float = Field(gt=0.0, le=1.0)
    paired_eval_bundle_id: str = Field(min_length=1)
    flops_per_syndrome: int = Field(ge=0)
    n_params: int = Field(ge=0)
    verdict: Literal["VERIFIED"]
    fork_from: str | list[str] | None = None
    fork_from_canonical: str | None = None
    compose_mode: Literal["pure", "with_edit"] | None = None
    # additions
    delta_ci: tuple[float, float]
    round: int = Field(ge=0)
    train_seed: int | None = Field(default=None, ge=0)
    config_sha256: str | None = Field(default=None, min_length=1)
    checkpoint_sha256: str | None = Field(default=None, min_length=1)
    target_reached: bool | None = None

    @field_validator("commit_sha")
    @classmethod
    def _is_a_commit(cls, sha: str) -> str:
        if not set(sha) - {"0"}:
            raise ValueError("is git's null id, not a commit")
        return sha

    @model_validator(mode="after")
    def _interval_holds_delta(self) -> Self:
        low, high = self.delta_ci
        if not -1 <= low <= self.delta_vs_baseline_holdout <= high <= 1 or low == high:
            raise ValueError(
                f"delta_ci = [{low}, {high}] must hold delta_vs_baseline_holdout = "
                f"{self.delta_vs_baseline_holdout} and have a width"
            )
        return self

    @model_serializer(mode="wrap")
    def _without_an_unknown_target(self, dump: SerializerFunctionWrapHandler) -> dict[str, Any]:
        fields: dict[str, Any] = dump(self)
        if self.target_reached is None:
            fields.pop("target_reached", None)
        return fields

    @property
    def name(self) -> str:
        """How messages name it."""
        return f"round {self.round} ({self.commit_sha[:8]})"

    @property
    def axes(self) -> Axes:
        return self.delta_vs_baseline_holdout, self.flops_per_syndrome, self.n_params

    def identities(self) -> Iterator[tuple[str, object]]:
        """What makes two rows the same predecoder, whichever of these they share."""
        yield "commit", self.commit_sha
        if self.checkpoint_sha256 is not None:
            yield "checkpoint", self.checkpoint_sha256
        if self.config_sha256 is not None:
            yield "config and training seed", (self.config_sha256, self.train_seed)


def row_of(
    report: VerifyReport,
    *,
    round: int,
    round_attempt_id: str | None,
    flops_per_syndrome: int | None,
    n_params: int | None,
    delta_ci: tuple[float, float],
    fork_from: str | list[str] | None = None,
    fork_from_canonical: str | None = None,
    compose_mode: str | None = None,
    train_seed: int | None = None,
    config_sha256: str | None = None,
    checkpoint_sha256: str | None = None,
) -> ParetoRow:
    """The row of a round, from its verification report and its costs; a refusal says why.

    The training-time `delta_vs_parent` is not asked for: it never decides.
    """
    where = f"round {round}"
    reasons = [
        reason
        for holds, reason in (
            (report.verdict == "VERIFIED", f"its verdict is {report.verdict}, not VERIFIED"),
            (report.commit_sha is not None, "it has no commit_sha: only committed rounds enter"),
            (report.paired_eval_bundle_id is not None, "it has no paired_eval_bundle_id"),
            (report.delta_vs_baseline_holdout is not None, "it has no delta_vs_baseline_holdout"),
            (round_attempt_id is not None, "it has no round_attempt_id"),
            (flops_per_syndrome is not None, "its flops_per_syndrome is not known"),
            (n_params is not None, "its n_params is not known"),
        )
        if not holds
    ]
    if reasons:
        raise InputError(f"refused by the Pareto front: {'; '.join(reasons)}", where=where)
    row = {
        "round_attempt_id": round_attempt_id,
        "commit_sha": report.commit_sha,
        "branch": report.branch,
        "delta_vs_baseline_holdout": report.delta_vs_baseline_holdout,
        "paired_eval_bundle_id": report.paired_eval_bundle_id,
        "flops_per_syndrome": flops_per_syndrome,
        "n_params": n_params,
        "verdict": report.verdict,
        "fork_from": fork_from,
        "fork_from_canonical": fork_from_canonical,
        "compose_mode": compose_mode,
        "delta_ci": list(delta_ci),
        "round": round,
        "train_seed": train_seed,
        "config_sha256": config_sha256,
        "checkpoint_sha256": checkpoint_sha256,
        "target_reached": None if report.target is None else report.target.is_reached,
    }
    return validate_model(row, ParetoRow, where=where)
