"""`autoqec fork-graph`: which round came from which."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from autoqec.commands.named import RunPath
from autoqec.commands.output import print_json


@click.command()
@click.argument("run_dir", type=RunPath(file_okay=False))
@click.option("--json", "kind", flag_value="json", help="What fork_graph.json holds.")
@click.option("--dot", "kind", flag_value="dot", help="For Graphviz, e.g. | dot -Tsvg -o graph.svg.")
@click.option("--text", "kind", flag_value="text", default="text", help="A tree (the default).")
def command(run_dir: Path, kind: str) -> None:
    """Show how the rounds of RUN_DIR descend from the baseline and from each other.

    Reads the run and writes nothing. A VERIFIED round is marked where no report of this machine's verifier backs it, and then
    the exit code is 1.
    """
    from autoqec.runs import fork_graph
    from autoqec.runs.run import Run

    graph = fork_graph.checked(Run.open(run_dir))
    if kind == "json":
        print_json(graph)
    else:
        click.echo(fork_graph.to_dot(graph) if kind == "dot" else fork_graph.to_text(graph), nl=False)
    sys.exit(0 if all(node.get("backed", True) for node in graph["nodes"]) else 1)
