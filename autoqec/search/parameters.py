"""The parameters of the search space: every tier-1 option of an environment, with its domain and where it applies."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, get_args

from autoqec.decoders.dsl_schema import Aggregation, EdgeFeature, MarginalLoss, MessageFn, Normalization
from autoqec.runner.safety import MOST_NUMBERS
from autoqec.search.proposal import EnvFacts

Flat = dict[str, Any]

RUNGS = (1, 3, 9)
"""Epochs of a trained round, from the first look to the full training: a third of the shots of the next."""

FEATURES = "gnn.edge_features"
_TURBO = "neural_bp.turbo"


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


def _few(env: EnvFacts) -> Callable[[Flat], bool]:
    """Whether a model has few enough numbers to be searched by failures: not with several for every fault of a large code."""
    small = 3 * env.problem.n_faults < MOST_NUMBERS / 2

    def is_few(flat: Flat) -> bool:
        per_fault = flat.get("neural_bp.memory", "none") != "none" or flat.get("neural_bp.prior_mix", False)
        per_layer = flat["type"] == "neural_bp" and flat.get("neural_bp.weight_sharing") == "per_layer"
        return per_layer and (small or not per_fault)

    return is_few


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


def parameters_of(env: EnvFacts) -> list[Parameter]:
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
    if env.problem.graph is not None:
        options("gnn.neighbours", "edges", "faults", when=_gnn)
    first, *others = get_args(EdgeFeature)
    for feature in others:
        options(f"{FEATURES}.{feature}", True, False, when=_gnn)
    # Without any of the others it is there anyway: a network needs one.
    options(
        f"{FEATURES}.{first}",
        True,
        False,
        when=lambda flat: any(flat.get(f"{FEATURES}.{feature}") for feature in others),
    )
    options("head", "linear", "mlp_small", when=lambda flat: _gnn(flat) or learned(flat))
    soft, searched = _soft_losses(env), _few(env) if env.backend == "osd" else _never
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
