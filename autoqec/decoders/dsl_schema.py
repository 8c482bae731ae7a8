"""PredecoderDSL: the declarative description of a predecoder and its training.

Tier 1 picks named parts; tier 2 puts a custom function in place of a message function, an aggregation or the
head. An option that would change nothing (`attention_heads` without attention, a `hard_flip` block under
`soft_priors`) is refused. There are no upper limits on sizes: budgets are soft, safety is the runner's.
"""

from __future__ import annotations

from keyword import iskeyword
from typing import Any, Literal, Self, get_args

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from autoqec.envs.schema import MOST_ORDER
from autoqec.io.hashing import sha256_json

NetworkType = Literal["gnn", "neural_bp", "hybrid"]
StageType = Literal[NetworkType, "sweep", "joint_legs"]
PredecoderType = Literal[NetworkType, "cascade"]
OutputMode = Literal["hard_flip", "soft_priors"]
MessageFn = Literal[
    "mlp",
    "gated_mlp",
    "attention",
    "gru_cell",
    "edge_attention",
    "geometric_attention",
    "residual_mlp",
    "normalized_mlp",
]
Aggregation = Literal["sum", "mean", "max", "attention_pool", "set_transformer", "gated_sum"]
Normalization = Literal["none", "layer", "batch", "edge_norm", "graph_norm"]
EdgeFeature = Literal["syndrome_bit", "round_idx", "stabilizer_type", "distance", "prior_weight"]
Neighbours = Literal["edges", "faults"]
Head = Literal["linear", "mlp_small"]
MarginalLoss = Literal["bce", "focal", "weighted_bce"]
Loss = Literal[MarginalLoss, "backend_gap", "failures"]
MOST_MEMBERS = 256
"""Of an ensemble of matchings."""
MOST_STATES = 1 << 16
"""Of a sweep over the detectors."""
MOST_LEGS, USUAL_LEGS = 10_000, 16
"""Of propagation: further attempts. The usual number is that of joint legs."""
CLASSICAL: dict[str, tuple[str, str]] = {
    "sweep": ("states", "how many patterns it keeps, 64 for instance"),
    "joint_legs": ("legs", "how many attempts it makes at most, 16 for instance"),
}
"""Types of a last stage that is a classical decoder and not a network: the number that each needs, and what that is."""
Takes = Literal["unexplained", "unsure"]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)


class CustomFunction(_Strict):
    """Tier 2: the source of one function and the parameters it may use, e.g. `{W: "Linear(hidden, hidden)"}`.

    Only the layout is checked here; the compiler lints the code, and it runs in the sandboxed worker only.
    """

    type: Literal["custom"]
    code: str = Field(min_length=1)
    params_declared: dict[str, str] = Field(default_factory=dict)

    @field_validator("params_declared")
    @classmethod
    def _names_are_plain(cls, declared: dict[str, str]) -> dict[str, str]:
        for name in declared:
            if not name.isidentifier() or iskeyword(name) or name.startswith("_"):
                raise ValueError(
                    f"{name!r} cannot name a parameter: expected an identifier such as W or gate"
                )
        return declared


class GnnSpec(_Strict):
    """Message passing on the matching graph, else on the Tanner graph. `edge_features` is a set, kept in the order of `EdgeFeature`.

    neighbours: of a matching graph, the ends of its edges, or any two detectors that a fault flips together.
    """

    layers: int = Field(default=4, ge=1, le=10_000)
    hidden_dim: int = Field(default=24, ge=4, le=1_000_000)
    message_fn: MessageFn | CustomFunction = "mlp"
    aggregation: Aggregation | CustomFunction = "sum"
    normalization: Normalization = "layer"
    residual: bool = True
    edge_features: list[EdgeFeature] = list(get_args(EdgeFeature))
    neighbours: Neighbours = "edges"

    @field_validator("edge_features")
    @classmethod
    def _features_are_a_set(cls, features: list[EdgeFeature]) -> list[EdgeFeature]:
        if not features or len(set(features)) != len(features):
            raise ValueError(f"{features!r}: expected one or more different features, e.g. [syndrome_bit]")
        return sorted(features, key=get_args(EdgeFeature).index)


class TurboSpec(_Strict):
    """Propagation on both halves of a CSS code by turns, where the environment shows a predecoder both (`osd_bases:
    observable_with_context`).

    exchanges: how often the two halves tell each other what they found. A shot stops as soon as its syndrome is explained.
    context_iterations: iterations on the other half in each exchange; `iterations` are those on the backend's half.
    legs: further attempts at shots that are not explained, each with its own disordered memory; the lightest solution counts.
    leg_exchanges: exchanges of such an attempt. solutions: with so many a shot needs no further attempt.
    """

    exchanges: int = Field(default=8, ge=1, le=10_000)
    context_iterations: int = Field(default=2, ge=1, le=1_000_000)
    legs: int = Field(default=0, ge=0, le=MOST_LEGS)
    leg_exchanges: int = Field(default=13, ge=1, le=10_000)
    solutions: int = Field(default=4, ge=1, le=10_000)

    @model_validator(mode="after")
    def _belongs_to_legs(self) -> Self:
        for name in ("leg_exchanges", "solutions"):
            value = getattr(self, name)
            if self.legs == 0 and value != type(self).model_fields[name].default:
                raise ValueError(f"{name} = {value} needs legs: 1 or more")
        return self


RADIUS = 1
"""Hops of a neighbourhood where the config says nothing."""


class NeuralBpSpec(_Strict):
    """Belief propagation with learned weights.

    memory: a learned share of each fault's last posterior is carried into the next iteration.
    prior_mix: learn how far the posterior replaces the prior in what the backend is given.
    radius: with weight_sharing `neighbourhood`: links share a weight, and faults a memory and a mixture, if they look alike within so
        many hops of the Tanner graph; by default one.
    turbo: on both halves of a CSS code.
    """

    iterations: int = Field(default=8, ge=1, le=1_000_000)
    weight_sharing: Literal["none", "per_layer", "per_check", "neighbourhood"] = "per_layer"
    damping: Literal["fixed", "learnable_scalar", "learnable_per_iter"] = "learnable_scalar"
    attention_aug: bool = False
    attention_heads: int = Field(default=1, ge=1, le=1_000)
    # additions
    memory: Literal["none", "learnable"] = "none"
    check_rule: Literal["sum_product", "min_sum"] = "sum_product"
    prior_mix: bool = False
    turbo: TurboSpec | None = None
    radius: int | None = Field(default=None, ge=1, le=1_000)

    @model_validator(mode="after")
    def _radius_of_a_neighbourhood(self) -> Self:
        if self.weight_sharing == "neighbourhood":
            self.radius = RADIUS if self.radius is None else self.radius
        elif self.radius is not None:
            raise ValueError(f"radius = {self.radius} needs weight_sharing: neighbourhood")
        return self

    @model_validator(mode="after")
    def _turbo_is_plain(self) -> Self:
        if self.turbo is not None and (self.attention_aug or self.memory != "none"):
            raise ValueError(
                "turbo goes with neither attention_aug nor memory: remove them (legs have their own memory)"
            )
        return self

    @model_validator(mode="after")
    def _heads_need_attention(self) -> Self:
        if self.attention_heads != 1 and not self.attention_aug:
            raise ValueError(f"attention_heads = {self.attention_heads} needs attention_aug: true")
        return self


class HardFlipSpec(_Strict):
    """confidence: a fault is applied when its probability exceeds this."""

    confidence: float = Field(default=0.9, gt=0.0, lt=1.0)


class TrainingSpec(_Strict):
    """`epochs: 0` evaluates the untrained model: plain belief propagation is a strong start.

    init_from: SHA-256 of the checkpoint.pt to start from; `run-round --init-from ROUND_DIR` fills it in.
    """

    learning_rate: float = Field(default=1e-3, gt=0.0)
    batch_size: int = Field(default=512, ge=1, le=10**9)
    epochs: int = Field(default=3, ge=0, le=10**9)
    loss: Loss = "bce"
    profile: Literal["dev", "prod"] = "dev"
    # addition
    init_from: str | None = Field(default=None, pattern="^[0-9a-f]{64}$")


class _Blocks(_Strict):
    """`hybrid` is a neural_bp whose edge log-odds feed a small gnn residual; it needs both blocks."""

    type: str
    gnn: GnnSpec | None = None
    neural_bp: NeuralBpSpec | None = None
    head: Head | CustomFunction = "linear"

    @model_validator(mode="after")
    def _blocks_belong_to_the_type(self) -> Self:
        for block in ("gnn", "neural_bp"):
            needed = self.type in (block, "hybrid")
            present = getattr(self, block) is not None
            if needed and not present:
                raise ValueError(
                    f"type {self.type!r} needs the {block} block: add it, {block}: {{}} takes defaults"
                )
            if present and not needed:
                other = "put it into a stage" if self.type == "cascade" else "use type 'hybrid'"
                raise ValueError(f"type {self.type!r} has no {block} block: remove it, or {other}")
        return self


class StageSpec(_Blocks):
    """One predecoder of a cascade.

    share: of all shots at the reference p that should reach this stage; not for the first one, which all shots reach.
    order: of ordered statistics behind this stage; by default that of the whole decoder.
    members: matchings behind this stage, each with its own small change of the weights, which decide together; one by default.
    takes: in front of ordered statistics, the shots that reach this stage: those that the stage before leaves unexplained, or, with
        `unsure`, after them those with the smallest margins, too.
    states: of type `sweep`, which is the last stage and not a network: a sweep over the detectors with the environment's priors, which keeps
        so many of the likeliest patterns (`decoders.pruned_sweep`).
    legs: of type `joint_legs`, which is the last stage and not a network either: up to so many further attempts of propagation on both
        halves of the syndrome, with ordered statistics on both behind each (`decoders.joint_legs`).
    epochs: of this stage's training; by default those of `training`.
    """

    type: StageType
    share: float | None = Field(default=None, gt=0.0, le=1.0)
    order: int | None = Field(default=None, ge=0, le=MOST_ORDER)
    members: int | None = Field(default=None, ge=2, le=MOST_MEMBERS)
    takes: Takes | None = None
    states: int | None = Field(default=None, ge=1, le=MOST_STATES)
    legs: int | None = Field(default=None, ge=1, le=MOST_LEGS)
    epochs: int | None = Field(default=None, ge=0, le=10**9)

    @model_validator(mode="after")
    def _numbers_belong_to_a_classical_stage(self) -> Self:
        for kind, (number, what) in CLASSICAL.items():
            given = getattr(self, number) is not None
            if given and self.type != kind:
                raise ValueError(
                    f"{number} belongs to a stage of type {kind!r}: remove it under {self.type!r}"
                )
            if not given and self.type == kind:
                raise ValueError(f"a stage of type {kind!r} needs {number}: {what}")
        if self.type in CLASSICAL:
            for name, without in (("order", None), ("members", None), ("head", "linear"), ("epochs", None)):
                if getattr(self, name) not in (without, 0):
                    raise ValueError(f"a stage of type {self.type!r} has no {name}: remove it")
        return self


class PredecoderDSL(_Blocks):
    """A predecoder, or, with type `cascade`, several in sequence: a shot whose class a stage leaves open goes on to the next.

    mean_flops: what a shot of a cascade may cost in the mean at the reference p, in place of a `share` for every later stage.
    """

    type: PredecoderType
    output_mode: OutputMode
    hard_flip: HardFlipSpec | None = None
    training: TrainingSpec = Field(default_factory=TrainingSpec)
    # additions
    stages: list[StageSpec] | None = Field(default=None, min_length=2, max_length=16)
    mean_flops: int | None = Field(default=None, ge=1, le=10**18)

    @model_validator(mode="after")
    def _flips_belong_to_the_mode(self) -> Self:
        if self.hard_flip is not None and self.output_mode != "hard_flip":
            raise ValueError("hard_flip belongs to output_mode 'hard_flip': remove it under 'soft_priors'")
        return self

    @model_validator(mode="after")
    def _stages_belong_to_a_cascade(self) -> Self:
        if self.type != "cascade":
            for name in ("stages", "mean_flops"):
                if getattr(self, name) is not None:
                    raise ValueError(f"{name} belongs to type 'cascade': remove it under {self.type!r}")
            return self
        if self.stages is None:
            raise ValueError("type 'cascade' needs stages: a list of two or more predecoders")
        if self.output_mode != "soft_priors":
            raise ValueError("type 'cascade' needs output_mode 'soft_priors': its gates look at weights")
        if self.head != "linear":
            raise ValueError("head belongs to a stage of the cascade: move it there")
        for stage in self.stages[:-1]:
            if stage.type in CLASSICAL:
                raise ValueError(f"a stage of type {stage.type!r} is the last one: move it to the end")
        later = [stage.share for stage in self.stages[1:] if stage.share is not None]
        if self.stages[0].share is not None:
            raise ValueError("the first stage has no share: all shots reach it")
        if self.stages[0].takes is not None:
            raise ValueError("the first stage has no takes: all shots reach it")
        if self.mean_flops is not None and later:
            raise ValueError("mean_flops and share say the same thing: keep one of them")
        if self.mean_flops is None and len(later) < len(self.stages) - 1:
            raise ValueError("say how many shots go on: mean_flops, or a share for every stage but the first")
        if sorted(later, reverse=True) != later:
            raise ValueError(f"shares {later} must not rise: a shot reaches a stage by way of those before")
        if any(part.custom_functions for part in self.parts):
            raise ValueError("stages of a cascade are made of named parts: code of your own is not for them")
        return self

    @property
    def parts(self) -> tuple[PredecoderDSL, ...]:
        """Every stage as a config of its own; the config itself where it is not a cascade. That of a classical stage has its type, and nothing to train."""
        if self.stages is None:
            return (self,)
        return tuple(self._part(stage) for stage in self.stages)

    def _part(self, stage: StageSpec) -> PredecoderDSL:
        epochs = self.training.epochs if stage.epochs is None else stage.epochs
        if stage.type in CLASSICAL:
            nothing = self.training.model_copy(update={"epochs": 0})
            return PredecoderDSL.model_construct(
                type=stage.type, output_mode=self.output_mode, training=nothing
            )
        training = self.training.model_copy(update={"epochs": epochs})
        blocks = {name: getattr(stage, name) for name in ("type", "gnn", "neural_bp", "head")}
        return PredecoderDSL(output_mode=self.output_mode, training=training, **blocks)

    @property
    def confidence(self) -> float:
        """The threshold of `hard_flip`, whether or not its block is written out."""
        return (self.hard_flip or HardFlipSpec()).confidence

    @property
    def custom_functions(self) -> dict[str, CustomFunction]:
        """The tier-2 functions by field path, e.g. `gnn.message_fn`."""
        slots: dict[str, object] = {"head": self.head}
        if self.gnn is not None:
            slots |= {"gnn.message_fn": self.gnn.message_fn, "gnn.aggregation": self.gnn.aggregation}
        return {path: slot for path, slot in slots.items() if isinstance(slot, CustomFunction)}

    @property
    def tier(self) -> Literal["1", "2"]:
        return "2" if self.custom_functions else "1"


def canonical_dict(dsl: PredecoderDSL) -> dict[str, Any]:
    """Every option written out, defaults included, blocks that do not apply left out."""
    out = dsl.model_dump(mode="json", exclude_none=True)
    if dsl.output_mode == "hard_flip":
        out["hard_flip"] = {"confidence": dsl.confidence}
    return out


def canonical_hash(dsl: PredecoderDSL) -> str:
    """SHA-256 (hex) of the canonical dump: the key by which repeated configs are found.

    An option that came later is left out at what it was before, so that earlier rounds keep their hash.
    """
    config = canonical_dict(dsl)
    for part in (config, *config.get("stages", ())):
        if part.get("gnn", {}).get("neighbours") == "edges":
            del part["gnn"]["neighbours"]
    return sha256_json(config)
