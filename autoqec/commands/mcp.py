"""`autoqec mcp`: AutoQEC's tools for any MCP client."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import click

from autoqec.commands.options import AnyPath
from autoqec.errors import UnavailableError


@click.command()
@click.option(
    "--root",
    type=AnyPath(),
    default=Path(),
    help="The workspace: tools read and write nothing outside it. Default: the current folder.",
)
def command(root: Path) -> None:
    """Serve AutoQEC's tools over standard input and output (Model Context Protocol), until the client leaves."""
    from autoqec.agent_tools.workspace import Workspace

    workspace = Workspace.at(root)
    if find_spec("mcp") is None:
        raise UnavailableError(
            "the mcp library is not installed", where="autoqec mcp", hint='pip install "autoqec[mcp]"'
        )
    from autoqec.agent_tools.mcp_server import serve

    serve(workspace)
