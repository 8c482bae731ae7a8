"""From what a model wrote to a validated response: found with tolerance, read strictly.

The wire schema is the one that vendors' strict modes accept: every property required, no others, no free objects. A free
object of a response (`dsl_config`, `dsl_hint`) travels as JSON in a string there; both forms are read.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, TypeVar

from pydantic import BaseModel

from autoqec.agents.failures import RoleFailure
from autoqec.errors import InputError
from autoqec.io.validate import validate_model

M = TypeVar("M", bound=BaseModel)

_AS_TEXT = "A JSON object, written as a string."
_LEFT_OUT = {"title", "default", "minLength", "minimum", "maximum"}
_DECLINES = re.compile(
    r"\s*(I['’]?m sorry|I am sorry|Sorry|I can(no|['’])t|I['’]?m (unable|not able)|I won['’]t|I must decline)"
)
_LONGEST = 200_000
_BRACES = 2_000
"""Opening braces that are tried: each that is none costs a pass over what follows."""


def wire_schema(model: type[BaseModel]) -> dict[str, Any]:
    schema = model.model_json_schema()
    return _strict(schema, schema.get("$defs", {}))


def _strict(node: dict[str, Any], definitions: dict[str, Any]) -> dict[str, Any]:
    if "$ref" in node:
        return _strict(definitions[node["$ref"].rpartition("/")[2]], definitions)
    out = {key: value for key, value in node.items() if key not in _LEFT_OUT | {"$defs", "description"}}
    if "anyOf" in out:
        out["anyOf"] = [_strict(option, definitions) for option in _distinct(out["anyOf"])]
    if "items" in out:
        out["items"] = _strict(out["items"], definitions)
    if out.get("type") == "object":
        properties = out.get("properties")
        if not properties:
            return {"type": "string", "description": _AS_TEXT}
        out["properties"] = {name: _strict(value, definitions) for name, value in properties.items()}
        out |= {"required": list(properties), "additionalProperties": False}
    return out


def _distinct(options: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """A constant beside a plain string says nothing more than the string."""
    plain = {option["type"] for option in options if set(option) == {"type"}}
    return [option for option in options if "const" not in option or option.get("type") not in plain]


def read_answer(text: str, model: type[M]) -> M:
    """The response in a model's text.

    Raises:
        RoleFailure: of kind "empty", "refusal", "not_json" or "schema".
    """
    if not text.strip():
        raise RoleFailure("empty", "the answer is empty")
    found = _find(text[:_LONGEST], set(model.model_fields))
    if found is None:
        if _DECLINES.match(text):
            raise RoleFailure("refusal", f"the model declines: {text.strip()[:300]!r}", reply=text)
        raise RoleFailure("not_json", "the answer holds no JSON object", reply=text)
    try:
        return validate_model(_with_objects(found, model), model, where=model.__name__)
    except InputError as error:
        raise RoleFailure("schema", str(error), reply=text) from error


def _find(text: str, fields: set[str]) -> dict[str, Any] | None:
    """The object with most of the fields; of two such, the later one: models correct themselves downwards."""
    best: dict[str, Any] | None = None
    for candidate in _objects(text):
        if best is None or len(fields & candidate.keys()) >= len(fields & best.keys()):
            best = candidate
    return best


def _objects(text: str) -> Iterator[dict[str, Any]]:
    """Every JSON object that is not inside another one."""
    decoder = json.JSONDecoder(object_pairs_hook=_no_duplicates, parse_constant=_no_constant)
    at = text.find("{")
    for _ in range(_BRACES):
        if at < 0:
            return
        end = at + 1
        try:
            value, end = decoder.raw_decode(text, at)
        except (ValueError, RecursionError):
            pass
        else:
            yield value
        at = text.find("{", end)


def _no_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    out = dict(pairs)
    if len(out) != len(pairs):
        raise ValueError("a key stands twice")
    return out


def _no_constant(text: str) -> None:
    raise ValueError(f"{text} is not JSON")


def _with_objects(data: dict[str, Any], model: type[BaseModel]) -> dict[str, Any]:
    """Strings that stand for free objects, read; one that cannot be read stays, for the validation to name."""
    free = {name for name, node in wire_schema(model)["properties"].items() if _is_free(node)}
    out = dict(data)
    for name in free & data.keys():
        if isinstance(data[name], str):
            objects = list(_objects(data[name]))
            out[name] = objects[0] if len(objects) == 1 else data[name]
    return out


def _is_free(node: dict[str, Any]) -> bool:
    return node.get("description") == _AS_TEXT or any(_is_free(option) for option in node.get("anyOf", []))
