"""How far two configs are apart, and whether a proposal repeats an earlier round.

The distance is the mean difference over the options that count in either config, between 0 and 1. Names and flags differ by
0 or 1, sizes and rates by their ratio on a log scale (a factor of 16 is a full difference), a confidence by its odds, feature sets by the share that
is not common, custom functions by their syntax trees. Options that have no effect do not count: those of training where
nothing is trained, but for where it starts from, and the profile.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Iterable, Mapping
from typing import Any

from autoqec.decoders.dsl_schema import PredecoderDSL, canonical_dict, canonical_hash
from autoqec.search.proposal import Row

REPEAT_DISTANCE = 0.004
"""Configs nearer than this are one experiment: a learning rate changed by a tenth, nine iterations instead of eight."""

_FULL_FACTOR = 16.0
_NO_RESULT = ("compose_conflict", "orphaned_branch", "branch_manually_deleted")
"""Statuses of rows that say nothing about their config."""

Options = dict[str, Any]


def distance(first: PredecoderDSL, second: PredecoderDSL) -> float:
    """Between 0 and 1; 1 for different types."""
    if first.type != second.type:
        return 1.0
    a, b = counted(first), counted(second)
    names = a.keys() | b.keys()
    apart = [
        _difference(name, a[name], b[name]) if name in a and name in b else 1.0 for name in sorted(names)
    ]
    return sum(apart) / len(apart)


def find_repeat(config: Mapping[str, Any], rows: Iterable[Row]) -> str | None:
    """Why a config is not a new experiment; names the earlier round. None if it is new."""
    dsl = PredecoderDSL.model_validate(dict(config))
    wanted = canonical_hash(dsl)
    nearest: tuple[float, Any] | None = None
    for row in rows:
        earlier = config_of(row)
        if earlier is None or row.get("status") in _NO_RESULT:
            continue
        if canonical_hash(earlier) == wanted:
            return f"the same config as round {row.get('round')}"
        apart = distance(dsl, earlier)
        if nearest is None or apart < nearest[0]:
            nearest = (apart, row.get("round"))
    if nearest is not None and nearest[0] < REPEAT_DISTANCE:
        return (
            f"nearly the config of round {nearest[1]}: distance {nearest[0]:.2g}, "
            f"and a new one is at least {REPEAT_DISTANCE:g} away"
        )
    return None


def config_of(row: Row) -> PredecoderDSL | None:
    """The config of a history row; None where the round never had a valid one."""
    config = row.get("dsl_config")
    if not isinstance(config, Mapping):
        return None
    try:
        return PredecoderDSL.model_validate(dict(config))
    except ValueError:
        return None


def counted(dsl: PredecoderDSL) -> Options:
    """The options that have an effect, by path."""
    config = canonical_dict(dsl)
    training = config.pop("training")
    training.pop("profile")
    trained = training["epochs"] > 0
    options: Options = {"trained": trained}
    if trained:
        options |= {f"training.{name}": value for name, value in training.items()}
    if (start := dsl.training.init_from) is not None:
        options["training.init_from"] = start
    options |= _leaves(config)
    return options


def _leaves(block: Mapping[str, Any], above: str = "") -> Options:
    """The options of a block and of the blocks in it, by path; a custom function is one option."""
    found: Options = {}
    for name, value in block.items():
        if isinstance(value, dict) and value.get("type") != "custom":
            found |= _leaves(value, f"{above}{name}.")
        elif name == "stages":
            for number, stage in enumerate(value):
                found |= _leaves(stage, f"{above}{name}.{number}.")
        else:
            found[f"{above}{name}"] = value
    return found


def _difference(name: str, a: Any, b: Any) -> float:
    if isinstance(a, bool | str) or isinstance(b, bool | str):
        return float(a != b)
    if isinstance(a, dict):
        return float(_function(a) != _function(b))
    if isinstance(a, list):
        return 1 - len({*a} & {*b}) / len({*a} | {*b})
    if name == "hard_flip.confidence":
        a, b = a / (1 - a), b / (1 - b)
    if a == 0 or b == 0:  # none at all is no smaller number of something
        return float(a != b)
    return min(abs(math.log(a / b)) / math.log(_FULL_FACTOR), 1.0)


def _function(custom: dict[str, Any]) -> tuple[str, tuple[tuple[str, str], ...]]:
    """A custom function without its layout and comments."""
    try:
        tree = ast.dump(ast.parse(custom["code"]))
    except SyntaxError:
        tree = custom["code"]
    return tree, tuple(sorted(custom.get("params_declared", {}).items()))
