"""`fork_graph.json`: which round came from which, and what became of it. The Ideator reads it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from autoqec.eval.pareto import read_front
from autoqec.io import atomic
from autoqec.io.jsonl import Row
from autoqec.runs.backing import backed_front, why_no_report
from autoqec.runs.history import FOLLOW_UPS
from autoqec.runs.run import Run
from autoqec.search.proposal import BASELINE

Graph = dict[str, Any]
_KEPT = (
    "round", "round_attempt_id", "branch", "commit_sha", "status", "status_reason", "hypothesis", "verdict", "compose_mode",
    "delta_ler", "delta_ler_ci_low", "delta_ler_ci_high", "delta_vs_parent", "flops_per_syndrome", "n_params",
    "conflicting_files",
)  # fmt: skip


def build(run: Run) -> Graph:
    """Nodes in the order of their rounds. branch_exists: whether the branch is still there to fork from.

    As the loop sees it, which wrote history and front; `checked` is for other readers.
    """
    rows = run.history.rows()
    branches = {ref.removeprefix("refs/heads/") for ref in run.repository.reader.refs("refs/heads/")}
    front = {member.commit_sha for member in read_front(run.files.path)}
    fates = {row["branch"]: row["status"] for row in rows if row["status"] in FOLLOW_UPS}
    nodes = [_node(row, branches, front, fates) for row in rows if row["status"] != "branch_manually_deleted"]
    recorded = {row["round_attempt_id"] for row in rows}
    for file in run.journals():
        journal = file.journal
        if journal.round_attempt_id not in recorded:
            fields = {
                "round": journal.round,
                "hypothesis": journal.proposal.hypothesis,
                "fork_from": journal.proposal.fork_from,
            }
            row = {**fields, "branch": journal.name.branch, "status": "in_flight"}
            row |= {
                "round_attempt_id": journal.round_attempt_id,
                "compose_mode": journal.proposal.compose_mode,
            }
            nodes.append(_node(row, branches, front, fates))
    nodes.sort(key=lambda node: (node["round"] or 0, node["id"]))
    return {
        "run_id": run.run_id,
        "base_commit": run.info.base_commit,
        "nodes": nodes,
        "edges": [[parent, node["id"]] for node in nodes for parent in node["parents"]],
    }


def checked(run: Run) -> Graph:
    """The graph, in which a VERIFIED round says whether the verifier's own report backs it (`backed`, `not_backed`: why not), and
    a star is a backed row of the front."""
    graph, front = build(run), backed_front(run.files.path)
    on_front = {row.commit_sha for row in front.archive.front}
    reasons = {each.row.commit_sha: each.reason for each in front.unbacked}
    rows = {row["commit_sha"]: row for row in run.history.rows() if row["verdict"] == "VERIFIED"}
    for node in graph["nodes"]:
        node["on_front"] = node["commit_sha"] in on_front
        if node["verdict"] == "VERIFIED":
            reason = reasons.get(node["commit_sha"]) or why_no_report(run.files, rows[node["commit_sha"]])
            node |= {"backed": reason is None, "not_backed": reason}
    return graph


def publish(run: Run) -> Graph:
    graph = build(run)
    atomic.write_text(run.files.fork_graph, json.dumps(graph, indent=1, ensure_ascii=False) + "\n")
    return graph


def to_text(graph: Graph) -> str:
    """The graph as a tree; a compose round stands under its first parent and names the others."""
    children: dict[str, list[Graph]] = {}
    for node in graph["nodes"]:
        children.setdefault(node["parents"][0] if node["parents"] else BASELINE, []).append(node)
    known = {BASELINE, *(node["id"] for node in graph["nodes"])}
    lines = [f"{BASELINE} ({graph['base_commit'][:12]})"]
    for parent in [BASELINE, *sorted(children.keys() - known)]:
        lines += _branch_lines(parent, children, "")
    for parent in sorted(children):  # in a circle
        lines += _branch_lines(parent, children, "")
    return "\n".join(lines) + "\n"


def to_dot(graph: Graph) -> str:
    """For Graphviz."""
    lines = [f"digraph {_quoted(graph['run_id'])} {{", "  rankdir=LR; node [shape=box, fontname=monospace];"]
    lines.append(f"  {_quoted(BASELINE)};")
    for node in graph["nodes"]:
        style = "solid" if node["status"] == "ok" else "dashed"
        colour = "forestgreen" if node["on_front"] else "black"
        lines.append(
            f"  {_quoted(node['id'])} [label={_quoted(_label(node))}, style={style}, color={colour}];"
        )
    lines += [f"  {_quoted(parent)} -> {_quoted(child)};" for parent, child in graph["edges"]]
    return "\n".join([*lines, "}"]) + "\n"


def _node(row: Row, branches: set[str], front: set[str], fates: dict[str, str]) -> Graph:
    fork = row.get("fork_from")
    branch = row.get("branch")
    parents = [] if fork is None else [fork] if isinstance(fork, str) else list(fork)
    return {
        "id": branch or f"attempt {row.get('round_attempt_id') or row.get('reconcile_id')}",
        "parents": parents,
        **{name: row.get(name) for name in _KEPT},
        "branch_exists": branch in branches,
        "on_front": row.get("commit_sha") in front,
        "fate": fates.get(branch or ""),
    }


def _branch_lines(parent: str, children: dict[str, list[Graph]], indent: str) -> Iterator[str]:
    """Each parent's children once: a history that somebody wrote may go in circles."""
    below = children.pop(parent, [])
    for node in below:
        last = node is below[-1]
        yield f"{indent}{'└─ ' if last else '├─ '}{_label(node)}"
        yield from _branch_lines(node["id"], children, indent + ("   " if last else "│  "))


def _label(node: Graph) -> str:
    verdict = str(node["verdict"] or node["status"])
    parts = [
        node["id"].rpartition("/")[2],
        verdict if node.get("backed", True) else f"{verdict} (not backed)",
    ]
    if node["delta_ler"] is not None:
        parts.append(f"delta {node['delta_ler']:.3g}")
    if len(node["parents"]) > 1:
        parts.append("with " + ", ".join(name.rpartition("/")[2] for name in node["parents"][1:]))
    if node["conflicting_files"]:
        parts.append("in " + ", ".join(node["conflicting_files"][:4]))
    if node["fate"] and node["fate"] != node["status"]:
        parts.append(node["fate"])
    if node["on_front"]:
        parts.append("*")
    return "  ".join(parts)


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'
