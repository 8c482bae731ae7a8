"""A run whose roles ask the fake programs."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

from contexts import CODE, IDEA, RUN_ID, WORDS

from autoqec.agents.roles import Roles
from autoqec.layout import RunDir

FAKES = Path(__file__).parent
ANSWERS = {"ideator": IDEA, "coder": CODE, "analyst": WORDS}
KEY = "sk-test-0123456789abcdef"


def fake_path() -> str:
    """A PATH with the fakes first, and the interpreter of these tests for them."""
    return os.pathsep.join([str(FAKES), str(Path(sys.executable).parent), os.environ["PATH"]])


class Desk:
    """A run folder, a home for the fakes, and roles that ask them."""

    def __init__(self, folder: Path, program: str) -> None:
        self.program = program
        self.home = folder / "home"
        self.home.mkdir()
        self.run = RunDir(folder / "runs" / RUN_ID)
        self.run.path.mkdir(parents=True)
        self.environ = {
            "PATH": fake_path(),
            "HOME": str(self.home),
            "AUTOQEC_IDEATOR_BACKEND": f"{program}-cli",
            "AUTOQEC_IDEATOR_MODEL": "claude-sonnet-5-5" if program == "claude" else "gpt-6.1-terra",
            "ANTHROPIC_API_KEY": f"{KEY}-anthropic",
            "OPENAI_API_KEY": f"{KEY}-openai",
            "GITHUB_TOKEN": "ghp_0123456789abcdef",
        }

    def plan(self, **entries: list[dict[str, Any]]) -> None:
        whole = {role: entries.get(role, [{"do": "answer", "answer": ANSWERS[role]}]) for role in ANSWERS}
        (self.home / "fake_llm.json").write_text(json.dumps(whole))

    def roles(self, **options: Any) -> Roles:
        return Roles(self.run, environ=self.environ, **{"backoff_s": 0.01, **options})

    def calls(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in (self.home / f"{self.program}.log").read_text().splitlines()]

    def left_behind(self) -> str:
        return "\n".join(path.read_text() for path in self.run.path.rglob("*") if path.is_file())
