"""One call of AutoQEC's command line: in a process of its own, to a deadline, with a bounded answer.

A process ends with all that it started when the call is cancelled and when the server ends, also if that is killed.
It gets the variables of any child that runs foreign code and no others, and the package that the server runs from,
whatever stands in the workspace.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import anyio
from anyio.abc import ByteReceiveStream

import autoqec
from autoqec.errors import ERROR_JSON, AutoQECError
from autoqec.io import processes
from autoqec.io.child_env import child_environment
from autoqec.io.watchdog import DEADLINE_CODE

ANSWER_BYTES = 200_000
ERROR_BYTES = 20_000


async def call_cli(
    arguments: Sequence[str], *, cwd: Path, deadline_s: float, variables: Mapping[str, str]
) -> Any:
    """What `autoqec *arguments` prints, as plain data.

    Raises:
        AutoQECError: it printed no JSON, too much of it, or ran past the deadline; the message is its own where it has one.
    """
    source = Path(autoqec.__file__).resolve().parents[1]
    command = [sys.executable, "-P", "-m", "autoqec", *arguments]
    process = await anyio.open_process(
        processes.watched(command, deadline_s),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=cwd,
        env=child_environment(PYTHONPATH=str(source), **{ERROR_JSON: "1"}, **variables),
        start_new_session=True,
    )
    answer, log = bytearray(), bytearray()
    try:
        async with anyio.create_task_group() as group:
            group.start_soon(_read_start, process.stdout, answer)  # type: ignore[arg-type]
            group.start_soon(_read_end, process.stderr, log)  # type: ignore[arg-type]
            code = await process.wait()
    finally:
        with anyio.CancelScope(shield=True):
            await process.stdin.aclose()  # type: ignore[union-attr]
            await process.aclose()
    where = f"autoqec {arguments[0]}"
    if code == DEADLINE_CODE:
        raise AutoQECError(
            f"ran past {deadline_s:g} s and was ended, with all that it had started",
            where=where,
            hint="allow more time, or ask for less work",
        )
    if len(answer) > ANSWER_BYTES:
        raise AutoQECError(
            f"answers more than {ANSWER_BYTES} bytes",
            where=where,
            hint="run it in a shell, with --json into a file, and read what you need of it",
        )
    try:
        return json.loads(answer)
    except ValueError:
        message = log.decode(errors="replace").strip()
        raise _own_error(message) or AutoQECError(f"ended with code {code}: {message[-600:]}") from None


def _own_error(log: str) -> AutoQECError | None:
    """The error that the command line printed, as the last line of its log; None if it ended otherwise."""
    try:
        found = json.loads(log.rpartition("\n")[2])
        return AutoQECError(found["what"], where=found["where"], hint=found["hint"])
    except (ValueError, TypeError, KeyError):
        return None


async def _read_start(stream: ByteReceiveStream, into: bytearray) -> None:
    """Reads to the end, keeps the start: a pipe that nobody reads would stop the command."""
    async for chunk in stream:
        into += chunk[: ANSWER_BYTES + 1 - len(into)]


async def _read_end(stream: ByteReceiveStream, into: bytearray) -> None:
    async for chunk in stream:
        into += chunk
        del into[:-ERROR_BYTES]
