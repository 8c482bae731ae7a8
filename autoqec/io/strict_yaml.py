"""YAML and JSON that people write: read strictly, written so that it reads back equal.

Plain scalars follow the YAML 1.2 core schema: `1e-3` is a float; `yes`, `on` and dates are strings; `010` is
ten. Anchors, aliases, tags, several documents, duplicate keys, keys that are not strings, numbers that are
not finite and integers beyond 64 bits are refused. All failures are `InputError`.
"""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NoReturn

import yaml
from pydantic import BaseModel

from autoqec.errors import InputError
from autoqec.io.untrusted_file import read_text

MAX_BYTES = 1 << 20
MAX_DEPTH = 64
MAX_NODES = 50_000
FLOW_COLUMNS = 80

_NULL = re.compile(r"(?:null|Null|NULL|~|)\Z")
_BOOL = re.compile(r"(?:true|True|TRUE|false|False|FALSE)\Z")
_INT = re.compile(r"(?:[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+)\Z")
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?\Z")
_NOT_FINITE = re.compile(r"[-+]?\.(?:inf|Inf|INF)\Z|\.(?:nan|NaN|NAN)\Z")


def read_yaml(path: str | Path) -> object:
    """The content of a YAML file, or of a JSON file if its name ends in `.json`, as plain Python values."""
    where = show_path(path)
    hint = "give the path of a YAML or JSON file of at most a megabyte"
    text = read_text(path, limit=MAX_BYTES, hint=hint, where=where, links=True)
    if os.fspath(path).lower().endswith(".json"):
        return parse_json(text, where=where)
    return parse_yaml(text, where=where)


def read_json(path: str | Path, *, limit: int, links: bool = False, nodes: int = MAX_NODES) -> object:
    """One JSON value of a file that a program wrote. nodes: values that it may hold."""
    where = show_path(path)
    return parse_json(read_text(path, limit=limit, where=where, links=links), where=where, nodes=nodes)


def show_path(path: str | Path) -> str:
    """The path as it can be printed anywhere."""
    text = os.fspath(path)
    return text if text.isprintable() else ascii(text)


def parse_yaml(text: str, *, where: str) -> object:
    """One YAML document. `where` names the text in errors, which add `:line:column`."""
    try:
        return _Builder(text, where).document()
    except yaml.reader.ReaderError as error:
        what = f"character {error.character!r} at offset {error.position} cannot stand in YAML"
        raise InputError(
            what, where=where, hint="write it as an escape in double quotes, or remove it"
        ) from None
    except yaml.MarkedYAMLError as error:
        parts = [part for part in (error.problem, error.context) if part]
        mark = error.problem_mark or error.context_mark
        raise InputError(f"not valid YAML: {', '.join(parts)}", where=_at(where, mark)) from None
    except (ValueError, OverflowError):  # PyYAML leaks these from escapes such as "\\U00110000"
        raise InputError("not valid YAML: an escape or a version is out of range", where=where) from None


def _at(where: str, mark: yaml.Mark | None) -> str:
    return where if mark is None else f"{where}:{mark.line + 1}:{mark.column + 1}"


class _Builder:
    """Plain values straight from the parser's events, so that nothing is expanded before it is checked."""

    def __init__(self, text: str, where: str) -> None:
        self.events: Iterator[Any] = iter(yaml.parse(text, Loader=yaml.SafeLoader))
        self.where = where
        self.nodes = 0

    def document(self) -> object:
        next(self.events)  # stream start
        event = next(self.events)
        if isinstance(event, yaml.StreamEndEvent):
            raise InputError("is empty", where=self.where)
        event = next(self.events)
        value = self.value(event, 1)
        if value is None and event.value == "":
            raise InputError("is empty", where=self.where)
        next(self.events)  # document end
        event = next(self.events)
        if not isinstance(event, yaml.StreamEndEvent):
            self.fail(event, "a second document starts here", "keep one document per file")
        return value

    def fail(self, event: Any, what: str, hint: str | None = None) -> NoReturn:
        raise InputError(what, where=_at(self.where, event.start_mark), hint=hint)

    def value(self, event: Any, depth: int) -> Any:
        self.nodes += 1
        if self.nodes > MAX_NODES:
            self.fail(event, f"more than {MAX_NODES} values", "keep data out of hand-written files")
        if depth > MAX_DEPTH:
            self.fail(event, f"nested deeper than {MAX_DEPTH} levels")
        if isinstance(event, yaml.AliasEvent) or event.anchor is not None:
            self.fail(
                event, f"anchors and aliases are not read ({event.anchor[:40]!r})", "write the value out"
            )
        if event.tag is not None:
            self.fail(event, f"tags are not read ({event.tag[:40]!r})", "remove the tag, or quote the value")
        if isinstance(event, yaml.ScalarEvent):
            return self.scalar(event)
        if isinstance(event, yaml.SequenceStartEvent):
            items = []
            while not isinstance(event := next(self.events), yaml.SequenceEndEvent):
                items.append(self.value(event, depth + 1))
            return items
        return self.mapping(depth)

    def mapping(self, depth: int) -> dict[str, Any]:
        out: dict[str, Any] = {}
        lines: dict[str, int] = {}
        while not isinstance(event := next(self.events), yaml.MappingEndEvent):
            key = self.value(event, depth + 1)
            if not isinstance(key, str):
                self.fail(event, f"key {_short(key)} is not a string", "quote it")
            if key in out:
                first = f"it was given in line {lines[key]} already"
                self.fail(event, f"duplicate key {_short(key)}: {first}", "keep one of the two")
            lines[key] = event.start_mark.line + 1
            out[key] = self.value(next(self.events), depth + 1)
        return out

    def scalar(self, event: Any) -> str | int | float | bool | None:
        text: str = event.value
        if event.style is None:
            if _NOT_FINITE.match(text):
                self.fail(event, f"{text} is not a finite number")
            value = resolve(text)
        else:
            value = text
        if problem := _scalar_problem(value):
            self.fail(event, problem)
        return value


def resolve(text: str) -> str | int | float | bool | None:
    """The value of a plain scalar under the YAML 1.2 core schema."""
    if _NULL.match(text):
        return None
    if _BOOL.match(text):
        return text[0] in "tT"
    if _INT.match(text):
        if text.startswith(("0o", "0x")):
            return int(text[2:], 8 if text[1] == "o" else 16)
        # Python refuses to convert thousands of digits; 2**64 stands for any of them and is refused as well
        return int(text) if len(text) < 1000 else 1 << 64
    if _FLOAT.match(text):
        return float(text)
    return text


def parse_json(text: str, *, where: str, nodes: int = MAX_NODES) -> object:
    """One JSON value, under the same rules as YAML. nodes: values that it may hold."""
    if not text.strip():
        raise InputError("is empty", where=where)

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        out: dict[str, Any] = {}
        for key, value in pairs:
            if key in out:
                raise InputError(f"duplicate key {_short(key)}", where=where, hint="keep one of the two")
            out[key] = value
        return out

    def refuse(constant: str) -> NoReturn:
        raise InputError(f"{constant} is not a finite number", where=where)

    def integer(digits: str) -> int:
        return int(digits) if len(digits) < 1000 else 1 << 64

    try:
        value = json.loads(text, object_pairs_hook=unique, parse_constant=refuse, parse_int=integer)
    except json.JSONDecodeError as error:
        raise InputError(
            f"not valid JSON: {error.msg}", where=f"{where}:{error.lineno}:{error.colno}"
        ) from None
    except RecursionError:
        raise InputError(f"nested deeper than {MAX_DEPTH} levels", where=where) from None
    return plain(value, where=where, limit=nodes)


def plain(value: Any, *, where: str, limit: int = MAX_NODES) -> Any:
    """A copy of `value` in plain dicts, lists and scalars, under the limits of this module."""
    nodes = 0

    def visit(item: Any, path: str, depth: int) -> Any:
        nonlocal nodes
        nodes += 1
        problem = _scalar_problem(item)
        if nodes > limit:
            problem = f"more than {limit} values"
        elif depth > MAX_DEPTH:
            path, problem = "", f"nested deeper than {MAX_DEPTH} levels"
        if problem is None and isinstance(item, Mapping):
            for key in item:
                if not isinstance(key, str) or _scalar_problem(key):
                    problem = f"key {_short(key)} is not a string"
                    break
            else:
                return {key: visit(entry, join(path, key), depth + 1) for key, entry in item.items()}
        if problem is None and isinstance(item, list | tuple):
            return [visit(entry, f"{path}[{index}]", depth + 1) for index, entry in enumerate(item)]
        if problem is None and not isinstance(item, str | int | float | bool | None):
            problem = f"a {type(item).__name__} is not a plain value"
        if problem is not None:
            raise InputError(problem, where=f"{where}: {path}" if path else where)
        return item

    return visit(value, "", 1)


def join(path: str, key: str) -> str:
    """`noise`, `p` -> `noise.p`."""
    key = key if key.isprintable() and len(key) <= 80 else _short(key)
    return f"{path}.{key}" if path else key


def _short(value: object) -> str:
    text = ascii(value[:60]) if isinstance(value, str) else ascii(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _scalar_problem(value: object) -> str | None:
    if isinstance(value, str):
        try:
            value.encode()
        except UnicodeEncodeError:
            return f"{_short(value)} holds half a character (a lone surrogate)"
    elif isinstance(value, float) and not math.isfinite(value):
        return f"{value} is not a finite number, or too large for one"
    elif isinstance(value, int) and not -(1 << 63) <= value < 1 << 63:
        return "an integer does not fit into 64 bits"
    return None


def dump_yaml(value: BaseModel | Mapping[str, Any]) -> str:
    """YAML for people: fields of a model that equal their default are left out."""
    data = _without_defaults(value) if isinstance(value, BaseModel) else value
    text: str = yaml.dump(
        plain(data, where="dump_yaml"), Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=1 << 30
    )
    return text


def _without_defaults(value: Any) -> Any:
    if isinstance(value, BaseModel):
        out = {}
        for name, field in type(value).model_fields.items():
            item = getattr(value, name)
            if field.is_required() or item != field.get_default(call_default_factory=True):
                out[name] = _without_defaults(item)
        return out
    if isinstance(value, Mapping):
        return {key: _without_defaults(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_without_defaults(item) for item in value]
    return value


class _Dumper(yaml.SafeDumper):
    def ignore_aliases(self, data: Any) -> bool:
        return True

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
        super().increase_indent(flow, False)  # list items stand to the right of their key


def _represent_str(dumper: yaml.SafeDumper, text: str) -> yaml.Node:
    style = None
    if not isinstance(resolve(text), str) or _NOT_FINITE.match(text):
        style = "'"  # YAML 1.1, which PyYAML quotes for, takes `1e-3` for a string
    elif not text.isprintable():
        readable = not text[0].isspace() and text.replace("\n", "").isprintable()
        style = "|" if readable else '"'
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


def _represent_list(dumper: yaml.SafeDumper, items: list[Any]) -> yaml.Node:
    short = len(json.dumps(items)) <= FLOW_COLUMNS and not any(isinstance(item, dict) for item in items)
    return dumper.represent_sequence("tag:yaml.org,2002:seq", items, flow_style=short)


_Dumper.add_representer(str, _represent_str)
_Dumper.add_representer(list, _represent_list)
