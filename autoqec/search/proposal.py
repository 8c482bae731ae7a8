"""What every proposer is given and what it answers: the types that the loop, the LLM roles and the offline proposers share.

A proposer keeps nothing between rounds. Whatever it needs to know about the past is in the `RoundContext`, which the loop
rebuilds from the run folder, so that a resumed run gets the proposals that an undisturbed one would have got.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, Self

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from autoqec.decoders.dsl_schema import NeuralBpSpec, PredecoderDSL, canonical_dict, canonical_hash
from autoqec.envs.problem import DecodingProblem
from autoqec.envs.schema import ConstraintsSpec, EnvSpec
from autoqec.runner.schema import ComposeMode, check_parents

BASELINE = "baseline"
BASELINE_CONFIG = PredecoderDSL(type="neural_bp", output_mode="soft_priors", neural_bp=NeuralBpSpec())
"""What rounds that fork from the baseline start from, unless the run says otherwise."""

Row = Mapping[str, Any]
"""One line of history.jsonl: a superset of RoundMetrics with `round`, `hypothesis`, `verdict`, and, for what a proposer
made, `dsl_config`, `config_hash` and `origin` of the proposal. Keys may be missing: rounds can fail before they have them."""


def short_name(branch: str) -> str:
    """`exp/<run>/03-wider` -> `03-wider`: what the roles call a branch."""
    return branch.rpartition("/")[2]


class Proposal(BaseModel):
    """What one round is to try: the same object from the proposer to the journal and the history row.

    fork_from: full branch names. dsl_config: every option written out; None until somebody has written it. In a `pure` compose
    round it is what the merge is expected to give; the merge itself decides. coder_rationale: of a Coder apart from the proposer.
    slug: by default that of the hypothesis. round_attempt_id: by default a new one. origin: the proposer's name under `proposer`,
    and facts that it wants to find again in the history row. details: further keys of that row.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    hypothesis: str = Field(min_length=1)
    rationale: str = ""
    fork_from: str | list[str] = BASELINE
    compose_mode: ComposeMode | None = None
    expected_delta_ler: float = Field(default=0.0, ge=-1.0, le=1.0)
    expected_cost_s: int = Field(default=0, ge=0)
    dsl_hint: dict[str, Any] | None = None
    dsl_config: dict[str, Any] | None = None
    coder_rationale: str | None = None
    commit_message: str | None = Field(default=None, min_length=1)
    slug: str | None = None
    round_attempt_id: str | None = Field(default=None, min_length=1)
    origin: dict[str, Any] = Field(default_factory=dict)
    details: dict[str, Any] = Field(default_factory=dict)

    @field_validator("dsl_config")
    @classmethod
    def _config_is_valid(cls, config: dict[str, Any] | None) -> dict[str, Any] | None:
        return None if config is None else canonical_dict(PredecoderDSL.model_validate(config))

    @model_validator(mode="after")
    def _parents_fit_the_mode(self) -> Self:
        check_parents(self.fork_from, self.compose_mode)
        if isinstance(self.fork_from, str) and self.compose_mode is not None:
            raise ValueError(f"compose_mode = {self.compose_mode!r} needs a list of parents")
        return self

    @property
    def is_coded(self) -> bool:
        """Whether the round can be committed: a pure compose round needs no config of its own."""
        return self.compose_mode == "pure" or self.dsl_config is not None

    @property
    def dsl(self) -> PredecoderDSL:
        return PredecoderDSL.model_validate(self.dsl_config)

    @property
    def config_hash(self) -> str:
        return canonical_hash(self.dsl)

    @property
    def tier(self) -> Literal["1", "2"]:
        return self.dsl.tier

    @property
    def idea(self) -> dict[str, Any]:
        """The hypothesis, as journal and history row keep it."""
        return {name: getattr(self, name) for name in _IDEA}

    @property
    def coder(self) -> dict[str, Any] | None:
        """The config with its reasons, as the journal keeps it."""
        if self.dsl_config is None or self.compose_mode == "pure":
            return None
        why = self.rationale if self.coder_rationale is None else self.coder_rationale
        return {
            "dsl_config": self.dsl_config,
            "tier": self.tier,
            "rationale": why,
            "commit_message": self.commit_message,
        }

    def with_code(
        self,
        dsl_config: Mapping[str, Any],
        *,
        rationale: str | None = None,
        commit_message: str | None = None,
        **origin: Any,
    ) -> Proposal:
        """The proposal with its config; origin: facts about who wrote it."""
        coded = {
            "dsl_config": dict(dsl_config),
            "coder_rationale": rationale,
            "commit_message": commit_message or None,
            "origin": {**self.origin, **origin},
        }
        return Proposal.model_validate(self.model_dump() | coded)


_IDEA = (
    "hypothesis",
    "expected_delta_ler",
    "expected_cost_s",
    "rationale",
    "dsl_hint",
    "fork_from",
    "compose_mode",
)


@dataclass(frozen=True, eq=False)
class EnvFacts:
    """What a proposer may know about the environment. problem: at the reference p; costs are counted on it."""

    spec: EnvSpec
    reference_p: float
    profile: Literal["dev", "prod"]
    problem: DecodingProblem = field(repr=False)

    @property
    def name(self) -> str:
        return self.spec.name

    @property
    def backend(self) -> Literal["mwpm", "osd"]:
        return self.spec.classical_backend

    @property
    def constraints(self) -> ConstraintsSpec:
        return self.spec.constraints

    def summary(self) -> dict[str, Any]:
        """The facts as plain values, for prompts and records."""
        return {
            "name": self.name,
            "backend": self.backend,
            "reference_p": self.reference_p,
            "profile": self.profile,
            "n_checks": self.problem.n_checks,
            "n_faults": self.problem.n_faults,
            "n_observables": self.problem.n_observables,
            "constraints": self.constraints.model_dump(mode="json"),
        }


@dataclass(frozen=True)
class Branch:
    """A node of the fork graph that can be forked from, with the config on it. The baseline is one, without parents."""

    name: str
    parents: tuple[str, ...]
    config: Mapping[str, Any]


@dataclass(frozen=True, eq=False)
class RoundContext:
    """Everything a proposal is a function of.

    history: all rows in the order of their rounds. pareto: rows of the verified front. branches: the baseline and every
    branch that still exists. seed: of this round, from the run's id and the round's number. budget_left_s: None without a
    limit. memory_gb: what a training batch may need; give a constant of the run, not what happens to be free.
    checked_out: the rounds that have a worktree. in_flight: rounds that were proposed before and have no result yet, as rows without
    one. refuse_over_budget: whether the run refuses what the environment's soft
    budgets do not cover.
    """

    env: EnvFacts
    seed: int
    round: int
    rounds_planned: int
    history: tuple[Row, ...] = ()
    pareto: tuple[Row, ...] = ()
    branches: tuple[Branch, ...] = ()
    budget_left_s: float | None = None
    memory_gb: float | None = None
    checked_out: tuple[str, ...] = ()
    refuse_over_budget: bool = False
    in_flight: tuple[Row, ...] = ()

    @property
    def tried(self) -> tuple[Row, ...]:
        """All that was proposed before, with a result or without."""
        return (*self.history, *self.in_flight)


class Proposer(Protocol):
    @property
    def name(self) -> str: ...

    def propose(self, context: RoundContext) -> Proposal: ...
