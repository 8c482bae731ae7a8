"""VerifyReport: what the independent verifier says about one round, on holdout shots."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple, Self

from pydantic import AliasChoices, BaseModel, ConfigDict, Field, model_validator

from autoqec.eval.calibration_schema import Calibration
from autoqec.eval.cascade_schema import CascadeCost
from autoqec.eval.schema_row import Interval, Row
from autoqec.stats.target import Target

Verdict = Literal["VERIFIED", "SUSPICIOUS", "FAILED"]
Severity = Literal["breaks", "doubts", "informs"]


class GuardResult(Row):
    """One guard. ok: None where it does not apply. A guard that is not ok breaks the verdict (FAILED), raises doubts
    (SUSPICIOUS) or only informs, by its severity. number: its figure, of which text says what it is."""

    name: str
    ok: bool | None
    severity: Severity
    number: float | None
    text: str
    facts: dict[str, Any] = Field(default_factory=dict)


class PairedFigures(Row):
    """The candidate and the plain backend on the same shots at one p: all of it follows from the counts.

    b: only the baseline failed; c: only the candidate.
    """

    p: float
    shots: int
    baseline: str
    ler_baseline: float
    ler_baseline_ci: Interval
    ler_candidate: float
    ler_candidate_ci: Interval
    delta: float
    delta_ci: Interval
    ratio: float | None
    ratio_ci: tuple[float, float | None]
    b: int
    c: int
    both: int


class PairedRow(PairedFigures):
    """In the test. p_gain, p_loss: anytime-valid. us_model, us_backend: microseconds per shot waiting for the model, and in the
    classical backend."""

    p_gain: float
    p_loss: float
    enough: bool
    us_model: float
    us_backend: float


class BaselineRow(Row):
    """Another decoder on the first `shots` of the same shots. delta: its LER minus the candidate's on those.

    is_candidate: the candidate itself, before the backend at another order of ordered statistics.
    """

    p: float
    name: str
    shots: int
    ler: float | None = None
    ler_ci: Interval | None = None
    delta: float | None = None
    delta_ci: Interval | None = None
    us_per_shot: float | None = None
    note: str | None = None
    is_candidate: bool = False


class DoseRow(Row):
    """Weights with Gaussian noise of `dose` times each tensor's root mean square."""

    dose: float
    ler: float
    ler_ci: Interval
    shots: int | None = None


class Ablation(Row):
    """Where a gain comes from. All LERs on the same `shots` at the reference p; of ablated forms that are slow on the first of them, where
    their own numbers of shots say so.

    untrained: this package's own untrained computation of the same kind (plain belief propagation for a learned one).
    algorithm_gain: baseline minus untrained; weights_gain: untrained minus real. attribution: which of the two are
    significant. survives: ablated forms that win although the untrained computation does not explain it.
    """

    shots: int
    ler_baseline: float
    ler_real: float
    ler_shuffled: float
    ler_reinitialised: float
    ler_untrained: float
    algorithm_gain: float
    algorithm_gain_ci: Interval
    weights_gain: float
    weights_gain_ci: Interval
    attribution: Literal["algorithm", "weights", "both", "none"]
    survives: list[str]
    changed_by_shuffle: int
    doses: list[DoseRow]
    shots_shuffled: int | None = None
    shots_reinitialised: int | None = None


class CostCensus(Row):
    """What the loaded model costs. Latencies are measured from outside the worker; declared: from metrics.json. Of a cascade
    flops_per_syndrome is the expected count at the reference p, latencies are of the first stage, and budgets are held against `flops_upper`.

    counted_flops_per_syndrome: the count by itself, which flops_per_syndrome exceeds where CPU time is charged; None in older reports.
    flops_error: standard error of the count of a model without stages whose work depends on the shot, else 0.
    """

    flops_per_syndrome: int | None
    n_params: int
    n_bytes: int
    counted_flops_per_syndrome: int | None = None
    flops_error: float = 0.0
    latency_us_p50: float | None = None
    latency_us_p99: float | None = None
    bulk_us_per_shot: float | None = None
    declared_flops_per_syndrome: float | None = None
    declared_n_params: float | None = None
    over_budget: list[str] = Field(default_factory=list)
    cascade: CascadeCost | None = None


class Composition(Row):
    """A child and its parents on one bundle: child > threshold x (sum of parents) composes, above 0 partial, else conflicts."""

    reading: Literal["composes", "partial", "conflicts"]
    threshold: float
    child_delta: float
    parent_deltas: list[float]
    parents: list[str]


class Against(PairedFigures):
    """The candidate and another decoder, named by `baseline`, on the same shots."""

    us_per_shot: float | None = None


class Estimate(PairedFigures):
    """The effect at the reference p on a bundle of its own, of a size fixed before, that nothing was selected or stopped on.

    It is drawn once for a checkpoint. strongest: of the classical decoders, by these shots. classical: all others of them.
    untrained: this package's own untrained computation of the same kind; None for a pure network, which untrained is the plain
    backend. us_per_shot: of model and backend.
    """

    bundle: str
    interval_level: float
    strongest: str
    delta_vs_strongest: float | None
    delta_vs_strongest_ci: Interval | None
    shots_of_strongest: int
    classical: list[Against] = Field(default_factory=list)
    untrained: Against | None = None
    us_per_shot: float | None = None

    @property
    def vs_strongest(self) -> PairedFigures | None:
        """The candidate against the strongest classical decoder; None where that one has no row."""
        return next((row for row in (self, *self.classical) if row.baseline == self.strongest), None)

    @property
    def beats_classical(self) -> bool:
        """Whether it is better than every classical decoder here, each by its own interval. A test of all of them together: it is
        wrong no more often than the one against the best of them."""
        rows = (self, *self.classical)
        return self.vs_strongest is not None and all(row.delta_ci[0] > 0 for row in rows)


class Headline(NamedTuple):
    """source: whether these are figures of the estimate or of the test, which was stopped when its gain was large."""

    source: Literal["estimate", "test"]
    bundle: str | None
    shots: int | None
    ler_baseline: float | None
    ler_candidate: float
    delta: float
    delta_ci: Interval | None
    strongest: str | None
    delta_vs_strongest: float | None
    delta_vs_strongest_ci: Interval | None

    @property
    def ratio(self) -> float | None:
        """How many times as often the plain backend fails."""
        return self.ler_baseline / self.ler_candidate if self.ler_baseline and self.ler_candidate else None


class VerifyReport(BaseModel):
    """`delta_*` are baseline minus candidate, so a gain is positive; unknown keys are ignored when read.

    `paired_eval_bundle_id` is required for compose rounds and Pareto candidates; a report does not
    know whether it is one, so admission to the front checks it.
    """

    model_config = ConfigDict(extra="ignore", allow_inf_nan=False)

    verdict: Verdict
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
    # additions: the test
    env_name: str | None = None
    env_hash: str | None = None
    checkpoint_sha256: str | None = None
    reference_p: float | None = None
    interval_level: float | None = None
    shots: int | None = None
    shots_cap: int | None = None
    alpha: float | None = None
    rounds_planned: int | None = None
    confirmations_before: int | None = None
    decision: Literal["gain", "loss", "undecided"] | None = None
    p_gain: float | None = None
    p_gain_exact: float | None = None
    baseline: str | None = None
    ler_baseline_holdout: float | None = None
    delta_ler_ci_low: float | None = None
    delta_ler_ci_high: float | None = None
    strongest_baseline: str | None = None
    delta_vs_strongest: float | None = None
    delta_vs_strongest_ci: Interval | None = None
    per_p: list[PairedRow] = Field(default_factory=list)
    baselines: list[BaselineRow] = Field(default_factory=list)
    target: Target | None = None
    guards: list[GuardResult] = Field(default_factory=list)
    ablation: Ablation | None = None
    cost: CostCensus | None = None
    composition: Composition | None = None
    estimate: Estimate | None = None
    calibration: list[Calibration] = Field(default_factory=list)
    # additions: how it was run
    sandbox_kind: str | None = Field(
        default=None,
        validation_alias=AliasChoices("sandbox_kind", "sandbox_tier"),  # of older reports
    )
    sandboxed: bool | None = None
    model_code: str | None = None
    bundle_kind: Literal["confirm", "dev", "estimate"] | None = None
    bundle_path: str | None = None
    circuits: dict[str, str] = Field(default_factory=dict)
    seconds: float | None = None
    versions: dict[str, str] = Field(default_factory=dict)

    @property
    def headline(self) -> Headline:
        """The figures to quote: of the estimate, or of the test where there is none."""
        if (found := self.estimate) is not None:
            return Headline(
                "estimate",
                found.bundle,
                found.shots,
                found.ler_baseline,
                found.ler_candidate,
                found.delta,
                found.delta_ci,
                found.strongest,
                found.delta_vs_strongest,
                found.delta_vs_strongest_ci,
            )
        delta = self.delta_vs_baseline_holdout
        low, high = self.delta_ler_ci_low, self.delta_ler_ci_high
        return Headline(
            "test",
            self.paired_eval_bundle_id,
            self.shots,
            self.ler_baseline_holdout,
            self.ler_holdout,
            self.delta_ler_holdout if delta is None else delta,
            None if low is None or high is None else (low, high),
            self.strongest_baseline,
            self.delta_vs_strongest,
            self.delta_vs_strongest_ci,
        )

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
