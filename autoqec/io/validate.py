"""Plain data -> pydantic models, with one error that names file, field, value and expectation.

Types are as strict as in JSON: a string is not a number, `true` is not 1; a list serves as a tuple and an
integer as a float.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar, get_args

from pydantic import BaseModel, ValidationError

from autoqec.errors import InputError
from autoqec.io.closest import did_you_mean
from autoqec.io.strict_yaml import join, plain, read_yaml, show_path

M = TypeVar("M", bound=BaseModel)
Keys = tuple[int | str, ...]
MAX_LISTED = 20

_EXPECTED = {
    "bool_type": "true or false",
    "bool_parsing": "true or false",
    "dict_type": "a mapping",
    "float_parsing": "a number",
    "float_type": "a number",
    "int_from_float": "an integer",
    "int_parsing": "an integer",
    "int_type": "an integer",
    "list_type": "a list",
    "model_type": "a mapping",
    "model_attributes_type": "a mapping",
    "none_required": "null",
    "string_type": "a string",
    "tuple_type": "a list",
}
_BOUNDS = {"greater_than": ">", "greater_than_equal": ">=", "less_than": "<", "less_than_equal": "<="}


def load_model(path: str | Path, model: type[M]) -> M:
    """The model in a hand-written YAML or JSON file."""
    data = read_yaml(path)
    where = show_path(path)
    if not isinstance(data, dict):
        raise InputError(
            f"holds {_show(data)}: expected a mapping (key: value lines) for {model.__name__}",
            where=where,
            hint=f"required keys: {', '.join(_required(model))}" if _required(model) else None,
        )
    return validate_model(data, model, where=where)


def validate_model(data: object, model: type[M], *, where: str) -> M:
    """The model in plain data; `where` names the data in errors, which add the field path."""
    tidy = plain(data, where=where)
    try:
        return model.model_validate_json(json.dumps(tidy, allow_nan=False), strict=True)
    except ValidationError as error:
        raise input_error(error, tidy, model, where=where) from None


def input_error(error: ValidationError, data: object, model: type[BaseModel], *, where: str) -> InputError:
    """All problems of a ValidationError as one InputError; `data` is what was validated."""
    groups = _grouped(error, data)
    first, *rest = (_describe(keys, details, model) for keys, details in groups[:MAX_LISTED])
    place = f"{where}: {first.path}" if first.path else where
    if not rest:
        return InputError(first.text, where=place, hint=first.hint)
    lines = [first.with_hint, *(f"{problem.path or model.__name__}: {problem.with_hint}" for problem in rest)]
    if len(groups) > MAX_LISTED:
        lines.append(f"and {len(groups) - MAX_LISTED} more")
    return InputError("\n  ".join(lines), where=place)


@dataclass(frozen=True)
class _Problem:
    path: str
    text: str
    hint: str | None = None

    @property
    def with_hint(self) -> str:
        return f"{self.text} ({self.hint})" if self.hint else self.text


@dataclass(frozen=True)
class _Located:
    """One pydantic error; `keys` is its place in the data, without the tags that pydantic adds for unions."""

    keys: Keys
    in_union: bool
    detail: dict[str, Any]


def _grouped(error: ValidationError, data: object) -> list[tuple[Keys, list[dict[str, Any]]]]:
    """The errors of each place in the data, the likeliest cause first."""
    located = [_locate(dict(detail), data) for detail in error.errors(include_url=False)]
    above = {item.keys[:depth] for item in located for depth in range(len(item.keys))}
    groups: dict[Keys, list[dict[str, Any]]] = {}
    for item in located:
        # of the branches of a union, the one that got further says what is wrong
        if not (item.in_union and item.keys in above):
            groups.setdefault(item.keys, []).append(item.detail)
    # a misspelt key also leaves its right spelling missing: the cause goes first
    return sorted(groups.items(), key=lambda group: group[1][0]["type"] != "extra_forbidden")


def _locate(detail: dict[str, Any], data: object) -> _Located:
    keys: list[int | str] = []
    skipped = False
    *inner, last = detail["loc"] or (None,)
    for piece in inner:
        try:
            data = data[piece]  # type: ignore[index]
            keys.append(piece)
        except (KeyError, IndexError, TypeError):
            skipped = True
    if last is not None:
        missing = detail["type"] == "missing"
        if missing and isinstance(last, int):  # too short a list for a tuple: the list is to blame
            return _Located(tuple(keys), skipped, {**detail, "type": "too_few", "input": data})
        if (
            missing
            or (isinstance(data, dict) and last in data)
            or (isinstance(data, list) and isinstance(last, int))
        ):
            keys.append(last)
        else:
            skipped = True
    return _Located(tuple(keys), skipped, detail)


def _describe(keys: Keys, details: list[dict[str, Any]], model: type[BaseModel]) -> _Problem:
    path = ""
    for key in keys:
        path = f"{path}[{key}]" if isinstance(key, int) else join(path, key)
    detail = details[-1]
    kind, value = detail["type"], detail["input"]
    if kind == "missing":
        return _Problem(path, "required key is missing")
    if kind == "extra_forbidden":
        known = _fields_at(model, keys[:-1])
        return _Problem(
            path, "unknown key", did_you_mean(str(keys[-1]), known) or f"known keys: {', '.join(known)}"
        )
    if kind == "too_few":
        return _Problem(path, f"expected at least {detail['loc'][-1] + 1} items, got {_show(value)}")
    if kind in ("value_error", "assertion_error"):
        return _Problem(
            path, str(detail["msg"]).removeprefix("Value error, ").removeprefix("Assertion failed, ")
        )
    wanted = list(dict.fromkeys(_expectation(item) for item in details))
    hint = next((found for item in details if (found := _hint(item))), None)
    return _Problem(path, f"expected {' or '.join(wanted)}, got {_show(value)}", hint)


def _expectation(detail: dict[str, Any]) -> str:
    kind, context = str(detail["type"]), detail.get("ctx", {})
    if kind in _EXPECTED:
        return _EXPECTED[kind]
    if kind in _BOUNDS:
        return f"a number {_BOUNDS[kind]} {next(iter(context.values()))}"
    if kind == "literal_error":
        return (
            str(context["expected"]) if " or " not in context["expected"] else f"one of {context['expected']}"
        )
    if kind == "string_too_short":
        return "a string that is not empty"
    if kind == "string_too_long":
        return f"at most {context['max_length']} characters"
    if kind == "too_long":
        return f"at most {context['max_length']} items"
    return str(detail["msg"])


def _hint(detail: dict[str, Any]) -> str | None:
    kind, value = detail["type"], detail["input"]
    wanted = _EXPECTED.get(kind)
    if kind == "literal_error" and isinstance(value, str):
        return did_you_mean(value, re.findall(r"'([^']*)'", detail["ctx"]["expected"]))
    if wanted == "a string" and isinstance(value, int | float):
        return "put it in quotes"
    if wanted == "an integer" and isinstance(value, float) and value.is_integer():
        return f"write {int(value)}" if abs(value) < 1e15 else "write it out in digits"
    if wanted in ("an integer", "a number") and isinstance(value, str):
        return _unquoted_number(value)
    if wanted == "true or false" and isinstance(value, str):
        return {"yes": "write true", "on": "write true", "no": "write false", "off": "write false"}.get(
            value.lower()
        )
    return None


def _unquoted_number(value: str) -> str | None:
    if len(value) > 40 or not re.fullmatch(r"[-+]?[0-9][0-9_]*(\.[0-9_]*)?([eE][-+]?[0-9]+)?", value):
        return None
    return f"write {value.replace('_', '')}" if "_" in value else "remove the quotes"


def _required(model: type[BaseModel]) -> list[str]:
    return [name for name, field in model.model_fields.items() if field.is_required()]


def _fields_at(model: type[BaseModel], keys: Keys) -> list[str]:
    """The keys that may stand in the mapping at `keys`."""
    models = [model]
    for key in keys:
        if isinstance(key, int):
            continue  # the models of a list's items were collected with the list
        fields = [found.model_fields[key].annotation for found in models if key in found.model_fields]
        models = [inner for annotation in fields for inner in _models_in(annotation)]
    return [name for found in models for name in found.model_fields]


def _models_in(annotation: Any) -> list[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [model for argument in get_args(annotation) for model in _models_in(argument)]


def _show(value: object) -> str:
    """The value as a reader of the file knows it, shortened."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, str):
        return ascii(value) if len(value) <= 60 else f"{value[:57]!a}..."
    if isinstance(value, dict):
        text, kind = json.dumps(value), "the mapping"
    elif isinstance(value, list):
        text, kind = json.dumps(value), "the list"
    else:
        return repr(value)
    return f"{kind} {text}" if len(text) <= 60 else f"{kind} {text[:57]}..."
