"""Workers of lanes for the tests: they answer, end their lane, or wait."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

from autoqec.executors.protocol import Worker


class Echo(Worker):
    """Answers with what it was told and asked; `die:FILE` ends the lane while FILE exists, and removes it; `always:FILE` ends it, and adds
    a line to FILE; `stay:FILE` writes its process id there and never answers; `touch:FILE` makes FILE."""

    def __init__(self) -> None:
        self._told = b""

    def tell(self, message: bytes) -> None:
        self._told = message

    def answer(self, message: bytes) -> bytes:
        verb, _, name = message.decode().partition(":")
        if verb == "touch":
            Path(name).touch()
        if verb == "always":
            with Path(name).open("a") as attempts:
                attempts.write("once more\n")
            os.kill(os.getpid(), signal.SIGKILL)
        if verb == "die" and Path(name).exists():
            Path(name).unlink()
            os.kill(os.getpid(), signal.SIGKILL)
        if verb == "stay":
            Path(name).write_text(f"{os.getpid()}\n")
            while True:
                time.sleep(3600)
        if verb == "variable":
            return os.environ.get(name, "").encode()
        return self._told + message
