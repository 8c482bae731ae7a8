"""The tier-1 DSL as a search space: parameters that apply or not, depending on those before them.

A parameter's domain is a set of options or a grid of numbers on a log scale. A point is a flat dict from parameter names to
values, with exactly the parameters that apply. Everything is one walk over the parameters in order, with another way to
choose at each: at random, from a config, from two parents, or by a sampler's suggestion. Every point is a valid PredecoderDSL.

An untrained `neural_bp` (`trained: False`, that is `epochs: 0`) is a small space of its own: learned weights, dampings,
memories, heads and mixtures all start where they have no effect, so that only iterations, check rule and output mode count.

Where an environment shows a predecoder both halves of the syndrome, `turbo` says whether they are used.

A cascade is not a point of the space: it is stacked of two rounds (`stacking`). A checkpoint to start from (`training.init_from`) is none of the parameters: which ones there are depends on the rounds so far, and
points begin at the default.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, get_args

import numpy as np

from autoqec.decoders.dsl_schema import EdgeFeature, PredecoderDSL, canonical_dict
from autoqec.search.parameters import FEATURES, Flat, Parameter, parameters_of
from autoqec.search.proposal import EnvFacts

Rng = np.random.Generator
Choose = Callable[[Parameter], Any]

_BLOCKS = ("trained", "turbo")
"""Parameters that decide which others apply, and are not options of their own."""

_UNTRAINED = {"weight_sharing": "per_layer", "damping": "fixed"}
_UNTRAINED_LOSS = "bce"  # not used, but an option must stand there


class Space:
    """The tier-1 configs that are worth a round in an environment."""

    def __init__(self, env: EnvFacts) -> None:
        self.profile = env.profile
        self.parameters = tuple(parameters_of(env))

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
            if parameter.path.startswith(f"{FEATURES}."):
                features += [parameter.path.removeprefix(f"{FEATURES}.")] if value else []
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
        """The point nearest to a config: numbers go to their grids. None where an option is not in the space, and for a cascade."""
        if dsl.stages is not None:
            return None
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
    if parameter.path.startswith(f"{FEATURES}."):
        return parameter.path.removeprefix(f"{FEATURES}.") in config["gnn"]["edge_features"]
    value: Any = config
    for name in parameter.path.split("."):
        value = value[name]
    return value
