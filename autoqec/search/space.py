"""The tier-1 DSL as a search space: parameters that apply or not, depending on those before them.

A parameter's domain is a set of options or a grid of numbers on a log scale. A point is a flat dict from parameter names to
values, with exactly the parameters that apply. Everything is one walk over the parameters in order, with another way to
choose at each: at random, from a config, from two parents, or by a sampler's suggestion. Every point is a valid PredecoderDSL.

An untrained `neural_bp` (`trained: False`, that is `epochs: 0`) is a small space of its own: learned weights, dampings,
memories, heads and mixtures all start where they have no effect, so that only iterations, check rule and output mode count.

Where an environment shows a predecoder both halves of the syndrome, `turbo` says whether they are used.

A checkpoint to start from (`training.init_from`) is none of the parameters: which ones there are depends on the rounds so far, and
points begin at the default.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, get_args

import numpy as np

from autoqec.decoders.dsl_schema import (
    Aggregation,
    EdgeFeature,
    MarginalLoss,
    MessageFn,
    Normalization,
    PredecoderDSL,
    canonical_dict,
)
from autoqec.search.proposal import EnvFacts

Flat = dict[str, Any]
Rng = np.random.Generator

RUNGS = (1, 3, 9)
"""Epochs of a trained round, from the first look to the full training: a third of the shots of the next."""

_FEATURES = "gnn.edge_features"
_TURBO = "neural_bp.turbo"
_BLOCKS = ("trained", "turbo")
"""Parameters that decide which others apply, and are no option of their own."""

_UNTRAINED = {"weight_sharing": "per_layer", "damping": "fixed"}
_UNTRAINED_LOSS = "bce"  # not used, but an option must stand there


@dataclass(frozen=True)
class Options:
    """Values without an order."""

    values: tuple[Any, ...]

    def nearest(self, value: Any) -> Any:
        """The value itself, or None where it is not an option."""
        return value if not isinstance(value, dict) and value in self.values else None

    def beside(self, value: Any) -> tuple[Any, ...]:
        return tuple(other for other in self.values if other != value)


@dataclass(frozen=True)
class Grid:
    """Rising positive numbers, about evenly spaced on a log scale."""

    values: tuple[Any, ...]

    def nearest(self, value: Any) -> Any:
        if isinstance(value, bool) or not isinstance(value, int | float) or value <= 0:
            return None
        return min(self.values, key=lambda other: abs(math.log(other / value)))

    def beside(self, value: Any) -> tuple[Any, ...]:
        at = self.values.index(value)
        return self.values[max(at - 1, 0) : at] + self.values[at + 1 : at + 2]


@dataclass(frozen=True)
class Parameter:
    """path: the field of the DSL that it sets. default: its value when a change elsewhere makes it apply."""

    name: str
    domain: Options | Grid
    default: Any
    path: str
    applies: Callable[[Flat], bool]


Choose = Callable[[Parameter], Any]


def _always(_: Flat) -> bool:
    return True


def _never(_: Flat) -> bool:
    return False


def _bp(flat: Flat) -> bool:
    return bool(flat["type"] != "gnn")


def _turbo(flat: Flat) -> bool:
    return bool(flat.get("turbo", False))


def _legs(flat: Flat) -> bool:
    return bool(flat.get(f"{_TURBO}.legs", 0))


def _neighbourhood(flat: Flat) -> bool:
    return bool(flat.get("neural_bp.weight_sharing") == "neighbourhood")


def _trained(flat: Flat) -> bool:
    return bool(flat.get("trained", True))


def _gnn(flat: Flat) -> bool:
    return bool(flat["type"] != "neural_bp")


def _few(flat: Flat) -> bool:
    """Whether the model has few enough numbers to be searched by failures."""
    return bool(flat["type"] == "neural_bp" and flat.get("neural_bp.weight_sharing") == "per_layer")


def _hard(flat: Flat) -> bool:
    return bool(flat["output_mode"] == "hard_flip")


@dataclass(frozen=True)
class _Ranges:
    iterations: tuple[int, ...]
    layers: tuple[int, ...]
    hidden_dim: tuple[int, ...]
    batch_size: tuple[int, ...]
    heads: tuple[int, ...]


_RANGES = {
    # What two CPU cores train in minutes.
    "dev": _Ranges(
        (1, 2, 3, 4, 6, 8, 12, 16), (1, 2, 3, 4), (4, 6, 8, 12, 16, 24, 32), (128, 256, 512, 1024), (1, 2)
    ),
    "prod": _Ranges(
        (1, 2, 3, 4, 6, 8, 12, 16, 24, 32),
        (1, 2, 3, 4, 6, 8),
        (8, 12, 16, 24, 32, 48, 64),
        (512, 1024, 2048, 4096),
        (1, 2, 4),
    ),
}

_MARGINAL_LOSSES = get_args(MarginalLoss)


def _soft_losses(env: EnvFacts) -> tuple[str, ...]:
    """Losses for soft priors, the one to start with first.

    Matching: marginals count the syndrome twice, and training on them makes matching worse than no training; `backend_gap`
    does not, and needs a graph with one observable. Ordered statistics want a good ordering, which marginals give; few numbers
    are searched by failures (`_few`).
    """
    if env.backend == "osd":
        return (*_MARGINAL_LOSSES, "backend_gap")
    one_class = env.problem.graph is not None and env.problem.n_observables == 1
    return ("backend_gap",) if one_class else _MARGINAL_LOSSES


def _parameters(env: EnvFacts) -> list[Parameter]:
    sizes = _RANGES[env.profile]
    found: list[Parameter] = []

    def add(
        path: str, domain: Options | Grid, default: Any, applies: Callable[[Flat], bool], name: str = ""
    ) -> None:
        found.append(Parameter(name or path, domain, default, path, applies))

    def options(path: str, *values: Any, when: Callable[[Flat], bool], name: str = "") -> None:
        add(path, Options(values), values[0], when, name)

    def grid(path: str, values: tuple[Any, ...], default: Any, when: Callable[[Flat], bool]) -> None:
        add(path, Grid(values), default, when)

    def learned(flat: Flat) -> bool:
        return _bp(flat) and _trained(flat)

    def one_half(flat: Flat) -> bool:
        return learned(flat) and not _turbo(flat)

    options("type", "neural_bp", "hybrid", "gnn", when=_always)
    options("output_mode", "soft_priors", "hard_flip", when=_always)
    options("trained", True, False, when=lambda flat: flat["type"] == "neural_bp")
    grid("hard_flip.confidence", (0.5, 0.7, 0.8, 0.9, 0.95, 0.98, 0.99), 0.9, _hard)
    if env.problem.joint is not None:
        options("turbo", True, False, when=_bp)
    grid("neural_bp.iterations", sizes.iterations, 4 if env.problem.joint is not None else 8, _bp)
    grid(f"{_TURBO}.exchanges", (2, 3, 4, 6, 8, 12), 8, _turbo)
    grid(f"{_TURBO}.context_iterations", (1, 2, 3, 4, 6), 2, _turbo)
    options(f"{_TURBO}.legs", 16, 0, 4, 8, when=_turbo)
    grid(f"{_TURBO}.leg_exchanges", (6, 9, 13, 20), 13, _legs)
    grid(f"{_TURBO}.solutions", (1, 2, 3, 4, 6), 3, _legs)
    options("neural_bp.check_rule", "sum_product", "min_sum", when=_bp)
    options("neural_bp.weight_sharing", "per_check", "per_layer", "none", "neighbourhood", when=learned)
    grid("neural_bp.radius", (1, 2, 3), 1, _neighbourhood)
    options("neural_bp.damping", "learnable_per_iter", "learnable_scalar", "fixed", when=learned)
    memory = ("learnable", "none") if env.backend == "osd" else ("none", "learnable")
    options("neural_bp.memory", *memory, when=one_half)
    options("neural_bp.prior_mix", True, False, when=learned)
    options("neural_bp.attention_aug", False, True, when=one_half)
    grid("neural_bp.attention_heads", sizes.heads, 1, lambda flat: bool(flat.get("neural_bp.attention_aug")))
    grid("gnn.layers", sizes.layers, 2, _gnn)
    grid("gnn.hidden_dim", sizes.hidden_dim, 16, _gnn)
    options("gnn.message_fn", *get_args(MessageFn), when=_gnn)
    options("gnn.aggregation", *get_args(Aggregation), when=_gnn)
    options("gnn.normalization", "layer", *(n for n in get_args(Normalization) if n != "layer"), when=_gnn)
    options("gnn.residual", True, False, when=_gnn)
    first, *others = get_args(EdgeFeature)
    for feature in others:
        options(f"{_FEATURES}.{feature}", True, False, when=_gnn)
    # Without any of the others it is there anyway: a network needs one.
    options(
        f"{_FEATURES}.{first}",
        True,
        False,
        when=lambda flat: any(flat.get(f"{_FEATURES}.{feature}") for feature in others),
    )
    options("head", "linear", "mlp_small", when=lambda flat: _gnn(flat) or learned(flat))
    soft, searched = _soft_losses(env), _few if env.backend == "osd" else _never
    options(
        "training.loss",
        "failures",
        *soft,
        when=lambda flat: _trained(flat) and not _hard(flat) and searched(flat),
        name="loss_few",
    )
    options(
        "training.loss",
        *soft,
        when=lambda flat: _trained(flat) and not _hard(flat) and not searched(flat),
        name="loss_soft",
    )
    options(
        "training.loss",
        *_MARGINAL_LOSSES,
        when=lambda flat: _trained(flat) and _hard(flat),
        name="loss_hard",
    )
    rates = (3e-4, 5e-4, 1e-3, 2e-3, 3e-3, 5e-3, 1e-2, 2e-2)
    grid("training.learning_rate", rates, 3e-3, _trained)
    grid("training.batch_size", sizes.batch_size, 512, _trained)
    grid("training.epochs", RUNGS, RUNGS[0], _trained)
    return found


class Space:
    """The tier-1 configs that are worth a round in an environment."""

    def __init__(self, env: EnvFacts) -> None:
        self.profile = env.profile
        self.parameters = tuple(_parameters(env))

    def walk(self, choose: Choose) -> Flat:
        """A point: `choose` is asked for every parameter that applies, in order."""
        flat: Flat = {}
        for parameter in self.parameters:
            if parameter.applies(flat):
                flat[parameter.name] = choose(parameter)
        return flat

    def sample(self, rng: Rng) -> Flat:
        return self.walk(lambda parameter: _pick(parameter.domain.values, rng))

    def decode(self, flat: Mapping[str, Any]) -> PredecoderDSL:
        data: dict[str, Any] = {"training": {"profile": self.profile}}
        features = []
        for parameter in self.parameters:
            if parameter.name not in flat or parameter.name in _BLOCKS:
                continue
            value = flat[parameter.name]
            if parameter.path.startswith(f"{_FEATURES}."):
                features += [parameter.path.removeprefix(f"{_FEATURES}.")] if value else []
                continue
            *blocks, option = parameter.path.split(".")
            block = data
            for name in blocks:
                block = block.setdefault(name, {})
            block[option] = value
        if "gnn" in data:
            data["gnn"]["edge_features"] = features or [get_args(EdgeFeature)[0]]
        if not flat.get("trained", True):
            data["neural_bp"] |= _UNTRAINED
            data["training"] |= {"epochs": 0, "loss": _UNTRAINED_LOSS}
        return PredecoderDSL.model_validate(data)

    def encode(self, dsl: PredecoderDSL) -> Flat | None:
        """The point nearest to a config: numbers go to their grids. None where an option is not in the space."""
        config = canonical_dict(dsl)
        uses_both = dsl.neural_bp is not None and dsl.neural_bp.turbo is not None
        missing = uses_both and all(parameter.name != "turbo" for parameter in self.parameters)

        def choose(parameter: Parameter) -> Any:
            nonlocal missing
            value = parameter.domain.nearest(_read(config, parameter))
            missing = missing or value is None
            return parameter.default if value is None else value

        flat = self.walk(choose)
        return None if missing else flat

    def holds(self, dsl: PredecoderDSL) -> bool:
        """Whether the config itself is a point, up to how long it trains and options of no effect."""
        flat = self.encode(dsl)
        if flat is None or dsl.training.profile != self.profile or dsl.training.init_from is not None:
            return False
        config = canonical_dict(dsl)
        return all(
            flat[parameter.name] == _read(config, parameter)
            for parameter in self.parameters
            if parameter.name in flat and parameter.name != "training.epochs"
        )

    def neighbours(self, flat: Mapping[str, Any]) -> list[Flat]:
        """Every point one step away: another option, or the next number of a grid. Parameters that come to apply by it
        take their defaults."""
        return [
            self._changed(flat, {parameter.name: value})
            for parameter in self.parameters
            if parameter.name in flat
            for value in parameter.domain.beside(flat[parameter.name])
        ]

    def mutate(self, flat: Mapping[str, Any], rng: Rng, steps: int = 1) -> Flat:
        """So many steps, each of a parameter chosen at random."""
        point = dict(flat)
        for _ in range(steps):
            can_move = [p for p in self.parameters if p.name in point and p.domain.beside(point[p.name])]
            parameter = can_move[int(rng.integers(len(can_move)))]
            value = _pick(parameter.domain.beside(point[parameter.name]), rng)
            point = self._changed(point, {parameter.name: value})
        return point

    def crossover(self, first: Mapping[str, Any], second: Mapping[str, Any], rng: Rng) -> Flat:
        """Every parameter from one of two parents; one that neither has takes its default."""

        def choose(parameter: Parameter) -> Any:
            both = [parent[parameter.name] for parent in (first, second) if parameter.name in parent]
            return _pick(tuple(both), rng) if both else parameter.default

        return self.walk(choose)

    def _changed(self, flat: Mapping[str, Any], change: Flat) -> Flat:
        wanted = {**flat, **change}
        return self.walk(lambda parameter: wanted.get(parameter.name, parameter.default))


def _pick(values: tuple[Any, ...], rng: Rng) -> Any:
    return values[int(rng.integers(len(values)))]


def _read(config: Mapping[str, Any], parameter: Parameter) -> Any:
    """The parameter's value in a canonical config."""
    if parameter.name == "trained":
        return config["training"]["epochs"] > 0
    if parameter.name == "turbo":
        return "turbo" in config["neural_bp"]
    if parameter.path.startswith(f"{_FEATURES}."):
        return parameter.path.removeprefix(f"{_FEATURES}.") in config["gnn"]["edge_features"]
    value: Any = config
    for name in parameter.path.split("."):
        value = value[name]
    return value
