"""Declared parameters of custom code: `Linear(a, b)`, `LayerNorm(a)`, `Parameter(a)` or `Parameter(a, b)`.

A size is an integer from 1 to 1024, one of the widths of the slot, or an integer up to 16 times such a width:

    hidden   the width of x_src, x_dst and messages; in a head, of hidden_state
    edge     the width of e_ij
    out      the width of what the function returns
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from autoqec.decoders.custom import allowed
from autoqec.decoders.custom.allowed import Slot
from autoqec.decoders.custom.errors import CustomCodeError

Kind = Literal["Linear", "LayerNorm", "Parameter"]

MAX_SIZE, MAX_FACTOR = 1024, 16
_SIZES: dict[Kind, tuple[int, int]] = {"Linear": (2, 2), "LayerNorm": (1, 1), "Parameter": (1, 2)}
_CALL = re.compile(r"\s*([A-Za-z]{1,16})\s*\(([A-Za-z0-9*,\s]{1,80})\)\s*")
_SIZE = re.compile(r"(?:([1-9][0-9]{0,4})\s*\*\s*)?([a-z]{1,8})|([1-9][0-9]{0,4})")
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,31}")
_MEND = "write Linear(hidden, hidden), LayerNorm(hidden), Parameter(hidden) or Parameter(hidden, hidden)"


@dataclass(frozen=True)
class Declared:
    kind: Kind
    sizes: tuple[int, ...]

    @property
    def is_module(self) -> bool:
        return self.kind != "Parameter"


def widths(slot: Slot, hidden: int, out: int = 1) -> dict[str, int]:
    """The sizes by name. `out` is that of a head; elsewhere a function returns rows as wide as its input."""
    return {"hidden": hidden, "edge": hidden, "out": out if slot == "head" else hidden}


def parse_params(declared: Mapping[str, str], sizes: Mapping[str, int], *, where: str) -> dict[str, Declared]:
    """Every declaration with its sizes in numbers; the first that does not parse is raised."""
    if len(declared) > allowed.MAX_PARAMETERS:
        raise CustomCodeError(
            "declaration",
            f"{len(declared)} parameters declared",
            where=f"{where}.params_declared",
            hint=f"declare {allowed.MAX_PARAMETERS} at most",
        )
    return {name: _parse(name, text, sizes, where) for name, text in declared.items()}


def _parse(name: str, text: str, sizes: Mapping[str, int], where: str) -> Declared:
    def refuse(what: str) -> CustomCodeError:
        return CustomCodeError("declaration", what, where=f"{where}.params_declared", hint=_MEND)

    if not _NAME.fullmatch(name) or "__" in name:
        raise refuse(f"{name[:40]!r} cannot name a parameter")
    call = _CALL.fullmatch(text)
    kind = next((k for k in _SIZES if call is not None and call[1] == k), None)
    if call is None or kind is None:
        raise refuse(f"{name}: {text[:60]!r} is not a known declaration")
    given = call[2].split(",")
    low, high = _SIZES[kind]
    if not low <= len(given) <= high:
        raise refuse(
            f"{name}: {kind} takes {low if low == high else f'{low} or {high}'} sizes, not {len(given)}"
        )
    numbers = []
    for size in given:
        match = _SIZE.fullmatch(size.strip())
        if match is None or (match[2] is not None and match[2] not in sizes):
            raise refuse(
                f"{name}: {size.strip()!r} is not a size: expected {', '.join(sizes)} or 1 to {MAX_SIZE}"
            )
        factor, number = int(match[1] or 1), int(match[3] or 1)
        if factor > MAX_FACTOR or number > MAX_SIZE:
            raise refuse(f"{name}: {size.strip()!r} is too large: {MAX_SIZE} and {MAX_FACTOR}*hidden at most")
        numbers.append(number if match[2] is None else factor * sizes[match[2]])
    return Declared(kind, tuple(numbers))
