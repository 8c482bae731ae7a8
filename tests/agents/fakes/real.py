"""The real programs, as `make test-agents` installs them, in place of the fakes; and what they did, for its tables."""

from __future__ import annotations

import errno
import json
import os
import socket
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from desk import Desk

FOLDER = Path(os.environ.get("AUTOQEC_AGENT_PROGRAMS", ""))
BIN = FOLDER / "node_modules" / ".bin"
HERE = "AUTOQEC_AGENT_PROGRAMS" in os.environ


def only_loopback() -> bool:
    with socket.socket() as outside:
        outside.settimeout(1.0)
        return outside.connect_ex(("192.0.2.1", 80)) == errno.ENETUNREACH


def real(test: Any) -> Any:
    """A test with the real programs. Nothing outside this machine can be reached by them."""
    missing = not HERE or not only_loopback()
    skip = pytest.mark.skipif(missing, reason="`make test-agents` installs the programs and cuts the network")
    return pytest.mark.agents(skip(test))


def real_path() -> str:
    return os.pathsep.join([str(BIN), os.environ["PATH"]])


@cache
def version(program: str) -> str:
    said = subprocess.run([BIN / program, "--version"], capture_output=True, text=True, check=True).stdout
    return next(word for word in said.split() if word[0].isdigit())


def note(table: str, *row: object) -> None:
    """A row of a table of tools/agent_programs.py."""
    with (FOLDER / f"rows-{os.getpid()}.jsonl").open("a") as file:
        file.write(json.dumps([table, *map(str, row)]) + "\n")


class RealDesk(Desk):
    """Desk, whose roles ask the real programs; a vendor on loopback answers those."""

    def __init__(self, folder: Path, program: str, url: str) -> None:
        super().__init__(folder, program)
        self.environ |= {"PATH": real_path(), "ANTHROPIC_BASE_URL": url, "OPENAI_BASE_URL": f"{url}/v1"}

    def outcomes(self) -> list[tuple[str, str]]:
        """(kind, what) of every call: "ok", or how it failed."""
        rows = [json.loads(line) for line in self.run.llm_calls.read_text().splitlines()]
        return [
            (row["failure"]["kind"], row["failure"]["what"])
            if "failure" in row
            else (row["reply"]["ended"] or "ok", "")
            for row in rows
        ]

    @property
    def version(self) -> str:
        return version(self.program)
