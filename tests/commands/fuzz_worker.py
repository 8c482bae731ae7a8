"""Plays command lines one after the other in a process of its own, which may hang, die or run out of memory.

A line of JSON on standard input is a command line, its working directory, standard input and environment; a line on
standard output says what it did. Nothing that a command prints reaches these.
"""

from __future__ import annotations

import json
import os
import resource
import sys
import traceback
from pathlib import Path
from typing import Any

from click.testing import CliRunner

from autoqec.commands import main

MEMORY = 12 << 30
"""Bytes of address space: an input that asks for more shows as an error, and not as a machine that swaps."""


def play(case: dict[str, Any]) -> dict[str, Any]:
    os.chdir(case["cwd"])
    done = CliRunner().invoke(main, case["args"], input=bytes.fromhex(case["stdin"]), env=case["env"])
    crash = None
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        crash = "".join(traceback.format_exception(*done.exc_info))  # type: ignore[misc]
    return {"code": done.exit_code, "out": done.stdout, "err": done.stderr, "crash": crash}


def serve() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    answers = os.fdopen(os.dup(1), "w")
    questions = os.fdopen(os.dup(0), "r")
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 0)
    os.dup2(nothing, 1)
    for line in questions:
        print(json.dumps(play(json.loads(line))), file=answers, flush=True)


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[2]))
    serve()
