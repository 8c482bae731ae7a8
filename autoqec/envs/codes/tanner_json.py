"""Tanner graphs as JSON; the schema is in `autoqec.envs.codes.tanner`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from autoqec.envs.codes.code_string import closest
from autoqec.envs.codes.tanner_graph import Coords, TannerGraph
from autoqec.errors import InputError
from autoqec.io.strict_yaml import parse_json


@dataclass(frozen=True)
class _Node:
    name: str
    kind: str | None
    coords: Coords | None
    bits: list[object] | None


def parse_tanner_json(text: str, *, name: str, where: str) -> TannerGraph:
    top = _object(parse_json(text, where=where), ("name", "bits", "checks", "edges", "logicals"), where)
    for key in ("bits", "checks"):
        if key not in top:
            raise InputError(f"{key!r} is missing", where=where, hint=f"give {key}: a number or a list")
    bits = _nodes(top["bits"], ("id", "coords"), f"{where}: bits")
    checks = _nodes(top["checks"], ("id", "type", "coords", "bits"), f"{where}: checks")
    bit_index = {node.name: i for i, node in enumerate(bits)}
    check_index = {node.name: i for i, node in enumerate(checks)}
    adjacent = [i for i, node in enumerate(checks) if node.bits is not None]
    if adjacent and "edges" in top:
        raise InputError(
            f"edges are given twice: as edges and as the bits of check {checks[adjacent[0]].name!r}",
            where=where,
            hint="keep one of the two",
        )
    edges: list[tuple[int, int]] = []
    for c, node in enumerate(checks):
        edges += [
            (c, b) for b in _bits(node.bits or [], bit_index, f"{where}: checks[{c}].bits", repeat=True)
        ]
    for i, pair in enumerate(_list(top.get("edges", []), f"{where}: edges")):
        place = f"{where}: edges[{i}]"
        ends = [_id(end, place) for end in _list(pair, place)]
        if len(ends) != 2:
            raise InputError(f"{len(ends)} ends, expected [check, bit]", where=place)
        check, bit = ends
        if check not in check_index or bit not in bit_index:
            raise InputError(
                _misplaced(check, bit, check_index, bit_index), where=place, hint="write [check, bit]"
            )
        edges.append((check_index[check], bit_index[bit]))
    logicals = _object(top.get("logicals", {}), ("x", "z"), f"{where}: logicals")
    given = top.get("name", name)
    if not isinstance(given, str) or not given:
        raise InputError(f"name = {given!r}, expected text", where=where)
    return TannerGraph(
        name=given,
        where=where,
        bits=tuple(bit_index),
        checks=tuple(check_index),
        types=tuple(node.kind for node in checks),
        edges=tuple(edges),
        bit_coords=tuple(node.coords for node in bits),
        check_coords=tuple(node.coords for node in checks),
        logicals={
            key: [
                _bits(row, bit_index, f"{where}: logicals.{key}[{i}]", repeat=False)
                for i, row in enumerate(_list(rows, f"{where}: logicals.{key}"))
            ]
            for key, rows in logicals.items()
        },
    )


def _nodes(value: object, keys: Sequence[str], where: str) -> list[_Node]:
    if isinstance(value, int) and not isinstance(value, bool):
        if not 1 <= value <= 1_000_000:
            raise InputError(f"{value} nodes, expected 1 to 1,000,000", where=where)
        return [_Node(str(i), None, None, None) for i in range(value)]
    nodes: list[_Node] = []
    seen: set[str] = set()
    for i, item in enumerate(_list(value, where)):
        place = f"{where}[{i}]"
        entry = _object(item, keys, place) if isinstance(item, dict) else {"id": item}
        if "id" not in entry:
            raise InputError("has no id", where=place)
        name = _id(entry["id"], place)
        if name in seen:
            raise InputError(f"id {name!r} is taken already", where=place, hint="give each node its own id")
        seen.add(name)
        kind = entry.get("type")
        if kind not in (None, "X", "Z"):
            raise InputError(f"type = {kind!r}, expected 'X' or 'Z'", where=place)
        listed = _list(entry["bits"], f"{place}.bits") if "bits" in entry else None
        coords = _coords(entry["coords"], place) if "coords" in entry else None
        nodes.append(_Node(name, None if kind is None else str(kind), coords, listed))
    return nodes


def _bits(value: object, index: Mapping[str, int], where: str, *, repeat: bool) -> list[int]:
    found: list[int] = []
    for item in _list(value, where):
        name = _id(item, where)
        if name not in index:
            raise InputError(f"{name!r} is not a bit" + closest(name, index), where=where)
        if index[name] in found and not repeat:
            raise InputError(f"bit {name!r} is listed twice", where=where)
        found.append(index[name])
    return found


def _misplaced(check: str, bit: str, checks: Mapping[str, int], bits: Mapping[str, int]) -> str:
    if check in bits and bit in checks:
        return f"[{check!r}, {bit!r}] has its bit first"
    for side, others in (("checks", checks), ("bits", bits)):
        if check in others and bit in others:
            return f"[{check!r}, {bit!r}] joins two {side}: the graph must be bipartite"
    return f"{check!r} is not a check" if check not in checks else f"{bit!r} is not a bit"


def _object(value: object, keys: Sequence[str], where: str) -> dict[str, object]:
    if not isinstance(value, dict):
        raise InputError(f"expected an object with {', '.join(keys)}", where=where)
    for key in value:
        if key not in keys:
            raise InputError(
                f"unknown key {key!r}{closest(key, keys)}", where=where, hint=f"known: {', '.join(keys)}"
            )
    return value


def _list(value: object, where: str) -> list[object]:
    if not isinstance(value, list):
        raise InputError(f"expected a list, found {value!r:.60}", where=where)
    return value


def _id(value: object, where: str) -> str:
    if isinstance(value, bool) or not isinstance(value, str | int) or value == "":
        raise InputError(f"{value!r:.60} is not an id, expected text or an integer", where=where)
    return str(value)


def _coords(value: object, where: str) -> Coords:
    numbers = _list(value, f"{where}.coords")
    if not numbers or not all(isinstance(v, int | float) and not isinstance(v, bool) for v in numbers):
        raise InputError(f"coords = {value!r:.60}, expected a list of numbers", where=where)
    return tuple(float(v) for v in numbers if isinstance(v, int | float))
