"""Runs the commands of the set-up: a line per step with its time, all output in a log, errors with a hint."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

HEARTBEAT_S = 30.0
TAIL_LINES = 25


class SetupError(Exception):
    """Set-up cannot continue: `what` happened, a `hint` what to do, and the end of the failed command's output."""

    def __init__(self, what: str, *, hint: str, tail: str = "") -> None:
        super().__init__(what)
        self.what = what
        self.hint = hint
        self.tail = tail

    def __str__(self) -> str:
        shown = f"{self.tail}\n\n" if self.tail else ""
        return f"{shown}error: set-up: {self.what}\n  hint: {self.hint}"


class Steps:
    """The steps of one set-up.

    `held` are file descriptors that every command inherits. The set-up's lock is one: a command that outlives
    a killed set-up keeps the lock, so that the next set-up waits for it instead of writing beside it.
    """

    def __init__(self, log: Path, *, held: Sequence[int] = ()) -> None:
        self.log = log
        self.held = tuple(held)
        self._started = time.monotonic()

    def say(self, text: str) -> None:
        print(f"[{time.monotonic() - self._started:6.1f} s] {text}", flush=True)

    def attempt(
        self,
        label: str,
        argv: Sequence[str | Path],
        *,
        env: Mapping[str, str] | None = None,
        failure: str = "failed",
    ) -> bool:
        """Run one command; whether it succeeded. `env` is added to the environment."""
        started = time.monotonic()
        print(f"[{started - self._started:6.1f} s] {label} ...", end="", flush=True)
        self.log.parent.mkdir(parents=True, exist_ok=True)
        with self.log.open("ab") as log:
            log.write(f"\n$ {' '.join(map(str, argv))}\n".encode())
            log.flush()
            code = self._wait([str(part) for part in argv], log.fileno(), env)
        verdict = "done" if code == 0 else failure
        print(f" {verdict} in {time.monotonic() - started:.1f} s", flush=True)
        return code == 0

    def run(
        self, label: str, argv: Sequence[str | Path], *, hint: str, env: Mapping[str, str] | None = None
    ) -> None:
        """Run one command that must succeed."""
        if not self.attempt(label, argv, env=env):
            raise SetupError(f"{label} failed; all output is in {self.log}", hint=hint, tail=self.tail())

    def tail(self) -> str:
        lines = self.log.read_text(errors="replace").splitlines()
        return "\n".join(f"  | {line}" for line in lines[-TAIL_LINES:])

    def _wait(self, argv: list[str], output: int, env: Mapping[str, str] | None) -> int:
        process = subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env={**os.environ, **(env or {})},
            pass_fds=self.held,
        )
        waited = 0.0
        try:
            while True:
                try:
                    return process.wait(timeout=HEARTBEAT_S)
                except subprocess.TimeoutExpired:
                    waited += HEARTBEAT_S
                    print(f" {waited:.0f} s", end="", flush=True)
        except BaseException:
            process.terminate()
            process.wait()
            print(" interrupted", file=sys.stderr, flush=True)
            raise
