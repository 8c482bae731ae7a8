"""What is known about predecoders: the files of `autoqec/knowledge`, chosen for an environment and a role."""

from __future__ import annotations

from functools import cache
from importlib import resources
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from autoqec.agents import fences
from autoqec.agents.front_matter import split_front_matter
from autoqec.agents.prompts import Role
from autoqec.envs.schema import EnvSpec
from autoqec.io.validate import validate_model


class Topic(BaseModel):
    """One file. noise: the noise types that it is about; None for all. priority: the smaller, the sooner it is told."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    title: str = Field(min_length=1)
    backends: list[Literal["mwpm", "osd"]] = Field(min_length=1)
    roles: list[Role] = Field(min_length=1)
    priority: int = Field(ge=0)
    noise: list[Literal["depolarizing", "biased", "leakage", "custom_dem"]] | None = None
    text: str = Field(min_length=1)

    def applies(self, role: Role, spec: EnvSpec) -> bool:
        return (
            role in self.roles
            and spec.classical_backend in self.backends
            and (self.noise is None or spec.noise.type in self.noise)
        )


@cache
def topics() -> tuple[Topic, ...]:
    """All files, the most important first."""
    found = []
    for file in resources.files("autoqec.knowledge").iterdir():
        if file.name.endswith(".md"):
            head, text = split_front_matter(file.read_text(encoding="utf-8"), where=file.name)
            found.append(validate_model({**head, "text": text.strip()}, Topic, where=file.name))
    return tuple(sorted(found, key=lambda topic: (topic.priority, topic.title)))


def excerpts(role: Role, spec: EnvSpec, *, limit: int) -> str:
    """The topics that apply, in order, until `limit` tokens are used. One that does not fit ends after a whole line."""
    parts: list[str] = []
    for topic in topics():
        if not topic.applies(role, spec):
            continue
        kept = [f"## {topic.title}"]
        for line in topic.text.splitlines():
            if fences.tokens("\n".join([*parts, *kept, line])) > limit:
                break
            kept.append(line)
        if len(kept) > 1:
            parts.append("\n".join(kept).rstrip())
    return "\n".join(parts)
