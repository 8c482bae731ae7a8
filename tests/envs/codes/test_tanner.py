from __future__ import annotations

import json
from pathlib import Path

import networkx as nx
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from autoqec.envs.codes.css import ClassicalCode, CSSCode
from autoqec.envs.codes.families import build_code
from autoqec.envs.codes.tanner import GRAPH_SUFFIXES, read_tanner, read_tanner_graph
from autoqec.errors import InputError

STEANE = build_code("steane")
LINE = build_code("repetition?distance=4").h


def save(path: Path, content: object) -> Path:
    path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    return path


def pairs(h: np.ndarray) -> list[list[int]]:
    return np.argwhere(h).tolist()


def steane_json() -> dict[str, object]:
    checks = [
        {"id": f"{kind}{i}", "type": kind, "coords": [i, k], "bits": np.flatnonzero(row).tolist()}
        for k, (kind, h) in enumerate((("Z", STEANE.hz), ("X", STEANE.hx)))
        for i, row in enumerate(h)
    ]
    return {"name": "seven", "bits": [{"id": i, "coords": [i, 2]} for i in range(7)], "checks": checks}


def test_json_with_counts_and_edges(tmp_path: Path) -> None:
    code = read_tanner(save(tmp_path / "line.json", {"bits": 4, "checks": 3, "edges": pairs(LINE)}))
    assert isinstance(code, ClassicalCode)
    assert (code.h == LINE).all()
    assert code.name == "line"


def test_json_with_types_coordinates_and_adjacency(tmp_path: Path) -> None:
    code = read_tanner(save(tmp_path / "code.json", steane_json()))
    assert isinstance(code, CSSCode)
    assert code.name == "seven"
    assert (code.hx == STEANE.hx).all()
    assert (code.hz == STEANE.hz).all()
    assert code.x_coords.tolist() == [[0, 1], [1, 1], [2, 1]]
    assert code.qubit_coords[6].tolist() == [6, 2]


def test_json_logicals(tmp_path: Path) -> None:
    content = steane_json() | {"logicals": {"z": [list(range(7))]}}
    code = read_tanner(save(tmp_path / "code.json", content))
    assert isinstance(code, CSSCode)
    assert code.lz.tolist() == [[1] * 7]
    line = {
        "bits": ["a", "b"],
        "checks": ["a"],
        "edges": [["a", "a"], ["a", "b"]],
        "logicals": {"z": [["b"]]},
    }
    classical = read_tanner(save(tmp_path / "pair.json", line))
    assert isinstance(classical, ClassicalCode)
    assert classical.l.tolist() == [[0, 1]]


GOOD = {"bits": ["b0", "b1"], "checks": ["c0"], "edges": [["c0", "b0"], ["c0", "b1"]]}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"bits": 0}, "0 nodes"),
        ({"bits": True}, "expected a list"),
        ({"bits": []}, "'b0' is not a bit"),
        ({"bits": ["b0", "b0"]}, r"bits\[1\]: id 'b0' is taken"),
        ({"bits": [{"id": "b0", "type": "X"}]}, r"bits\[0\]: unknown key 'type'"),
        ({"bits": [{"coords": [1]}]}, "has no id"),
        ({"bits": [{"id": "b0", "coords": ["1"]}, "b1"]}, "list of numbers"),
        ({"bits": [{"id": "b0", "coords": [1]}, "b1"]}, "'b1' has no coordinates"),
        ({"bits": [1.5]}, "is not an id"),
        ({"checks": [{"id": "c0", "type": "Y"}]}, "type = 'Y'"),
        ({"checks": [{"id": "c0", "bits": ["b0"]}]}, "edges are given twice"),
        ({"checks": [{"id": "c0", "type": "X"}]}, "every check is of type X"),
        ({"checks": [{"id": "c0", "type": "X"}, "c1"]}, "only some checks have a type, 'c1' has none"),
        ({"edges": [["b0", "c0"]]}, r"edges\[0\]: \['b0', 'c0'\] has its bit first"),
        ({"edges": [["b0", "b1"]]}, "joins two bits"),
        ({"checks": ["c0", "c1"], "edges": [["c0", "c1"]]}, "joins two checks"),
        ({"edges": [["c0", "b9"]]}, "'b9' is not a bit"),
        ({"edges": [["c9", "b0"]]}, "'c9' is not a check"),
        ({"edges": [["c0"]]}, "1 ends"),
        ({"edges": {"c0": "b0"}}, "expected a list"),
        ({"edge": []}, "unknown key 'edge'; did you mean 'edges'"),
        ({"logicals": {"x": [["b0"]]}}, "no X logicals"),
        ({"logicals": {"z": [["b0", "b0"]]}}, "listed twice"),
        ({"logicals": {"z": [["b7"]]}}, r"logicals.z\[0\]: 'b7' is not a bit"),
        ({"logicals": {"z": []}}, "L is empty"),
        ({"logicals": {"z": [["b0", "b1"]]}}, "flips none"),
        ({"name": 3}, "expected text"),
    ],
)
def test_wrong_json_is_refused(tmp_path: Path, change: dict[str, object], message: str) -> None:
    read_tanner(save(tmp_path / "good.json", GOOD))
    with pytest.raises(InputError, match=message):
        read_tanner(save(tmp_path / "bad.json", GOOD | change))


@pytest.mark.parametrize(
    "text", ["", "[]", "{", '{"bits": 2, "bits": 3, "checks": 1}', '{"bits": NaN}', '{"bits": 2}']
)
def test_malformed_json_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(InputError, match=r"bad\.json"):
        read_tanner(save(tmp_path / "bad.json", text))


@pytest.mark.parametrize("labels", ["bipartite", "type", "ids"])
def test_graphml_written_by_networkx(tmp_path: Path, labels: str) -> None:
    graph = nx.Graph()
    names = {"ids": ("c{}", "b{}")}.get(labels, ("left {}", "right {}"))
    for i in range(4):
        graph.add_node(
            names[1].format(i), **{"bipartite": {"bipartite": 0}, "type": {"type": "bit"}}.get(labels, {})
        )
    for i in range(3):
        extra = {"bipartite": {"bipartite": 1}, "type": {"type": "check"}}.get(labels, {})
        graph.add_node(names[0].format(i), **extra)
    for c, b in pairs(LINE):
        graph.add_edge(names[0].format(c), names[1].format(b), weight=1.0)
    nx.write_graphml(graph, tmp_path / "line.graphml")
    code = read_tanner(tmp_path / "line.graphml")
    assert isinstance(code, ClassicalCode)
    assert (code.h == LINE).all()


def test_graphml_of_a_css_code_with_coordinates(tmp_path: Path) -> None:
    graph = nx.DiGraph()
    for i in range(7):
        graph.add_node(i, type="bit", x=float(i), y=0.5)
    for kind, h in (("X", STEANE.hx), ("Z", STEANE.hz)):
        for i, row in enumerate(h):
            graph.add_node(f"check {kind} {i}", type=kind, x=float(i), y=-1.0)
            for bit in np.flatnonzero(row):
                graph.add_edge(int(bit), f"check {kind} {i}")
    nx.write_graphml(graph, tmp_path / "steane.graphml", prettyprint=False)
    code = read_tanner(tmp_path / "steane.graphml")
    assert isinstance(code, CSSCode)
    assert (code.hx == STEANE.hx).all()
    assert (code.hz == STEANE.hz).all()
    assert code.qubit_coords[3].tolist() == [3, 0.5]


def test_graphml_sides_spread_along_edges(tmp_path: Path) -> None:
    graph = nx.path_graph(["p", "q", "r", "s", "t"])
    graph.nodes["r"]["type"] = "bit"
    nx.write_graphml(graph, tmp_path / "path.graphml")
    found = read_tanner_graph(tmp_path / "path.graphml")
    assert found.bits == ("p", "r", "t")
    assert found.checks == ("q", "s")


def graphml(nodes: str, edges: str = "", head: str = "") -> str:
    keys = "".join(f'<key id="{k}" for="node" attr.name="{k}"/>' for k in ("type", "bipartite", "x"))
    graph = f'<graph edgedefault="undirected">{nodes}{edges}</graph>'
    return f'<?xml version="1.0"?>{head}<graphml>{keys}{graph}</graphml>'


def nodes(**sides: str) -> str:
    return "".join(f'<node id="{name}"><data key="type">{side}</data></node>' for name, side in sides.items())


def edges(*ends: str) -> str:
    return "".join(f'<edge source="{a}" target="{b}"/>' for a, b in (pair.split("-") for pair in ends))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (graphml(nodes(p="check", q="check"), edges("p-q")), "'p' - 'q' joins two checks"),
        (graphml(nodes(p="bit"), edges("p-p")), "joins a node with itself"),
        (
            graphml(nodes(p="check") + '<node id="q"/><node id="r"/>', edges("p-q", "q-r", "r-p")),
            "not bipartite: q - p - r - q is a cycle of odd length 3",
        ),
        (
            graphml(nodes(p="check", s="bit") + '<node id="q"/><node id="r"/>', edges("p-q", "q-s")),
            "'s' is called a bit",
        ),
        (graphml('<node id="p"/>'), "nothing tells whether 'p'"),
        (graphml(nodes(p="spin")), "type = 'spin'"),
        (graphml('<node id="p"><data key="bipartite">2</data></node>'), "bipartite = '2'"),
        (
            graphml('<node id="p"><data key="bipartite">0</data><data key="type">X</data></node>'),
            "contradict each other",
        ),
        (graphml('<node id="c0"><data key="x">inf</data></node>'), "not a finite number"),
        (graphml(nodes(p="bit") * 2), "two nodes have the id 'p'"),
        (graphml("<node/>"), "a <node> has no id"),
        (graphml(nodes(p="bit"), edges("p-q")), "ends in 'q', which is not a node"),
        (graphml('<node id="b0"><graph><node id="b1"/></graph></node>'), "lies inside another"),
        (graphml("<hyperedge/>"), "hyperedges"),
        (graphml("<a>" * 50 + "</a>" * 50), "nested too deep"),
        (graphml(nodes(p="bit")), "1 bits and 0 checks"),
        (graphml("", head='<!DOCTYPE g [<!ENTITY a "b">]>'), "document type"),
        (graphml("", head='<!DOCTYPE g SYSTEM "file:///etc/passwd">'), "document type"),
        ("<svg></svg>", "not GraphML"),
        ("<graphml>", "not valid XML"),
        ("", "not valid XML"),
    ],
)
def test_wrong_graphml_is_refused(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        read_tanner(save(tmp_path / "bad.graphml", text))


@pytest.mark.parametrize(
    "lines",
    [
        [f"c{c} b{b}" for c, b in pairs(LINE)],
        [f"q{b}, check_{c}  # reversed" for c, b in pairs(LINE)],
        [f"{c} {b}" for c, b in pairs(LINE)],
        ["# other names", ""] + [f"row-{'abc'[c]}\tcolumn-{'abcd'[b]}" for c, b in pairs(LINE)],
    ],
)
def test_edge_lists(tmp_path: Path, lines: list[str]) -> None:
    code = read_tanner(save(tmp_path / "line.txt", "\n".join(lines)))
    assert isinstance(code, ClassicalCode)
    assert (code.h == LINE).all()


def test_edge_list_of_a_css_code_sorts_by_number(tmp_path: Path) -> None:
    toric = build_code("toric?distance=3")
    lines = [f"{kind}{c} d{b}" for kind, h in (("x", toric.hx), ("z", toric.hz)) for c, b in pairs(h)]
    rng = np.random.default_rng(0)
    code = read_tanner(save(tmp_path / "toric.edges", "\n".join(rng.permutation(lines))))
    assert isinstance(code, CSSCode)
    assert (code.hx == toric.hx).all()
    assert (code.hz == toric.hz).all()


def test_edge_list_written_by_networkx(tmp_path: Path) -> None:
    graph = nx.Graph((f"c{c}", f"b{b}") for c, b in pairs(LINE))
    nx.write_edgelist(graph, tmp_path / "line.edgelist")
    code = read_tanner(tmp_path / "line.edgelist")
    assert isinstance(code, ClassicalCode)
    assert (code.h == LINE).all()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("c0 b0\nb1 b0\n", "'b1' - 'b0' joins two bits"),
        ("c0 b0 b1\n", "bad.txt:1: 3 words"),
        ("0 1\nc0 b1\n", "bad.txt:2: .*plain integers"),
        ("c0 b1\n1 b1\n", "plain integers"),
        ("5\n", "plain integers"),
        ("p q\nq r\n", "'q' is a check here and a bit in line 1"),
        ("p q\ns\n", "nothing tells whether 's'"),
        ("# nothing\n", "0 bits and 0 checks"),
        ("c0 b0\n", "nothing to protect"),
        ("x0 b0\nx0 b1\nz0 b0\nz0 b2\n", "anticommute"),
    ],
)
def test_wrong_edge_lists_are_refused(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        read_tanner(save(tmp_path / "bad.txt", text))


def test_report_counts_degrees_isolated_nodes_and_duplicates(tmp_path: Path) -> None:
    path = save(tmp_path / "odd.txt", "c0 b0\nc0 b1\nc1 b1\nc1 b2\nc1 b1\nb7\nc2\n")
    report = read_tanner_graph(path).report()
    assert (report.bits, report.checks, report.edges) == (4, 3, 4)
    assert report.bit_degrees == (0, 2)
    assert report.check_degrees == (0, 2)
    assert report.isolated_bits == ("b7",)
    assert report.isolated_checks == ("c2",)
    assert report.duplicate_edges == (("c1", "b1"),)
    code = read_tanner(path)
    assert isinstance(code, ClassicalCode)
    assert code.h.tolist() == [[1, 1, 0, 0], [0, 1, 1, 0], [0, 0, 0, 0]]


def test_missing_files_and_other_formats(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such file"):
        read_tanner(tmp_path / "none.json")
    with pytest.raises(InputError, match="not a known format"):
        read_tanner(tmp_path / "graph.dot")
    (tmp_path / "latin.txt").write_bytes(b"c0 b\xff\n")
    with pytest.raises(InputError, match="byte 4 is not UTF-8"):
        read_tanner(tmp_path / "latin.txt")


SAMPLES = {
    ".json": json.dumps(steane_json()),
    ".graphml": graphml(nodes(p="check", q="bit", r="bit"), edges("p-q", "p-r")),
    ".txt": "c0 b0\nc0 b1\nx1 b0\n",
}


@settings(max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.sampled_from(sorted(SAMPLES)),
    st.lists(st.tuples(st.floats(0, 1, exclude_max=True), st.integers(0, 255)), max_size=4),
    st.floats(0, 1),
)
def test_corrupt_files_give_an_input_error_or_a_code(
    tmp_path: Path, suffix: str, changes: list[tuple[float, int]], end: float
) -> None:
    content = bytearray(SAMPLES[suffix].encode())
    for place, byte in changes:
        content[int(place * len(content))] = byte
    path = tmp_path / f"corrupt{suffix}"
    path.write_bytes(content[: int(end * len(content)) + 1])
    try:
        code = read_tanner(path)
    except InputError:
        return
    assert code.k >= 1


def test_every_suffix_has_a_parser(tmp_path: Path) -> None:
    for suffix in GRAPH_SUFFIXES:
        with pytest.raises(InputError):
            read_tanner(save(tmp_path / f"empty{suffix}", ""))
