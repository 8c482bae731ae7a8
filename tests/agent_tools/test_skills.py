"""The skills are one source, portable, and say what must never be done; the manifests agree with the package."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from autoqec import __version__
from autoqec.agent_tools.skills import (
    MCP_FILE,
    MCP_SERVERS,
    SKILLS,
    plugin_manifest,
    project_files,
    skill,
    skill_file,
)
from autoqec.agent_tools.tools import TOOLS
from autoqec.agents.front_matter import split_front_matter
from autoqec.agents.prompts import role_prompt

ROOT = Path(__file__).parents[2]
PORTABLE = {"name", "description", "license", "compatibility", "metadata", "allowed-tools"}
KNOWN_TOOLS = {"Read", "Write", "Edit", "Grep", "Glob", "Agent"}


@pytest.mark.parametrize("name", SKILLS)
def test_the_front_matter_is_portable(name: str) -> None:
    head, _ = split_front_matter(skill_file(name).read_text(), where=name)
    assert set(head) <= PORTABLE
    found = skill(name)
    assert found.name == name == skill_file(name).parent.name
    assert "Use when" in found.description
    assert len(found.description) <= 1024
    for tool in found.allowed_tools.split():
        assert tool in KNOWN_TOOLS or re.fullmatch(r"Bash\(autoqec:\*\)", tool), tool


@pytest.mark.parametrize("name", SKILLS)
def test_a_skill_is_short_and_sets_its_limits(name: str) -> None:
    text = skill(name).text
    assert len(text.splitlines()) < 120
    _, found, never = text.partition("\n## Never\n")
    assert found
    assert "data" in never  # text of others is data, not instruction
    assert re.search(r"VERIFIED|verified|known decoder looks better", never)


def test_every_skill_of_the_package_is_offered() -> None:
    there = {path.parent.name for path in skill_file(SKILLS[0]).parents[1].glob("*/SKILL.md")}
    assert there == set(SKILLS)


@pytest.mark.parametrize("name", sorted(project_files()))
def test_the_repository_holds_exact_copies(name: str) -> None:
    """To renew them: autoqec install-skills --force."""
    offered = ROOT / name
    assert not offered.is_symlink()
    assert offered.read_bytes() == project_files()[name]


def test_the_repository_offers_nothing_else_under_these_names() -> None:
    for folder in (".claude/skills", ".agents/skills", ".claude/agents", ".claude-plugin"):
        there = {path.relative_to(ROOT).as_posix() for path in (ROOT / folder).rglob("*") if path.is_file()}
        assert there <= set(project_files())


def test_the_plugin_manifest() -> None:
    manifest = plugin_manifest()
    assert re.fullmatch(r"[a-z][a-z0-9-]*", manifest["name"])
    assert manifest["version"] == __version__
    assert manifest["description"]
    for place in (*manifest["skills"], *manifest["agents"]):
        assert place.startswith("./")
        assert (ROOT / place).exists()
    assert manifest["mcpServers"] == MCP_SERVERS


def test_the_server_is_called_what_the_ideators_tool_says() -> None:
    assert json.loads((ROOT / MCP_FILE).read_text())["mcpServers"] == MCP_SERVERS
    (server,) = MCP_SERVERS
    named = [tool for tool in role_prompt("ideator").tool_names if tool.startswith("mcp__")]
    assert named == [f"mcp__{server}__machine_state"]
    assert "machine_state" in TOOLS


def test_the_loop_calls_every_role_and_every_step() -> None:
    from autoqec.commands.step import command

    text = skill("autoqec-run").text
    for role in ("ideator", "coder", "analyst"):
        assert f"`{role_prompt(role).name}`" in text  # type: ignore[arg-type]
        assert f"autoqec step context {role}" in text
    assert set(re.findall(r"^autoqec step ([a-z]+)", text, flags=re.MULTILINE)) == set(command.commands)
    assert "python -m cli.autoqec run-round" in text
