"""References such as `toric?distance=4`: a name, then key=value parameters.

Grammar: `name`, or `name?key=value&key=value`. Values are percent-decoded, and `+` is a plus sign
(polynomials need it). A value may be a reference itself: `h1=repetition?distance=3`; one with several
parameters goes in parentheses, inside which `&` does not end the value.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from urllib.parse import unquote

from autoqec.errors import InputError
from autoqec.io.closest import did_you_mean

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:-]*")
_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@dataclass(frozen=True)
class Parameter:
    """One parameter of a reference: an integer in [low, high], or text when `low` is None. Required without
    a default.
    """

    low: int | None = None
    high: int | None = None
    default: int | str | None = None


def parse_code_string(text: str, *, where: str | None = None) -> tuple[str, dict[str, str]]:
    """Split `name?key=value&...` into its name and its parameters, still as text.

    Raises:
        InputError: an empty name, a parameter without `=`, without a value or given twice, unbalanced
        parentheses.
    """
    place = where or repr(text)
    name, question, query = text.strip().partition("?")
    if not _NAME.fullmatch(name):
        raise InputError(
            f"{name!r} is not a name", where=place, hint="write name or name?key=value&key=value"
        )
    params: dict[str, str] = {}
    if not question:
        return name, params
    for part in _split(query, place):
        key, equals, value = part.partition("=")
        if not equals or not _KEY.fullmatch(key):
            raise InputError(
                f"{part!r} is not key=value", where=place, hint=f"write {name}?key=value&key=value"
            )
        if not value:
            raise InputError(f"parameter {key!r} has no value", where=place)
        if key in params:
            raise InputError(f"parameter {key!r} is given twice", where=place, hint="give it once")
        whole = value.startswith("(") and _split_depth(value) == len(value)
        # What is in parentheses is a reference and gets decoded when it is read as one.
        params[key] = value[1:-1] if whole else unquote(value)
    return name, params


def read_parameters(
    name: str, given: Mapping[str, str], known: Mapping[str, Parameter], *, where: str | None = None
) -> dict[str, int | str]:
    """Check the parameters of a parsed reference against those that `name` knows, and fill in defaults."""
    place = where or name
    for key in given:
        if key not in known:
            raise InputError(
                f"{name} has no parameter {key!r}" + _suggest(key, known),
                where=place,
                hint=f"its parameters are {', '.join(known)}" if known else f"write {name} alone",
            )
    values: dict[str, int | str] = {}
    for key, parameter in known.items():
        if key not in given:
            if parameter.default is None:
                raise InputError(f"{name} needs {key!r}", where=place, hint=f"write {_example(name, known)}")
            values[key] = parameter.default
        elif parameter.low is None:
            values[key] = given[key]
        else:
            values[key] = _integer(key, given[key], parameter, place)
    return values


def with_parameter(text: str, key: str, change: Callable[[str], str]) -> str | None:
    """The reference with the value of one of its own parameters changed; None if it does not give that one."""
    name, _, query = text.partition("?")
    parts = [part.partition("=") for part in _split(query, repr(text))]
    if key not in (given for given, _, _ in parts):
        return None
    changed = [
        f"{given}={change(unquote(value))}" if given == key else f"{given}{equals}{value}"
        for given, equals, value in parts
    ]
    return f"{name}?{'&'.join(changed)}"


def closest(name: str, known: Iterable[str]) -> str:
    """`; did you mean 'x'?`, or nothing when no known name is near."""
    return _suggest(name, known)


def _integer(key: str, text: str, parameter: Parameter, where: str) -> int:
    low, high = parameter.low, parameter.high
    bounds = f"from {low} to {high}" if high is not None else f"of at least {low}"
    if not re.fullmatch(r"[+-]?[0-9]{1,18}", text):
        raise InputError(f"{key} = {text!r} is not an integer", where=where, hint=f"give one {bounds}")
    value = int(text)
    if (low is not None and value < low) or (high is not None and value > high):
        raise InputError(f"{key} = {value} is out of range", where=where, hint=f"give an integer {bounds}")
    return value


def _split(query: str, where: str) -> list[str]:
    """Split at every & outside parentheses."""
    parts, depth, start = [], 0, 0
    for i, character in enumerate(query):
        depth += (character == "(") - (character == ")")
        if depth < 0:
            break
        if character == "&" and depth == 0:
            parts.append(query[start:i])
            start = i + 1
    if depth:
        raise InputError(f"unbalanced parentheses in {query!r}", where=where)
    return [*parts, query[start:]]


def _split_depth(value: str) -> int:
    """Length of the parenthesised group that `value` starts with."""
    depth = 0
    for i, character in enumerate(value):
        depth += (character == "(") - (character == ")")
        if depth == 0:
            return i + 1
    return len(value)


def _suggest(name: str, known: Iterable[str]) -> str:
    near = did_you_mean(name, known)
    return f"; {near}" if near else ""


def _example(name: str, known: Mapping[str, Parameter]) -> str:
    needed = [f"{key}=..." for key, parameter in known.items() if parameter.default is None]
    return f"{name}?{'&'.join(needed)}"
