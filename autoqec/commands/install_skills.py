"""`autoqec install-skills`: AutoQEC for the coding agents of a project."""

from __future__ import annotations

from pathlib import Path

import click

from autoqec.commands.options import OutFolder
from autoqec.commands.output import print_json


@click.command()
@click.option(
    "--dest",
    type=OutFolder(),
    default=Path(),
    help="The project. Default: the current folder.",
)
@click.option("--force", is_flag=True, help="Overwrite files that were changed by hand.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of lines.")
def command(dest: Path, force: bool, as_json: bool) -> None:
    """Install skills, subagents, the plugin manifest and the MCP server's entry into a project.

    Skills go to .claude/skills and .agents/skills, subagents to .claude/agents. A file that you changed stays:
    the command says which, writes nothing and exits with code 2.
    """
    from autoqec.agent_tools.install import install

    done = install(dest, force=force)
    if as_json:
        print_json({"dest": str(dest.resolve()), "wrote": done.wrote, "unchanged": done.unchanged})
        return
    for name in done.wrote:
        click.echo(f"wrote {name}")
    click.echo(f"{len(done.wrote)} files written, {len(done.unchanged)} were there already")
