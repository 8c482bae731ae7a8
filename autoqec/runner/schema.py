"""RunnerConfig and RoundMetrics: what one round is given, and what it hands back.

The legacy path runs in this process and leaves the worktree fields unset; the worktree path (`code_cwd`,
`branch`, `fork_from`) runs one experiment branch in a subprocess, and the validators tie its fields together.
Configs are read strictly; metrics ignore unknown keys, because a history row is a superset of them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from autoqec.decoders.transfer_report import TransferReport
from autoqec.runner.cascade_schema import CascadeFigures
from autoqec.stats.target import Target

ComposeMode = Literal["pure", "with_edit"]
RoundStatus = Literal[
    "ok",
    "killed_by_safety",
    "compile_error",
    "train_error",
    "compose_conflict",
    "orphaned_branch",
    "branch_manually_deleted",
]
RECONCILED: tuple[RoundStatus, ...] = ("orphaned_branch", "branch_manually_deleted")
"""Statuses of the rows that reconciliation makes up; only they may have a reconcile_id."""

TrainedOn = Literal["model", "process", "recorded"]
TrainingStop = Literal["all_steps", "time_budget", "patience", "no_epochs"]
FailureKind = Literal[
    "config_invalid",
    "code_refused",
    "code_failed",
    "out_of_scope",
    "environment_invalid",
    "backend_unfit",
    "loss_unsupported",
    "no_sandbox",
    "input_refused",
    "role_failed",
    "repeat",
    "given_up",
    "memory_estimate",
    "out_of_memory",
    "wall_clock",
    "interrupted",
    "killed",
    "nan_loss",
    "training_failed",
    "missing_library",
    "disk_full",
    "not_writable",
    "gpu_error",
    "untrusted_metrics",
    "unknown",
    "compose_conflict",
    "orphaned_branch",
    "branch_deleted",
]
Fact = bool | int | float | str

_KILLED: tuple[FailureKind, ...] = ("memory_estimate", "out_of_memory", "wall_clock", "interrupted", "killed")
_IN_TRAINING: tuple[FailureKind, ...] = (
    "nan_loss",
    "training_failed",
    "missing_library",
    "disk_full",
    "not_writable",
    "gpu_error",
    "untrusted_metrics",
    "unknown",
)
_STATUSES: dict[FailureKind, RoundStatus] = {
    **dict.fromkeys(_KILLED, "killed_by_safety"),
    **dict.fromkeys(_IN_TRAINING, "train_error"),
    "compose_conflict": "compose_conflict",
    "orphaned_branch": "orphaned_branch",
    "branch_deleted": "branch_manually_deleted",
}


@dataclass(frozen=True)
class Failure:
    """Why a round has no result. Programs read `kind`, `where` and `facts`; people read `message`, which includes the hint.

    where: the path of the field that is to blame. facts: figures behind the message, in the units that their names end in.
    """

    kind: FailureKind
    message: str
    where: str | None = None
    hint: str | None = None
    facts: Mapping[str, Fact] = field(default_factory=dict)

    @property
    def status(self) -> RoundStatus:
        return _STATUSES.get(self.kind, "compile_error")

    def metrics(self) -> dict[str, Any]:
        """The fields of RoundMetrics that record it."""
        return {
            "status": self.status,
            "status_reason": self.message,
            "failure_kind": self.kind,
            "failure_where": self.where,
            "failure_hint": self.hint,
            "failure_facts": dict(self.facts) or None,
        }


def canonical_fork(fork_from: str | Sequence[str]) -> str:
    """The dedup key of a fork: the parents' names, sorted and joined by `|`; one parent is its own key."""
    return fork_from if isinstance(fork_from, str) else "|".join(sorted(fork_from))


def check_parents(fork_from: str | list[str] | None, compose_mode: str | None) -> None:
    """A list of parents is a compose round: it needs a mode and at least two different parents."""
    if isinstance(fork_from, list):
        if compose_mode is None:
            raise ValueError("fork_from is a list, so compose_mode is required: give 'pure' or 'with_edit'")
        if len(fork_from) < 2 or len(set(fork_from)) != len(fork_from) or "" in fork_from:
            raise ValueError(
                f"fork_from = {fork_from!r}: a compose round needs two or more different branches; "
                "give one branch as a plain string"
            )
    elif fork_from == "":
        raise ValueError("fork_from is empty: give 'baseline' or the name of a branch")


def _check_fork_names(
    fork_from: str | list[str] | None, canonical: str | None, ordered: list[str] | None
) -> None:
    """The dedup key and the merge order must both name the parents in `fork_from`."""
    if fork_from is None:
        return
    if canonical is not None and canonical != canonical_fork(fork_from):
        raise ValueError(
            f"fork_from_canonical = {canonical!r} is not the sorted, '|'-joined fork_from: "
            f"expected {canonical_fork(fork_from)!r}"
        )
    parents = [fork_from] if isinstance(fork_from, str) else fork_from
    if ordered is not None and sorted(ordered) != sorted(parents):
        raise ValueError(
            f"fork_from_ordered = {ordered!r} does not list the parents of fork_from = {fork_from!r}"
        )


class RunnerConfig(BaseModel):
    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)

    env_name: str = Field(min_length=1)
    predecoder_config: dict[str, Any]
    training_profile: Literal["dev", "prod"] = "dev"
    seed: int = Field(default=0, ge=0)
    round_dir: str = Field(min_length=1)
    # worktree path
    code_cwd: str | None = None
    branch: str | None = Field(default=None, min_length=1, max_length=1000)
    fork_from: str | list[str] | None = None
    fork_from_canonical: str | None = None
    fork_from_ordered: list[str] | None = None
    compose_mode: ComposeMode | None = None
    round_attempt_id: str | None = Field(default=None, min_length=1)
    commit_message: str | None = None
    env_yaml_path: str | None = None
    invocation_argv: list[str] | None = None
    # additions: train with torch.compile; the round or checkpoint.pt to start from
    torch_compile: bool = False
    init_from: str | None = None
    # additions: a training of hours, whatever training_profile says, and its processes (by default one for each GPU)
    campaign: bool = False
    processes: int | None = Field(default=None, ge=1, le=1024)
    # addition: folder for TensorBoard's event files
    tensorboard: str | None = None
    # additions: recorded shots to train on, their observables if those have a file of their own, and the format of both
    train_shots: str | None = None
    train_observables: str | None = None
    train_shots_format: Literal["01", "b8", "r8", "hits", "dets", "ptb64"] | None = None

    @property
    def profile(self) -> str:
        """The name of its budgets."""
        return "campaign" if self.campaign else self.training_profile

    @model_validator(mode="after")
    def _processes_of_a_campaign(self) -> Self:
        if self.processes is not None and not self.campaign:
            raise ValueError(
                f"processes = {self.processes} belongs to a campaign: give profile campaign, or leave it out"
            )
        return self

    @model_validator(mode="after")
    def _worktree_fields_agree(self) -> Self:
        if self.code_cwd is not None:
            if not Path(self.code_cwd).is_absolute():
                raise ValueError(f"code_cwd = {self.code_cwd!r} must be an absolute path to the worktree")
            if self.branch is None:
                raise ValueError("code_cwd is set, so branch is required: give exp/<run_id>/<NN>-<slug>")
        check_parents(self.fork_from, self.compose_mode)
        _check_fork_names(self.fork_from, self.fork_from_canonical, self.fork_from_ordered)
        return self


class RoundMetrics(BaseModel):
    """The outcome of one round, as in `metrics.json`.

    LERs are fractions of shots with any observable wrong; `delta_ler = ler_plain_classical - ler_predecoder`,
    so a gain is positive. `delta_vs_parent` is measured at training time and guides the search only.
    A loss that diverged is None, never NaN.

    Programs read `failure_*` and `training_*` fields; `status_reason` and `training_note` say the same to people. Metrics
    of older rounds lack these fields, and then nothing but the status is known. `training_kept_step`: 0 is the
    untrained start, None where nothing was trained.
    """

    model_config = ConfigDict(extra="ignore", allow_inf_nan=False)

    status: RoundStatus
    status_reason: str | None = None
    ler_plain_classical: float | None = Field(default=None, ge=0.0, le=1.0)
    ler_predecoder: float | None = Field(default=None, ge=0.0, le=1.0)
    delta_ler: float | None = Field(default=None, ge=-1.0, le=1.0)
    delta_ler_ci_low: float | None = None
    delta_ler_ci_high: float | None = None
    flops_per_syndrome: int | None = Field(default=None, ge=0)
    n_params: int | None = Field(default=None, ge=0)
    train_wallclock_s: float = Field(default=0.0, ge=0.0)
    eval_wallclock_s: float = Field(default=0.0, ge=0.0)
    vram_peak_gb: float = Field(default=0.0, ge=0.0)
    checkpoint_path: str | None = None
    training_log_path: str | None = None
    train_loss_initial: float | None = None
    train_loss_final: float | None = None
    train_loss_mean_last_epoch: float | None = None
    train_batches_total: int | None = Field(default=None, ge=0)
    # worktree path
    round_attempt_id: str | None = Field(default=None, min_length=1)
    reconcile_id: str | None = Field(default=None, min_length=1)
    branch: str | None = Field(default=None, min_length=1, max_length=1000)
    commit_sha: str | None = Field(default=None, min_length=1)
    fork_from: str | list[str] | None = None
    fork_from_canonical: str | None = None
    fork_from_ordered: list[str] | None = None
    compose_mode: ComposeMode | None = None
    delta_vs_parent: float | None = Field(default=None, ge=-1.0, le=1.0)
    parent_ler: float | None = Field(default=None, ge=0.0, le=1.0)
    train_seed: int | None = Field(default=None, ge=0)
    # additions: where the headline numbers were taken, the level of all intervals, all p of the sweep, every baseline on
    # the same shots at the reference p, whether the environment's target is reached, what hard flips leave for the
    # backend, and what goes beyond the soft budgets
    reference_p: float | None = None
    interval_level: float | None = None
    per_p: list[dict[str, Any]] | None = None
    baselines: list[dict[str, Any]] | None = None
    target: Target | None = None
    hard_flip: dict[str, float] | None = None
    over_budget: list[str] | None = None
    training_profile: str | None = None
    training_note: str | None = None
    conflicting_files: list[str] | None = None
    # additions: why a round failed and how its training ended, as data
    failure_kind: FailureKind | None = None
    failure_where: str | None = None
    failure_hint: str | None = None
    failure_facts: dict[str, Fact] | None = None
    training_stopped: TrainingStop | None = None
    training_kept_step: int | None = Field(default=None, ge=0)
    training_steps_planned: int | None = Field(default=None, ge=0)
    # additions: what was taken from the checkpoint that the round started from, and the hash by which others start from this one's
    init_from: TransferReport | None = None
    checkpoint_sha256: str | None = None
    # addition: of a cascade, what a shot costs that reaches each stage, all of them together, the gates' thresholds, and at every p the
    # share of shots that each stage is asked about; `flops_per_syndrome` is then what is expected at the reference p
    cascade: CascadeFigures | None = None
    # additions: where training shots came from; of recorded ones, their hash and their number
    trained_on: TrainedOn | None = None
    train_shots_sha256: str | None = None
    train_shots_recorded: int | None = Field(default=None, ge=0)

    @model_validator(mode="after")
    def _interval_is_ordered(self) -> Self:
        low, high = self.delta_ler_ci_low, self.delta_ler_ci_high
        if low is not None and high is not None and low > high:
            raise ValueError(f"delta_ler_ci_low = {low!r} is above delta_ler_ci_high = {high!r}")
        return self

    @model_validator(mode="after")
    def _kind_of_a_nan_loss(self) -> Self:
        """Rows of older versions and of other runners know no kinds, and say in a sentence that the loss was NaN."""
        ended = self.status in ("killed_by_safety", "train_error") and self.failure_kind is None
        if ended and re.search(r"\bnan", self.status_reason or "", re.IGNORECASE):
            self.failure_kind = "nan_loss"
        return self

    @model_validator(mode="after")
    def _row_is_identified(self) -> Self:
        if self.round_attempt_id is not None and self.reconcile_id is not None:
            raise ValueError("round_attempt_id and reconcile_id exclude each other: a row has one origin")
        if self.reconcile_id is not None and self.status not in RECONCILED:
            raise ValueError(
                f"reconcile_id belongs to rows that reconciliation made ({', '.join(RECONCILED)}), "
                f"not to status {self.status!r}"
            )
        in_worktree = (
            self.branch is not None or self.fork_from is not None or self.status == "compose_conflict"
        )
        if in_worktree and self.round_attempt_id is None and self.reconcile_id is None:
            raise ValueError("a worktree row needs round_attempt_id, or reconcile_id if it was synthesised")
        return self

    @model_validator(mode="after")
    def _provenance_is_complete(self) -> Self:
        if self.status == "compose_conflict":
            if self.branch is not None or self.commit_sha is not None:
                raise ValueError("a compose_conflict leaves no commit: branch and commit_sha must be null")
            if self.conflicting_files is None:
                raise ValueError("a compose_conflict must name its conflicting_files")
            return self
        if self.conflicting_files is not None:
            raise ValueError(f"conflicting_files belongs to status 'compose_conflict', not {self.status!r}")
        if self.branch is not None and self.commit_sha is None and self.status != "branch_manually_deleted":
            raise ValueError(
                f"branch = {self.branch!r} needs its commit_sha: the commit is the provenance key"
            )
        if self.commit_sha is not None and self.branch is None:
            raise ValueError(f"commit_sha = {self.commit_sha!r} needs its branch: they are a pair")
        return self

    @model_validator(mode="after")
    def _fork_names_agree(self) -> Self:
        _check_fork_names(self.fork_from, self.fork_from_canonical, self.fork_from_ordered)
        return self
