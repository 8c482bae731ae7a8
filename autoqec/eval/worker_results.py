"""What a worker process of the verifier sends back: plain data and arrays, parsed as the type that its task declares.

Nothing is unpickled: a pickle is a program, and whoever got hold of one worker would have the process that judges.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import types
import typing
from typing import Any

import numpy as np

from autoqec.errors import AutoQECError, InputError, UnavailableError
from autoqec.sandbox import wire

_ERRORS = {kind.__name__: kind for kind in (AutoQECError, InputError, UnavailableError)}
_RESULT, _ERROR = "result", "error"


def encode(value: object) -> bytes:
    """A result: named tuples, dataclasses, tuples and lists of numbers, text, None and arrays."""
    arrays: dict[str, np.ndarray[Any, Any]] = {}
    return wire.pack({_RESULT: _plain(value, arrays)}, arrays)


def encode_error(error: AutoQECError) -> bytes:
    facts = {name: getattr(error, name) for name in ("what", "where", "hint")}
    return wire.pack({_ERROR: {"kind": type(error).__name__, **facts}}, {})


def decode(payload: bytes, kind: Any) -> Any:
    """The result of type `kind`; an error that was sent instead is raised."""
    try:
        meta, arrays = wire.unpack(payload)
        if _ERROR in meta:
            raise _error(meta[_ERROR])
        return _parsed(meta[_RESULT], kind, arrays)
    except (wire.WireError, KeyError, TypeError, ValueError) as error:
        raise AutoQECError(
            f"a process of the verifier sent no valid result: {error}", where="verify"
        ) from None


@functools.cache
def result_type(task: type) -> Any:
    """What the `run` of a task declares that it returns."""
    return typing.get_type_hints(task.run)["return"]  # type: ignore[attr-defined]


def _error(facts: Any) -> AutoQECError:
    kind = _ERRORS.get(facts["kind"], AutoQECError)
    what, where, hint = (
        None if facts[name] is None else str(facts[name]) for name in ("what", "where", "hint")
    )
    return kind(what or "", where=where, hint=hint)


def _plain(value: object, arrays: dict[str, np.ndarray[Any, Any]]) -> Any:
    if isinstance(value, np.ndarray):
        name = str(len(arrays))
        arrays[name] = value
        return {"array": name}
    if value is None or isinstance(value, bool | str | int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else {"float": str(value)}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return [_plain(getattr(value, field.name), arrays) for field in dataclasses.fields(value)]
    if isinstance(value, tuple | list):
        return [_plain(each, arrays) for each in value]
    raise TypeError(f"{type(value).__name__} is not plain data")


def _expanded(kind: Any) -> Any:
    """What a name for a type stands for: numpy's NDArray is one on Python 3.12 with numpy 2.5."""
    arguments = typing.get_args(kind)
    named = typing.get_origin(kind) or kind
    if not hasattr(named, "__value__"):
        return kind
    return _expanded(named.__value__[arguments] if arguments else named.__value__)


def _parsed(value: Any, kind: Any, arrays: dict[str, np.ndarray[Any, Any]]) -> Any:
    kind = _expanded(kind)
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin in (types.UnionType, typing.Union):
        (inner,) = (each for each in arguments if each is not type(None))
        return None if value is None else _parsed(value, inner, arrays)
    if origin is np.ndarray:
        (wanted,) = typing.get_args(arguments[1])
        array = arrays[value["array"]]
        if wanted is not Any and array.dtype != np.dtype(wanted):
            raise TypeError(f"an array of {array.dtype} where {np.dtype(wanted)} is due")
        return array
    if origin is tuple and arguments[-1] is not Ellipsis:
        return tuple(_parsed(each, of, arrays) for each, of in zip(value, arguments, strict=True))
    if origin in (tuple, list):
        return origin(_parsed(each, arguments[0], arrays) for each in _list(value))
    if kind is float and isinstance(value, dict):
        return float(value["float"])
    if kind in (bool, str, int, float):
        if type(value) is not kind and not (kind is float and type(value) is int):
            raise TypeError(f"{wire.one_line(value)} is not of type {kind.__name__}")
        return kind(value)
    hints = typing.get_type_hints(kind)
    return kind(*(_parsed(each, of, arrays) for each, of in zip(_list(value), hints.values(), strict=True)))


def _list(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise TypeError(f"{wire.one_line(value)} is not a list")
    return value
