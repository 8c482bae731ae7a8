"""What the command line backends share: finding the program, its environment, and running it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from autoqec.agents.backends.base import Request, unavailable
from autoqec.agents.failures import RoleFailure
from autoqec.io.child_env import CHILD, NETWORK, kept
from autoqec.io.processes import Ended, run


def find_program(name: str, environ: Mapping[str, str], *, variable: str, install: str) -> str:
    path = shutil.which(name, path=environ.get("PATH", os.defpath))
    if path is None:
        raise unavailable(
            f"{variable} asks for the program {name!r}, and it is not on PATH", f"{install}, and log in once"
        )
    return path


QUIET = ("DO_NOT_TRACK", "DISABLE_TELEMETRY", "DISABLE_ERROR_REPORTING", "DISABLE_AUTOUPDATER")
"""By which a user says that programs report nothing to anybody and stay as they are."""


def cli_environment(environ: Mapping[str, str], login: Sequence[str]) -> dict[str, str]:
    """What the program is told: what every child is told, the network's settings, what not to report, and its own login.
    Nobody else's."""
    return kept((*CHILD, *NETWORK, *QUIET, *login), environ)


def past_proxies(environment: Mapping[str, str]) -> dict[str, str]:
    """For a program that talks to this machine: what it sends there goes through no proxy."""
    rest = environment.get("no_proxy") or environment.get("NO_PROXY")
    here = f"{rest},127.0.0.1" if rest else "127.0.0.1"
    return {**environment, "no_proxy": here, "NO_PROXY": here}


def run_program(
    command: Sequence[str], request: Request, environment: Mapping[str, str], prompt: Path
) -> Ended:
    """Runs it with the prompt as its input. The whole of what it started is ended at the deadline."""
    # The input of `run` is its own; the shell gives the program the file instead, and gives way to it.
    fed = ["/bin/sh", "-c", 'exec "$@" <"$0"', str(prompt), *command]
    ended = run(fed, cwd=request.folder, environment=environment, deadline_s=request.deadline_s)
    if ended.past_deadline:
        raise RoleFailure(
            "deadline",
            f"no answer within {request.deadline_s:.0f} s: {Path(command[0]).name} was ended",
            charged=True,
        )
    return ended
