"""Codes given as Tanner graphs, from JSON, GraphML or edge lists.

JSON, an object with::

    bits      a number of bits, or a list of bits: an id, or {"id": ..., "coords": [...]}
    checks    likewise: an id, or {"id": ..., "type": "X" or "Z", "coords": [...], "bits": [bit ids]}
    edges     optional: a list of [check id, bit id]; instead of it, checks may list their bits
    logicals  optional: {"x": [[bit ids], ...], "z": [[bit ids], ...]}, or only one of the two
    name      optional

Ids are strings or integers; a number of nodes n stands for the ids 0 .. n-1. Bits and checks may share ids.

GraphML: node attribute `type` is "bit", "check", "X" or "Z" (a check of that type), or `bipartite` is 0 for
bits and 1 for checks, as in networkx. Attributes `x`, `y` and `z` are coordinates. A node with neither is
judged by its id, then by its neighbours.

Edge list: one edge per line, `#` starts a comment. Ids begin with `b` (also `q`, `d`, `v`) for a bit, `c`
for a check, `x` or `z` for a check of that type, then a number: `c0 b3`, in either order. A line with one id
is a node without edges. Plain integers, `0 3`, are a check and a bit, each counted on its own. Other names:
check first, then bit.

Checks that all have types make a CSS code; without types, or all "Z", a classical code.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from autoqec.envs.codes.css import Code
from autoqec.envs.codes.tanner_edges import parse_edges
from autoqec.envs.codes.tanner_graph import TannerGraph
from autoqec.envs.codes.tanner_graphml import parse_graphml
from autoqec.envs.codes.tanner_json import parse_tanner_json
from autoqec.errors import InputError
from autoqec.io.untrusted_file import read_text

MAX_BYTES = 256 * 2**20
_PARSERS: dict[str, Callable[..., TannerGraph]] = {
    ".json": parse_tanner_json,
    ".graphml": parse_graphml,
    ".xml": parse_graphml,
    ".txt": parse_edges,
    ".edges": parse_edges,
    ".edgelist": parse_edges,
}
GRAPH_SUFFIXES = tuple(_PARSERS)


def read_tanner(path: str | Path) -> Code:
    """The code of a Tanner graph file; see the module for the formats.

    Raises:
        InputError: a file that is missing or malformed, a graph that is not bipartite, or no code.
    """
    return read_tanner_graph(path).to_code()


def read_tanner_graph(path: str | Path) -> TannerGraph:
    """The graph in a file, for its report."""
    file = Path(path)
    where = str(file)
    parser = _PARSERS.get(file.suffix.lower())
    if parser is None:
        raise InputError(
            f"{file.suffix!r} is not a known format of Tanner graphs",
            where=where,
            hint=f"use {', '.join(GRAPH_SUFFIXES)}",
        )
    text = read_text(file, limit=MAX_BYTES, where=where, links=True)
    graph = parser(text, name=file.stem, where=where)
    if not graph.bits or not graph.checks:
        raise InputError(f"has {len(graph.bits)} bits and {len(graph.checks)} checks", where=where)
    return graph
