"""One row of the Pareto front. A row that may not be on the front cannot be made."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
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
from autoqec.stats.intervals import paired_difference
from autoqec.stats.pareto import Axes

SHA_PATTERN = r"^([0-9a-f]{40}|[0-9a-f]{64})$"


class ParetoRow(BaseModel):
    """A verified, committed round with what it gains and what it costs.

    `delta_vs_baseline_holdout` is baseline LER minus candidate LER on the shots of `paired_eval_bundle_id`, which selected
    nothing: the round's estimate bundle. `delta_ci` is its paired interval, simultaneous over all `intervals_over` verified
    rounds of the run, so that it holds for the one that looks best, too; b, c, both, shots: the counts behind it.
    `delta_of_test` is the gain in the test that verified it: the best round is chosen by that one, and quoted by the other.
    `config_sha256` stands for all that was trained, edited code included.
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
    delta_of_test: float | None = None
    test_bundle_id: str | None = None
    shots: int | None = Field(default=None, ge=1)
    b: int | None = Field(default=None, ge=0)
    c: int | None = Field(default=None, ge=0)
    both: int | None = Field(default=None, ge=0)
    interval_level: float | None = Field(default=None, gt=0.0, lt=1.0)
    intervals_over: int | None = Field(default=None, ge=1)

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
    def _without_what_is_not_known(self, dump: SerializerFunctionWrapHandler) -> dict[str, Any]:
        return {
            name: value for name, value in dump(self).items() if value is not None or name not in _IF_KNOWN
        }

    def among(self, rows: int) -> ParetoRow:
        """The row with an interval that is simultaneous over so many; one without counts stays as it is."""
        if self.shots is None or self.b is None or self.c is None or self.interval_level is None:
            return self
        level = 1 - (1 - self.interval_level) / rows
        interval = paired_difference(self.b, self.c, self.shots, level)
        return self.model_copy(update={"delta_ci": interval, "intervals_over": rows})

    @property
    def figures(self) -> dict[str, Any]:
        """What does not change when other rounds are verified."""
        return self.model_dump(exclude={"delta_ci", "intervals_over"})

    @property
    def chosen_by(self) -> float:
        """The gain by which the best is chosen: that of the test, so that the figure which is quoted selected nothing."""
        return self.delta_vs_baseline_holdout if self.delta_of_test is None else self.delta_of_test

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


_IF_KNOWN = frozenset(
    (
        "target_reached",
        "delta_of_test",
        "test_bundle_id",
        "shots",
        "b",
        "c",
        "both",
        "interval_level",
        "intervals_over",
    )
)


@dataclass(frozen=True)
class Origin:
    """Where a round comes from: what its report does not say."""

    round: int
    round_attempt_id: str | None
    fork_from: str | list[str] | None = None
    fork_from_canonical: str | None = None
    compose_mode: str | None = None
    train_seed: int | None = None
    config_sha256: str | None = None


def row_of(report: VerifyReport, origin: Origin) -> ParetoRow:
    """The row of a round, from its verification report alone; a refusal says why.

    The training-time `delta_vs_parent` is not asked for: it never decides.
    """
    where = f"round {origin.round}"
    head, cost, estimate = report.headline, report.cost, report.estimate
    reasons = [
        reason
        for holds, reason in (
            (report.verdict == "VERIFIED", f"its verdict is {report.verdict}, not VERIFIED"),
            (report.commit_sha is not None, "it has no commit_sha: only committed rounds enter"),
            (head.bundle is not None, "it has no paired_eval_bundle_id"),
            (report.delta_vs_baseline_holdout is not None, "it has no delta_vs_baseline_holdout"),
            (head.delta_ci is not None, "its delta has no interval"),
            (origin.round_attempt_id is not None, "it has no round_attempt_id"),
            (cost is not None and cost.flops_per_syndrome is not None, "its flops_per_syndrome is not known"),
            (head.delta > 0, f"its gain on the shots of the {head.source} is {head.delta:.3g}"),
        )
        if not holds
    ]
    if reasons or cost is None:
        raise InputError(f"refused by the Pareto front: {'; '.join(reasons)}", where=where)
    row = {
        **asdict(origin),
        "commit_sha": report.commit_sha,
        "branch": report.branch,
        "delta_vs_baseline_holdout": head.delta,
        "paired_eval_bundle_id": head.bundle,
        "flops_per_syndrome": cost.flops_per_syndrome,
        "n_params": cost.n_params,
        "verdict": report.verdict,
        "delta_ci": list(head.delta_ci or ()),
        "checkpoint_sha256": report.checkpoint_sha256,
        "target_reached": None if report.target is None else report.target.is_reached,
    }
    if estimate is not None:
        counts = {name: getattr(estimate, name) for name in ("shots", "b", "c", "both", "interval_level")}
        row |= {**counts, "delta_of_test": report.delta_vs_baseline_holdout}
        row |= {"test_bundle_id": report.paired_eval_bundle_id}
    return validate_model(row, ParetoRow, where=where)
