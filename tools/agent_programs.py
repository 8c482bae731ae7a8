"""`make test-agents`: the tests of mark `agents` with the real Claude Code and Codex, without a network.

Both programs are installed from the npm registry into build/agent-programs. The tests then run in a network namespace of their
own whose only interface is loopback; the vendor that the programs talk to is a test helper. Where npm or such a namespace is
missing, this says so and ends well. What the programs did is printed as tables.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import socket
import struct
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from autoqec.commands.output import print_table

FOLDER = Path(__file__).resolve().parents[1] / "build" / "agent-programs"
PROGRAMS = {"claude": "@anthropic-ai/claude-code@2.1.325", "codex": "@openai/codex@0.166.0"}
"""The tested versions; docs/llm.md names them, too. The programs are native: node only installs and starts them."""
VARIABLE = "AUTOQEC_AGENT_PROGRAMS"
TABLES = {
    "runs": ("Whole runs", ("program", "version", "cap USD", "result", "bill USD", "ledger USD")),
    "limits": ("Tool limits tried", ("program", "role", "tried", "came of it")),
    "failures": ("Kinds of failure", ("program", "provoked by", "kind", "requests", "the program says")),
}
_SIOCSIFFLAGS, _IFF_UP = 0x8914, 0x1
_INSIDE = "--inside"


def namespace() -> list[str] | None:
    """The command that gives a program a network namespace; None where there is none for this user."""
    for options in (["-n"], ["-r", "-n"]):
        command = ["unshare", *options, "--"]
        if (
            shutil.which("unshare")
            and not subprocess.run([*command, "true"], capture_output=True, check=False).returncode
        ):
            return command
    return None


def installed() -> str | None:
    """Installs what is not there yet; what is missing, if it cannot be."""
    wanted = {"dependencies": dict(spec.rsplit("@", 1) for spec in PROGRAMS.values())}
    record = FOLDER / "installed.json"
    if not record.exists() or json.loads(record.read_text()) != wanted:
        if shutil.which("npm") is None:
            return "npm is not on PATH"
        shutil.rmtree(FOLDER, ignore_errors=True)
        FOLDER.mkdir(parents=True)
        command = ["npm", "install", "--no-audit", "--no-fund", "--prefix", str(FOLDER), *PROGRAMS.values()]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            return f"npm cannot install them: {' '.join(done.stderr.split())[-300:]}"
    for name in PROGRAMS:
        program = FOLDER / "node_modules" / ".bin" / name
        started = subprocess.run([program, "--version"], capture_output=True, text=True, check=False)
        if started.returncode:
            return f"{name} does not start here: {' '.join(started.stderr.split())[-300:]}"
    record.write_text(json.dumps(wanted))
    return None


def bring_up_loopback() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        fcntl.ioctl(any_socket, _SIOCSIFFLAGS, struct.pack("16sh", b"lo", _IFF_UP))


def print_tables() -> None:
    rows = [
        json.loads(line)
        for path in sorted(FOLDER.glob("rows-*.jsonl"))
        for line in path.read_text().splitlines()
    ]
    for name, (title, columns) in TABLES.items():
        if found := sorted(row[1:] for row in rows if row[0] == name):
            print_table(title, columns, [tuple(row) for row in found])


def main(arguments: Sequence[str]) -> int:
    if arguments[:1] == [_INSIDE]:
        bring_up_loopback()
        return subprocess.run(
            [sys.executable, "-m", "pytest", "-m", "agents", *arguments[1:]], check=False
        ).returncode
    alone = namespace()
    missing = "this user can make no network namespace (unshare -n)" if alone is None else installed()
    if alone is None or missing is not None:
        print(f"Skipped: the tests with the real agent programs. {missing}")
        return 0
    for path in FOLDER.glob("rows-*.jsonl"):
        path.unlink()
    told = {**os.environ, VARIABLE: str(FOLDER)}
    done = subprocess.run([*alone, sys.executable, __file__, _INSIDE, *arguments], env=told, check=False)
    print_tables()
    return done.returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
