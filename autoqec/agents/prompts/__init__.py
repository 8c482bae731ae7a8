"""The prompts of the roles: one file each, the very one that `.claude/agents/` offers to Claude Code.

`tools` in its front matter is the list of what the role may use, there and in the command line backends.
"""

from __future__ import annotations

from functools import cache
from importlib import resources
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from autoqec.agents.front_matter import split_front_matter
from autoqec.io.validate import validate_model

Role = Literal["ideator", "coder", "analyst"]


class RolePrompt(BaseModel):
    """description: when a coding agent should call the role. text: what is sent as the system prompt."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str = Field(pattern=r"^[a-z][a-z0-9-]{0,63}$")
    description: str = Field(min_length=1, max_length=1024)
    tools: str
    text: str = Field(min_length=1)

    @property
    def tool_names(self) -> tuple[str, ...]:
        return tuple(tool.strip() for tool in self.tools.split(","))


def prompt_file(role: Role) -> Path:
    return Path(str(resources.files(__name__))) / f"autoqec-{role}.md"


@cache
def role_prompt(role: Role) -> RolePrompt:
    path = prompt_file(role)
    head, text = split_front_matter(path.read_text(encoding="utf-8"), where=path.name)
    return validate_model({**head, "text": text}, RolePrompt, where=path.name)
