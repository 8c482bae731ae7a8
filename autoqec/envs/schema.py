"""EnvSpec: the triple (code, noise, constraints) that a user hands to AutoQEC.

Field names, types and defaults of the interface contract (docs/contract.md) are kept; fields documented as "addition" are
optional. Everything is read strictly: an unknown key is an error.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Literal, Self

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

Purpose = Literal["train", "val", "holdout"]
NoiseLevel = Literal["code_capacity", "phenomenological", "circuit"]


MOST_ORDER = 60
"""Of ordered statistics: the work grows with its square."""


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)


class SeedPolicy(_Strict):
    """Inclusive ranges of seed labels. A label is not a sampler seed: see `autoqec.envs.seeds`."""

    train: tuple[int, int] = (1, 999)
    val: tuple[int, int] = (1000, 1999)
    holdout: tuple[int, int] = (9000, 9999)

    @model_validator(mode="after")
    def _ranges_are_disjoint(self) -> Self:
        ranges = {name: getattr(self, name) for name in ("train", "val", "holdout")}
        for name, (low, high) in ranges.items():
            if low < 0 or low > high:
                raise ValueError(f"{name} = [{low}, {high}] must be [low, high] with 0 <= low <= high")
        ordered = sorted(ranges.items(), key=lambda item: item[1])
        for (a, (_, a_high)), (b, (b_low, _)) in pairwise(ordered):
            if b_low <= a_high:
                raise ValueError(f"{a} and {b} overlap at label {b_low}: give them disjoint ranges")
        return self


class LeakageSpec(_Strict):
    """Addition. Rates of the leakage process, on top of uniform circuit noise of strength p.

    leak: probability, in units of p, that a qubit leaks in a two-qubit gate.
    seep: probability per two-qubit gate that a leaked qubit falls back, into a random state.
    spread: probability that a leaked qubit's gate partner leaks too; it is depolarised in any case.
    """

    leak: float = Field(default=0.1, ge=0.0, le=10.0)
    seep: float = Field(default=0.05, ge=0.0, le=1.0)
    spread: float = Field(default=0.05, ge=0.0, le=1.0)


class NoiseSpec(_Strict):
    type: Literal["depolarizing", "biased", "leakage", "custom_dem"]
    p: list[float]
    seed_policy: SeedPolicy = Field(default_factory=SeedPolicy)
    # additions
    reference_p: float | None = None
    variant: Literal["uniform", "si1000"] = "uniform"
    level: NoiseLevel | None = None
    idle: Literal["readout", "every_layer"] | None = None
    eta: float = Field(default=10.0, gt=0.0, le=1e6)
    leakage: LeakageSpec | None = None
    dem: str | None = None

    @field_validator("p")
    @classmethod
    def _p_is_a_sweep(cls, p: list[float]) -> list[float]:
        if not p:
            raise ValueError("the sweep is empty: give at least one physical error rate, e.g. [0.005]")
        for value in p:
            if not 0.0 < value <= 0.5:
                raise ValueError(f"{value!r} is not a physical error rate: expected 0 < p <= 0.5")
        if len(set(p)) != len(p):
            raise ValueError(f"{p!r} repeats a value: list each p once")
        return p

    @model_validator(mode="after")
    def _options_belong_to_the_type(self) -> Self:
        owners = {
            "variant": ("depolarizing", self.variant != "uniform"),
            "eta": ("biased", self.eta != 10.0),
            "leakage": ("leakage", self.leakage is not None),
            "dem": ("custom_dem", self.dem is not None),
        }
        for name, (owner, is_set) in owners.items():
            if is_set and self.type != owner:
                raise ValueError(f"{name} belongs to noise type {owner!r}, not {self.type!r}: remove it")
        if self.type == "custom_dem" and (self.level is not None or self.idle is not None):
            raise ValueError("a custom_dem fixes the whole noise model: remove level and idle")
        if self.leakage is not None and self.leakage.leak * max(self.p) > 1.0:
            raise ValueError(
                f"leak = {self.leakage.leak!r} times p = {max(self.p)!r} is not a probability: lower leak"
            )
        if self.reference_p is not None and self.reference_p not in self.p:
            raise ValueError(f"reference_p = {self.reference_p!r} is not in the sweep p = {self.p!r}")
        return self


class CodeSpec(_Strict):
    type: Literal["stim_circuit", "parity_check_matrix", "tanner_graph"]
    source: str = Field(min_length=1)
    # additions
    rounds: int | None = Field(default=None, ge=1, le=10_000)
    memory_basis: Literal["z", "x"] = "z"


class ConstraintsSpec(_Strict):
    """Soft budgets: a round beyond them runs and is marked over budget."""

    latency_flops_budget: int = Field(default=10_000_000, gt=0)
    param_budget: int = Field(default=200_000, gt=0)
    target_ler: float = Field(default=1e-4, gt=0.0, lt=1.0)
    target_p: float = Field(default=1e-3, gt=0.0, lt=1.0)

    def budget_shares(self, flops_per_syndrome: int | None, n_params: int | None) -> dict[str, float]:
        """The costs that are known, as multiples of their budgets."""
        return {name: cost / budget for name, cost, budget in self._spent(flops_per_syndrome, n_params)}

    def over_budget(self, flops_per_syndrome: int | None, n_params: int | None) -> list[str]:
        """What goes beyond a budget, in words; empty within both. The one place that decides it."""
        spent = self._spent(flops_per_syndrome, n_params)
        return [f"{name} {cost} > {budget}" for name, cost, budget in spent if cost > budget]

    def _spent(self, flops_per_syndrome: int | None, n_params: int | None) -> list[tuple[str, int, int]]:
        costs = {
            "flops_per_syndrome": (flops_per_syndrome, self.latency_flops_budget),
            "n_params": (n_params, self.param_budget),
        }
        return [(name, cost, budget) for name, (cost, budget) in costs.items() if cost is not None]


class EvalProtocol(_Strict):
    """Shots of each stage, and how results are quoted. `bootstrap_ci` is the level of every interval of an LER, a difference
    or a ratio; the intervals themselves are score intervals, and no bootstrap runs."""

    min_shots_train: int = Field(default=1_000_000, gt=0)
    min_shots_val: int = Field(default=100_000, gt=0)
    min_shots_verify: int = Field(default=200_000, gt=0)
    bootstrap_ci: float = Field(
        default=0.95, gt=0.0, lt=1.0, description="level of the intervals of LERs, differences and ratios"
    )
    osd_orders_reported: list[int] = [0, 10]
    x_z_decoding: Literal["circuit", "x_only"] = "circuit"
    # addition: which detectors OSD sees in circuit-level decoding of a CSS code; with context, a predecoder sees the others, too
    osd_bases: Literal["observable", "observable_with_context", "both"] = "observable"

    @property
    def interval_level(self) -> float:
        return self.bootstrap_ci

    @field_validator("osd_orders_reported")
    @classmethod
    def _orders_are_orders(cls, orders: list[int]) -> list[int]:
        bad = [order for order in orders if not 0 <= order <= MOST_ORDER]
        if bad or not orders or len(set(orders)) != len(orders):
            raise ValueError(
                f"{orders!r}: expected distinct OSD orders between 0 and {MOST_ORDER}, e.g. [0, 10]"
            )
        return orders


class EnvSpec(_Strict):
    name: str = Field(min_length=1, max_length=100)
    code: CodeSpec
    noise: NoiseSpec
    constraints: ConstraintsSpec
    baseline_decoders: list[str]
    classical_backend: Literal["mwpm", "osd"]
    eval_protocol: EvalProtocol = Field(default_factory=EvalProtocol)
