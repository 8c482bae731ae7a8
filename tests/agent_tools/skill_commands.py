"""The commands of the skills: how they are found, and how their words in capitals get values."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping

from autoqec.agent_tools.skills import skill

PLACEHOLDERS = (
    "ENV", "RUN_DIR", "RUN_ID", "ROUND_DIR", "TRIAL_DIR", "CONFIG", "COMMAND", "REPOSITORY", "BASE", "ATTEMPT", "N",
)  # fmt: skip
_WORD = re.compile(rf"(?<![A-Za-z_])({'|'.join(PLACEHOLDERS)})(?![A-Za-z_])|(?<=_)N(?=\.)")


def commands_of(name: str) -> list[str]:
    """Every line of every fenced bash block, in order."""
    blocks = re.findall(r"^```bash\n(.*?)^```$", skill(name).text, flags=re.MULTILINE | re.DOTALL)
    return [line for block in blocks for line in block.splitlines() if line.strip()]


def placeholders_of(command: str) -> set[str]:
    return {found[0] for found in _WORD.finditer(command)}


def filled(command: str, values: Mapping[str, str]) -> str:
    """COMMAND is a whole line of shell; every other value is one word of it."""
    if command == "COMMAND":
        return values["COMMAND"]
    return _WORD.sub(lambda found: shlex.quote(values[found[0]]), command)
