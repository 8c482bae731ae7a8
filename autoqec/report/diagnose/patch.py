"""Suggested configs: changed by field path, checked against the DSL, shown as a diff of YAML."""

from __future__ import annotations

import copy
import difflib
from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from autoqec.agents.fences import clean
from autoqec.decoders.dsl_schema import PredecoderDSL, canonical_dict
from autoqec.errors import InputError
from autoqec.io.strict_yaml import dump_yaml
from autoqec.report.diagnose.finding import Change, Patch
from autoqec.report.reading import quote

Config = Mapping[str, Any]
REMOVED = object()
_TRIES = 32


def get(config: Config, path: str) -> Any:
    """The value at a path such as `training.batch_size`; None where there is none."""
    value: Any = config
    for key in path.split("."):
        value = value.get(key) if isinstance(value, Mapping) else None
    return value


def options(dsl: PredecoderDSL) -> dict[str, Any]:
    """Every option with its default written out: what paths are looked up in."""
    return canonical_dict(dsl)


def patch(config: Config, wanted: Mapping[str, Any]) -> Patch | None:
    """The config with other values at some paths; None if that is not a valid config or changes nothing."""
    changed = copy.deepcopy(dict(config))
    for path, value in wanted.items():
        _put(changed, path, value)
    return _checked(config, changed, list(wanted))


def repaired(config: Config) -> Patch | None:
    """The nearest valid config to an invalid one: unknown keys go, values that cannot be go back to their defaults, blocks
    that the type needs are added and others removed. None where that does not lead to a valid one."""
    changed = copy.deepcopy(dict(config))
    touched: list[str] = []
    for _ in range(_TRIES):
        try:
            PredecoderDSL.model_validate(changed)
        except ValidationError as error:
            # one at a time: fixing one may settle the others, such as those of the other members of a union
            places = [detail["loc"] for detail in error.errors(include_url=False)]
            path = next((path for place in places if (path := _hint(changed, place)) is not None), None)
            if path is None:
                return None
            touched += [path] if path not in touched else []
        else:
            return _checked(config, changed, touched)
    return None


def _hint(config: dict[str, Any], place: tuple[int | str, ...]) -> str | None:
    """Removes the deepest thing that a validation error is about; returns its path."""
    if place in ((), ("neural_bp",)) and (path := _at_odds(config)) is not None:
        return path
    holder: Any = config
    found: list[tuple[dict[str, Any], str]] = []
    for key in place:  # pydantic adds the names of union members, which are not keys
        if not isinstance(holder, dict) or key not in holder:
            break
        found.append((holder, str(key)))
        holder = holder[key]
    if not found:
        return None
    inside, last = found[-1]
    del inside[last]
    return ".".join(key for _, key in found)


def _at_odds(config: dict[str, Any]) -> str | None:
    """Fixes one option that contradicts another; returns its path."""
    kind, bp = config.get("type"), config.get("neural_bp")
    for block in ("gnn", "neural_bp"):
        needed = kind in (block, "hybrid")
        if needed and config.get(block) is None:
            config[block] = {}
            return block
        if kind in ("gnn", "neural_bp") and not needed and config.get(block) is not None:
            del config[block]
            return block
    if config.get("hard_flip") is not None and config.get("output_mode") == "soft_priors":
        del config["hard_flip"]
        return "hard_flip"
    if isinstance(bp, dict) and not bp.get("attention_aug") and "attention_heads" in bp:
        del bp["attention_heads"]
        return "neural_bp.attention_heads"
    return None


def _put(config: dict[str, Any], path: str, value: Any) -> None:
    *outer, last = path.split(".")
    for key in outer:
        if not isinstance(config.get(key), dict):
            config[key] = {}
        config = config[key]
    if value is REMOVED:
        config.pop(last, None)
    else:
        config[last] = value


def _checked(before: Config, after: dict[str, Any], paths: list[str]) -> Patch | None:
    try:
        dsl = PredecoderDSL.model_validate(after)
    except ValidationError:
        return None
    was, now = _written_out(before), options(dsl)
    pairs = [(path, get(was, path), get(now, path)) for path in paths]
    if not pairs or any(old == new for _, old, new in pairs):
        return None
    changes = tuple(Change(path, _shown(old), _shown(new)) for path, old, new in pairs)
    return Patch(changes, after, _diff(before, after))


def _shown(value: Any) -> Any:
    """Custom code and other long values as one short line."""
    return value if value is None or isinstance(value, bool | int | float) else quote(value, 120)


def _written_out(config: Config) -> Config:
    try:
        return options(PredecoderDSL.model_validate(dict(config)))
    except ValidationError:
        return config


def _diff(before: Config, after: Config) -> str:
    try:
        old = dump_yaml(before).splitlines()
    except InputError:  # the round's config cannot even be written as YAML
        old = []
    new = dump_yaml(after).splitlines()
    found = difflib.unified_diff(old, new, "config.yaml", "patched.yaml", lineterm="", n=2)
    return "\n".join(clean(line) for line in found)
