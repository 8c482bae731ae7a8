"""The fork graph as the page draws it: rounds from top to bottom, generations from left to right."""

from __future__ import annotations

from typing import Any

from autoqec.report.reading import quote
from autoqec.report.review.rounds import Reviewed
from autoqec.report.run_view import RunView, parents_of
from autoqec.search.proposal import BASELINE

MAX_DEPTH = 40
"""Generations that have a place of their own: a history that somebody wrote may go in circles."""


def fork_graph(view: RunView) -> dict[str, Any]:
    """nodes: id, round (None where there is none), label, kind, depth. edges: pairs of positions in the list of nodes."""
    fates = {str(row.get("branch")): str(row.get("status")) for row in view.record.follow_ups}
    nodes: list[dict[str, Any]] = [
        {"id": BASELINE, "round": None, "label": BASELINE, "kind": "baseline", "note": "", "parents": []}
    ]
    for one in view.rounds:
        branch = str(one.row.get("branch") or f"round {one.number}")
        nodes.append(
            {
                "id": quote(branch, 200),
                "round": one.number,
                "label": _label(one),
                "kind": _kind(one),
                "note": quote(fates.pop(branch, "").replace("_", " "), 60),
                "parents": [quote(name, 200) for name in parents_of(one)],
            }
        )
    for branch, fate in fates.items():
        told = {
            "round": None,
            "label": quote(branch, 60),
            "kind": "orphan",
            "note": quote(fate.replace("_", " "), 60),
        }
        nodes.append({"id": quote(branch, 200), **told, "parents": []})
    places = {node["id"]: n for n, node in enumerate(nodes)}
    for node in nodes:
        node["depth"] = _depth(node, nodes, places)
    edges = [
        [places[parent], n]
        for n, node in enumerate(nodes)
        for parent in node["parents"]
        if parent in places and places[parent] != n
    ]
    return {"nodes": nodes, "edges": edges}


def _label(one: Reviewed) -> str:
    slug = str(one.row.get("branch") or "").rpartition("/")[2]
    return quote(slug or one.hypothesis or f"round {one.number}", 60)


def _kind(one: Reviewed) -> str:
    if one.row.get("status") == "compose_conflict":
        return "conflict"
    if not one.is_ok:
        return "failed"
    verdict = one.verdict or ""
    return verdict.lower() if verdict in ("VERIFIED", "SUSPICIOUS", "FAILED") else "candidate"


def _depth(node: dict[str, Any], nodes: list[dict[str, Any]], places: dict[str, int]) -> int:
    depth, seen = 0, {node["id"]}
    while node["parents"] and node["parents"][0] in places and depth < MAX_DEPTH:
        node = nodes[places[node["parents"][0]]]
        if node["id"] in seen:
            break
        seen.add(node["id"])
        depth += 1
    return depth
