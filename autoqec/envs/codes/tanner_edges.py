"""Tanner graphs as edge lists; the format is in `autoqec.envs.codes.tanner`."""

from __future__ import annotations

import re

from autoqec.envs.codes.tanner_graph import TannerGraph
from autoqec.envs.codes.tanner_sides import Node, build_graph, node_from_id, number_in_id
from autoqec.errors import InputError


def parse_edges(text: str, *, name: str, where: str) -> TannerGraph:
    nodes: dict[str, Node] = {}
    first_line: dict[str, int] = {}
    edges: list[tuple[str, str]] = []
    plain: bool | None = None
    for number, line in enumerate(text.splitlines(), start=1):
        words = [word for word in re.split(r"[,\s]+", line.partition("#")[0]) if word]
        if not words:
            continue
        place = f"{where}:{number}"
        if words[2:] == ["{}"]:  # networkx.write_edgelist ends lines so
            words.pop()
        if len(words) > 2:
            raise InputError(f"{len(words)} words, expected a check and a bit", where=place)
        integers = [word.isascii() and word.isdigit() and len(word) < 10 for word in words]
        if plain is None:
            plain = all(integers)
        if any(integers) != plain or (plain and len(words) != 2):
            raise InputError(
                f"{' '.join(words)[:60]!r}: plain integers are a check and a bit in every line or in none",
                where=place,
                hint="write ids such as c0 b3",
            )
        if plain:
            words = [f"c{int(words[0])}", f"b{int(words[1])}"]
        for column, word in enumerate(words):
            node = node_from_id(word)
            if node.side is None:
                if len(words) == 1:
                    raise InputError(
                        f"nothing tells whether {word!r} is a check or a bit",
                        where=place,
                        hint="write c0 or b0",
                    )
                node = Node("bit" if column else "check")
            known = nodes.setdefault(word, node)
            if known.side != node.side:
                raise InputError(
                    f"{word!r} is a {node.side} here and a {known.side} in line {first_line[word]}",
                    where=place,
                    hint="write the check first, then the bit",
                )
            first_line.setdefault(word, number)
        if len(words) == 2:
            edges.append((words[0], words[1]))
    ordered = {key: nodes[key] for key in sorted(nodes, key=number_in_id)}
    return build_graph(ordered, edges, name=name, where=where)
