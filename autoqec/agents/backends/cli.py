"""What the command line backends share: finding the program, its environment, running it, and reading its complaints."""

from __future__ import annotations

import os
import re
import shutil
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from autoqec.agents.backends.base import Request, unavailable
from autoqec.agents.failures import RoleFailure
from autoqec.io.child_env import CHILD, NETWORK, kept
from autoqec.io.processes import Ended, run

_LIMIT = re.compile(r"\b429\b|rate.?limit|usage limit|hit your .{0,20}limit|quota", re.IGNORECASE)
_OVERLOAD = re.compile(
    r"\b(500|502|503|504|529)\b|overloaded|at capacity|internal server error", re.IGNORECASE
)
_LOGIN = re.compile(
    r"\b401\b|invalid api key|/login|not logged in|unauthorized|authentication", re.IGNORECASE
)
_WAIT = re.compile(r"(?:retry|try again|retrying)\D{0,12}?(\d+(?:\.\d+)?) ?(ms|s|m|h)", re.IGNORECASE)
_RESET = re.compile(r"limit reached\|(\d{9,11})\b")
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}


def find_program(name: str, environ: Mapping[str, str], *, variable: str, install: str) -> str:
    path = shutil.which(name, path=environ.get("PATH", os.defpath))
    if path is None:
        raise unavailable(
            f"{variable} asks for the program {name!r}, and it is not on PATH", f"{install}, and log in once"
        )
    return path


def cli_environment(environ: Mapping[str, str], login: Sequence[str]) -> dict[str, str]:
    """What the program is told: what every child is told, the network's settings, and its own login. Nobody else's."""
    return kept((*CHILD, *NETWORK, *login), environ)


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


def complaint(text: str, *, program: str, login: str, charged: bool = True) -> RoleFailure:
    """The failure that a program's error message reports."""
    message = " ".join(text.split())[:400] or "no message"
    if _LIMIT.search(text):
        return RoleFailure("rate_limit", f"{program}: {message}", retry_after_s=_wait(text))
    if _LOGIN.search(text):
        return RoleFailure("login", f"{program}: {message}", hint=login)
    if _OVERLOAD.search(text):
        return RoleFailure("overloaded", f"{program}: {message}", retry_after_s=_wait(text))
    return RoleFailure("crash", f"{program}: {message}", charged=charged)


def _wait(text: str) -> float | None:
    if (reset := _RESET.search(text)) is not None:
        return max(0.0, int(reset[1]) - time.time())
    wait = _WAIT.search(text)
    return None if wait is None else float(wait[1]) * _SECONDS[wait[2].lower()]
