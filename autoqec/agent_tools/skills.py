"""Skills, subagents and manifests: what a project offers to coding agents, from one source in this package."""

from __future__ import annotations

import json
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any, get_args

from pydantic import BaseModel, ConfigDict, Field

from autoqec import __version__
from autoqec.agents.front_matter import split_front_matter
from autoqec.agents.prompts import Role, prompt_file
from autoqec.io.validate import validate_model

SKILLS = ("autoqec-run", "add-env", "verify-decoder", "review-log", "diagnose-failure")
SKILL_FOLDERS = (".claude/skills", ".agents/skills")
"""Claude Code's and Codex's."""

MCP_FILE = ".mcp.json"
MCP_SERVERS: dict[str, Any] = {"autoqec": {"command": "autoqec", "args": ["mcp"]}}
"""The name is part of the tools' names: `mcp__autoqec__machine_state` is what the Ideator may call."""


class Skill(BaseModel):
    """The portable front matter, and the recipe. description: when a coding agent should use it."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str = Field(pattern=r"^[a-z0-9]+(-[a-z0-9]+)*$", max_length=64)
    description: str = Field(min_length=1, max_length=1024)
    allowed_tools: str = Field(alias="allowed-tools", min_length=1)
    license: str | None = None
    compatibility: str | None = Field(default=None, max_length=500)
    metadata: dict[str, str] = Field(default_factory=dict)
    text: str = Field(min_length=1)


def skill_file(name: str) -> Path:
    return Path(str(resources.files(__package__))) / "skills" / name / "SKILL.md"


@cache
def skill(name: str) -> Skill:
    where = f"{name}/SKILL.md"
    head, text = split_front_matter(skill_file(name).read_text(encoding="utf-8"), where=where)
    return validate_model({**head, "text": text}, Skill, where=where)


def plugin_manifest() -> dict[str, Any]:
    return {
        "name": "autoqec",
        "version": __version__,
        "description": "Discovers neural predecoders for quantum error-correcting codes, and verifies what it finds",
        "license": "MIT",
        "keywords": ["quantum error correction", "decoders", "research loop"],
        "skills": ["./.claude/skills/"],
        "agents": [f"./.claude/agents/{prompt_file(role).name}" for role in get_args(Role)],
        "mcpServers": MCP_SERVERS,
    }


def project_files() -> dict[str, bytes]:
    """Every file that a project gets whole, by its path in the project."""
    files = {
        f"{folder}/{name}/SKILL.md": skill_file(name).read_bytes()
        for folder in SKILL_FOLDERS
        for name in SKILLS
    }
    for role in get_args(Role):
        files[f".claude/agents/{prompt_file(role).name}"] = prompt_file(role).read_bytes()
    files[".claude-plugin/plugin.json"] = pretty(plugin_manifest())
    return files


def pretty(value: Any) -> bytes:
    return (json.dumps(value, indent=2, ensure_ascii=False) + "\n").encode()
