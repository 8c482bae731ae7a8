"""Which nodes of a graph are checks and which are bits, where a file says so for some of them."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from autoqec.envs.codes.tanner_graph import Coords, TannerGraph
from autoqec.errors import InputError

Side = Literal["check", "bit"]
_PREFIXED = re.compile(r"(b|bit|q|qubit|d|data|v|c|check|x|z)_?(\d{1,9})", re.IGNORECASE)
_OTHER: dict[Side, Side] = {"check": "bit", "bit": "check"}


@dataclass(frozen=True)
class Node:
    """side and kind ("X" or "Z") are None where the file does not tell."""

    side: Side | None = None
    kind: str | None = None
    coords: Coords | None = None


def node_from_id(name: str) -> Node:
    """What an id such as `b3`, `c0`, `x1` or `z2` tells about its node."""
    found = _PREFIXED.fullmatch(name)
    if not found:
        return Node()
    letter = found[1][0].lower()
    if letter in "xz":
        return Node("check", letter.upper())
    return Node("check" if letter == "c" else "bit")


def number_in_id(name: str) -> tuple[str, tuple[int, str]]:
    """Sort key that puts `b2` before `b10`; digits of any length."""
    found = re.fullmatch(r"(.*?)(\d*)", name, re.DOTALL)
    prefix, digits = (found[1], found[2]) if found else (name, "")
    return prefix, (len(digits.lstrip("0")), digits.lstrip("0")) if digits else (-1, "")


def build_graph(
    nodes: Mapping[str, Node], edges: Sequence[tuple[str, str]], *, name: str, where: str
) -> TannerGraph:
    """The bipartite graph of the named nodes; both sides keep the order of `nodes`.

    Raises:
        InputError: an edge inside one side, an odd cycle, or a component in which no node has a known side.
    """
    sides = _sides({key: node.side for key, node in nodes.items()}, edges, where)
    for key, node in nodes.items():
        if node.kind is not None and sides[key] == "bit":
            raise InputError(f"bit {key!r} has the type {node.kind} of a check", where=where)
    checks = [key for key in nodes if sides[key] == "check"]
    bits = [key for key in nodes if sides[key] == "bit"]
    check_index, bit_index = ({key: i for i, key in enumerate(keys)} for keys in (checks, bits))
    ordered = [(u, v) if sides[u] == "check" else (v, u) for u, v in edges]
    return TannerGraph(
        name=name,
        where=where,
        bits=tuple(bits),
        checks=tuple(checks),
        types=tuple(nodes[key].kind for key in checks),
        edges=tuple((check_index[c], bit_index[b]) for c, b in ordered),
        bit_coords=tuple(nodes[key].coords for key in bits),
        check_coords=tuple(nodes[key].coords for key in checks),
    )


def _sides(
    declared: Mapping[str, Side | None], edges: Sequence[tuple[str, str]], where: str
) -> dict[str, Side]:
    neighbours: dict[str, list[str]] = {key: [] for key in declared}
    for u, v in edges:
        if u == v or (declared[u] is not None and declared[u] == declared[v]):
            both = f"two {declared[u]}s" if u != v else "a node with itself"
            raise InputError(
                f"the edge {u!r} - {v!r} joins {both}", where=where, hint="join checks with bits"
            )
        neighbours[u].append(v)
        neighbours[v].append(u)
    sides: dict[str, Side] = {}
    for root in sorted(declared, key=lambda key: declared[key] is None):  # declared nodes first
        if root in sides:
            continue
        side = declared[root]
        if side is None:
            raise InputError(
                f"nothing tells whether {root!r} is a check or a bit",
                where=where,
                hint="give it the attribute type, or an id such as c0 for a check and b0 for a bit",
            )
        _spread(root, side, neighbours=neighbours, declared=declared, sides=sides, where=where)
    return sides


def _spread(
    root: str,
    side: Side,
    *,
    neighbours: Mapping[str, list[str]],
    declared: Mapping[str, Side | None],
    sides: dict[str, Side],
    where: str,
) -> None:
    """Alternate sides over the component of `root`, breadth first."""
    sides[root] = side
    parents: dict[str, str | None] = {root: None}
    queue = deque([root])
    while queue:
        u = queue.popleft()
        for v in neighbours[u]:
            if v not in sides:
                sides[v], parents[v] = _OTHER[sides[u]], u
                queue.append(v)
            elif sides[v] == sides[u]:
                cycle = _cycle(u, v, parents)
                shown = " - ".join(cycle[:12]) + (" - ..." if len(cycle) > 12 else f" - {cycle[0]}")
                raise InputError(
                    f"the graph is not bipartite: {shown} is a cycle of odd length {len(cycle)}",
                    where=where,
                    hint="edges join checks with bits only",
                )
    for v in parents:
        if declared[v] not in (None, sides[v]):
            raise InputError(
                f"{v!r} is called a {declared[v]}, but by the edges from the {side} {root!r} it is none",
                where=where,
                hint="edges join checks with bits only",
            )


def _cycle(u: str, v: str, parents: Mapping[str, str | None]) -> list[str]:
    """The nodes of the cycle that the edge u - v closes in a breadth-first tree."""
    paths = []
    for node in (u, v):
        path: list[str] = []
        at: str | None = node
        while at is not None:
            path.append(at)
            at = parents[at]
        paths.append(path)
    left, right = paths
    while len(left) > 1 and len(right) > 1 and left[-2] == right[-2]:
        left.pop()
        right.pop()
    return left + right[-2::-1]
