"""Tanner graphs as GraphML; the attributes are in `autoqec.envs.codes.tanner`.

Parsed with expat. A document type, and with it every entity, is refused, which networkx (a reference in the tests) does not do.
"""

from __future__ import annotations

from typing import Any
from xml.parsers import expat

from autoqec.envs.codes.tanner_graph import Coords, TannerGraph
from autoqec.envs.codes.tanner_sides import Node, Side, build_graph, node_from_id
from autoqec.errors import InputError

_BITS = ("bit", "qubit", "data", "variable")


def parse_graphml(text: str, *, name: str, where: str) -> TannerGraph:
    reader = _Reader(where)
    # The declaration may name another encoding; the text has been decoded already.
    parser = expat.ParserCreate(encoding="utf-8", namespace_separator=" ")
    parser.StartElementHandler = reader.start
    parser.EndElementHandler = reader.end
    parser.CharacterDataHandler = reader.characters
    parser.StartDoctypeDeclHandler = reader.doctype
    try:
        parser.Parse(text.encode("utf-8"), True)
    except expat.ExpatError as error:
        raise InputError(f"not valid XML: {error}", where=where) from error
    if not reader.is_graphml:
        raise InputError("is not GraphML: there is no <graphml> element", where=where)
    nodes = {key: reader.node(key, values) for key, values in reader.nodes.items()}
    for u, v in reader.edges:
        for end in (u, v):
            if end not in nodes:
                raise InputError(f"the edge {u!r} - {v!r} ends in {end!r}, which is not a node", where=where)
    return build_graph(nodes, reader.edges, name=name, where=where)


class _Reader:
    """Collects nodes with their attributes, by name in lower case, and edges."""

    def __init__(self, where: str) -> None:
        self.where = where
        self.is_graphml = False
        self.nodes: dict[str, dict[str, str]] = {}
        self.edges: list[tuple[str, str]] = []
        self._keys: dict[str, str] = {}
        self._defaults: dict[str, str] = {}
        self._open: list[str] = []
        self._node: str | None = None
        self._key: str | None = None
        self._text: list[str] = []

    def doctype(self, *_: Any) -> None:
        raise InputError(
            "has a document type, which is not read", where=self.where, hint="remove <!DOCTYPE ...>"
        )

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        tag = tag.rpartition(" ")[2]
        if len(self._open) > 20:
            raise InputError("elements are nested too deep", where=self.where)
        if not self._open and tag == "graphml":
            self.is_graphml = True
        if tag == "key" and attributes.get("for", "all") in ("node", "all"):
            self._key = self._need(tag, attributes, "id")
            self._keys[self._key] = attributes.get("attr.name", self._key).lower()
        elif tag == "node":
            key = self._need(tag, attributes, "id")
            if self._node is not None or key in self.nodes:
                what = (
                    f"node {key!r} lies inside another one"
                    if self._node
                    else f"two nodes have the id {key!r}"
                )
                raise InputError(what, where=self.where)
            self._node = key
            self.nodes[key] = {}
        elif tag == "edge":
            self.edges.append((self._need(tag, attributes, "source"), self._need(tag, attributes, "target")))
        elif tag == "hyperedge":
            raise InputError(
                "hyperedges are not read", where=self.where, hint="join checks with bits by edges"
            )
        elif tag == "data" and self._node is not None:
            self._key = self._need(tag, attributes, "key")
        self._text = []
        self._open.append(tag)

    def end(self, _tag: str) -> None:
        tag = self._open.pop()
        value = "".join(self._text).strip()
        if tag == "node":
            self._node = None
        elif tag == "default" and self._key in self._keys:
            self._defaults[self._keys[self._key]] = value
        elif tag == "data" and self._node is not None and self._key in self._keys:
            self.nodes[self._node][self._keys[self._key]] = value
        if tag in ("key", "data"):
            self._key = None
        self._text = []

    def characters(self, text: str) -> None:
        self._text.append(text)

    def node(self, key: str, values: dict[str, str]) -> Node:
        """What the attributes say about a node, or its id where they say nothing."""
        values = {**self._defaults, **values}
        place = f"{self.where}: node {key!r}"
        given: list[tuple[Side, str | None]] = []
        if values.get("type"):
            text = values["type"].lower()
            if text in _BITS:
                given.append(("bit", None))
            elif text in ("check", "x", "z"):
                given.append(("check", None if text == "check" else text.upper()))
            else:
                raise InputError(f"type = {values['type']!r}, expected bit, check, X or Z", where=place)
        if values.get("bipartite"):
            if values["bipartite"] not in ("0", "1"):
                raise InputError(
                    f"bipartite = {values['bipartite']!r}, expected 0 (a bit) or 1 (a check)", where=place
                )
            given.append(("check" if values["bipartite"] == "1" else "bit", None))
        if len({side for side, _ in given}) > 1:
            raise InputError(
                "type and bipartite contradict each other", where=place, hint="bits have bipartite = 0"
            )
        from_id = node_from_id(key)
        side = given[0][0] if given else from_id.side
        kind = next((kind for _, kind in given if kind), None)
        if kind is None and side == from_id.side and values.get("type") is None:
            kind = from_id.kind
        return Node(side, kind, _coords(values, place))

    def _need(self, tag: str, attributes: dict[str, str], name: str) -> str:
        if not attributes.get(name):
            raise InputError(f"a <{tag}> has no {name}", where=self.where)
        return attributes[name]


def _coords(values: dict[str, str], where: str) -> Coords | None:
    given = [axis for axis in "xyz" if values.get(axis)]
    coords = []
    for axis in given:
        try:
            value = float(values[axis])
        except ValueError:
            value = float("nan")
        if not abs(value) < float("inf"):
            raise InputError(f"{axis} = {values[axis]!r} is not a finite number", where=where)
        coords.append(value)
    return tuple(coords) or None
