"""`plan.json`: what a run was asked to do. With the run's id it determines the run, so a resumed one needs nothing else."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from autoqec.envs.schema import EvalProtocol
from autoqec.io import atomic
from autoqec.io.validate import load_model
from autoqec.layout import RunDir

DEV_VERIFY_SHARE = 0.2
"""Of `min_shots_verify` in a dev run, which says so in its log; prod honours all of it."""

WALL_CLOCK_S = {"dev": 1800.0, "prod": 7200.0}
"""Of one round: what its profile gives to training, and as much again for start and validation."""

SPARE_CONFIRMATIONS = 2
"""Verifications beyond one per round that the run's alpha is divided among: one that is cut off spends its share."""

CHAT = "chat"
"""The proposer of a run whose answers come from outside, through `autoqec step`."""


class Plan(BaseModel):
    """rounds: in all, resumed or not. is_smoke: random templates without analyst's log, verification and verified front.
    memory_gb: what a training batch may need, fixed when the run started. wall_clock_s: of one round; by default its profile's.
    refuse_over_budget: whether configs beyond the environment's soft budgets are refused; by default they run and are marked.
    parallel: rounds in flight at a time. The proposal of round n follows from the results of the rounds up to n - parallel.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    rounds: int = Field(ge=1, le=10**12)
    proposer: str
    profile: Literal["dev", "prod"] = "dev"
    is_smoke: bool = False
    verify_shots: int | None = Field(default=None, ge=1, le=10**12)
    budget_minutes: float | None = Field(default=None, gt=0, le=1e12)
    budget_usd: Decimal | None = Field(default=None, ge=0)
    memory_gb: float = Field(gt=0, le=1e12)
    wall_clock_s: float | None = Field(default=None, gt=0, le=1e6)
    refuse_over_budget: bool = False
    parallel: int = Field(default=1, ge=1, le=1000)

    @property
    def round_s(self) -> float:
        """Seconds after which a round is killed."""
        return self.wall_clock_s or WALL_CLOCK_S[self.profile]

    def shots_verify(self, protocol: EvalProtocol) -> int:
        share = DEV_VERIFY_SHARE if self.profile == "dev" else 1.0
        return self.verify_shots or max(1, int(share * protocol.min_shots_verify))


def save_plan(files: RunDir, plan: Plan) -> None:
    atomic.write_text(files.plan, json.dumps(plan.model_dump(mode="json"), indent=2) + "\n")


def is_parallel(files: RunDir) -> bool:
    """Whether the run has rounds in flight side by side; one without a plan has not."""
    return files.plan.exists() and read_plan(files).parallel > 1


def read_plan(files: RunDir) -> Plan:
    return load_model(files.plan, Plan)
