"""What a round took over from the checkpoint that it started from."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

_Count = Annotated[int, Field(ge=0)]


class ClassMatch(BaseModel):
    """Of the classes of one parameter: found in the checkpoint, not found there, and found nowhere but there."""

    model_config = ConfigDict(extra="forbid")

    matched: _Count
    unseen: _Count
    unused: _Count


class TransferReport(BaseModel):
    """sha256, env_name: the checkpoint, and what it was trained on. classes: by parameter, of those that neighbourhoods share; an
    unseen class starts at the default. taken: parameters that were taken as they are. left: those that start at the default,
    and why. unused: what the checkpoint has and this model has not.
    """

    model_config = ConfigDict(extra="forbid")

    sha256: str
    env_name: str
    classes: dict[str, ClassMatch] = Field(default_factory=dict)
    taken: list[str] = Field(default_factory=list)
    left: dict[str, str] = Field(default_factory=dict)
    unused: list[str] = Field(default_factory=list)

    def lines(self) -> list[str]:
        """For people."""
        found = [
            f"Started from {self.sha256[:12]}, trained on {self.env_name}: {len(self.taken)} parameters taken as they are"
        ]
        found += [
            f"  {name}: {match.matched} of {match.matched + match.unseen} classes found, {match.unseen} start at the default, "
            f"{match.unused} of the checkpoint unused"
            for name, match in self.classes.items()
        ]
        found += [f"  {name} starts at the default: {why}" for name, why in self.left.items()]
        return found + ([f"  unused: {', '.join(self.unused)}"] if self.unused else [])
