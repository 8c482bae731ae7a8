"""Command lines played in a process of their own, and what must hold of each that got bad input."""

from __future__ import annotations

import hashlib
import json
import os
import select
import shutil
import signal
import stat
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

HANG_S = 300.0
"""Far beyond what any bad input may take: what has not ended by then waits for something that never comes."""
LONGEST = 8_000
"""Characters of an error message: what is quoted of the input is cut."""

T = TypeVar("T")


@dataclass(frozen=True)
class Case:
    """A command line. codes: exit codes that are right for it. says: what the error message of an exit code 2 has to name, any of them.
    leaves: ends of the names of what it may write all the same."""

    args: tuple[str, ...]
    codes: frozenset[int] = frozenset({2})
    says: tuple[str, ...] = ()
    leaves: tuple[str, ...] = ()
    stdin: bytes = b""
    as_json: bool = False

    @property
    def name(self) -> str:
        return " ".join(word if len(word) < 60 else f"{word[:50]}...({len(word)})" for word in self.args)


@dataclass
class Outcome:
    code: int
    out: str
    err: str
    crash: str | None


class Player:
    """Runs cases one at a time. A process that hangs or dies is replaced by a new one, and the case says so."""

    def __init__(self, cwd: Path, **variables: str) -> None:
        self._cwd = cwd
        self._variables = variables
        self._process: subprocess.Popen[str] | None = None

    def __enter__(self) -> Player:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()

    def play(self, case: Case) -> Outcome | str:
        """What the command line did; or in words that it did not end."""
        process = self._process or self._start()
        assert process.stdin is not None
        assert process.stdout is not None
        question = {
            "args": case.args,
            "cwd": str(self._cwd),
            "stdin": case.stdin.hex(),
            "env": {"AUTOQEC_ERROR_JSON": "1" if case.as_json else None},
        }
        process.stdin.write(json.dumps(question) + "\n")
        process.stdin.flush()
        if not select.select([process.stdout], [], [], HANG_S)[0]:
            self._end()
            return "hangs"
        answer = process.stdout.readline()
        if not answer:
            return f"its process died with exit code {self._end()}"
        return Outcome(**json.loads(answer))

    def _start(self) -> subprocess.Popen[str]:
        self._process = subprocess.Popen(
            [sys.executable, "-W", "ignore", str(Path(__file__).with_name("fuzz_worker.py"))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env={**os.environ, **self._variables},
            start_new_session=True,
        )
        return self._process

    def _end(self) -> int | None:
        """Ends the process and its children. Its number is its own until it is waited for, so that no other process is hit."""
        process, self._process = self._process, None
        if process is None:
            return None
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        return process.returncode


@dataclass
class Judge:
    """Plays cases in a folder that they must not change, and collects what is wrong with their outcomes.

    restore: makes anew what cases may destroy. about: what was done to the files they read."""

    player: Player
    folder: Path
    restore: Callable[[], None]
    about: str = ""
    wrong: list[str] = field(default_factory=list)
    played: int = 0

    def judge(self, cases: Iterable[Case]) -> None:
        before = signature(self.folder)
        for case in cases:
            self.played += 1
            done = self.player.play(case)
            after = signature(self.folder)
            problems = list(_problems(case, done))
            if before != after:
                changed = sorted(
                    name for name in before.keys() | after.keys() if before.get(name) != after.get(name)
                )
                worked = isinstance(done, Outcome) and done.code in (0, 3)
                if not worked and not all(name.endswith(case.leaves) for name in changed):
                    problems.append(f"changed {', '.join(repr(name[-120:]) for name in changed[:5])}")
                self._clear(before, after)
                self.restore()
                before = signature(self.folder)
            self.wrong += [f"{self.about} {case.name}: {problem}" for problem in problems]

    def _clear(self, before: dict[str, Any], after: dict[str, Any]) -> None:
        """Removes what a command has left, so that the next one finds the folder as it was."""
        for name in sorted(after.keys() - before.keys(), reverse=True):
            path = Path(name)
            shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink(missing_ok=True)


def _problems(case: Case, done: Outcome | str) -> Iterator[str]:
    if isinstance(done, str):
        yield done
        return
    if done.crash is not None:
        yield f"crashed:\n{done.crash}"
        return
    if done.code not in case.codes:
        yield f"exit code {done.code}, expected {sorted(case.codes)}: {(done.err or done.out)[-300:]}"
    if done.code == 2:
        yield from _message_problems(case, done)
    if "Traceback" in done.err + done.out:
        yield f"shows a traceback: {done.err[-2000:]}"
    if done.code == 0 and "--json" in case.args:
        try:
            json.loads(done.out, parse_constant=_no_constant)
        except ValueError as error:
            yield f"--json printed no JSON: {error}: {done.out[:200]}"


def _no_constant(text: str) -> None:
    raise ValueError(f"{text} is not JSON")


def _message_problems(case: Case, done: Outcome) -> Iterator[str]:
    lines = done.err.splitlines()
    own = [line for line in lines if line.startswith("error: ")]
    if case.as_json:
        try:
            told = json.loads(lines[-1])
            if (
                told.keys() != {"error", "what", "where", "hint", "exit_code"}
                or told["exit_code"] != done.code
            ):
                yield f"not the error that the contract describes: {lines[-1][:300]}"
        except (IndexError, ValueError):
            yield f"no line of JSON: {done.err[-300:]!r}"
    elif len(own) != 1:
        yield f"{len(own)} lines of error: {done.err[-600:]!r}"
    if len(done.err) > LONGEST:
        yield f"a message of {len(done.err)} characters: {done.err[:200]!r}"
    if case.says and not any(word in done.err for word in case.says):
        yield f"names none of {case.says}: {done.err[-400:]!r}"


def signature(folder: Path) -> dict[str, Any]:
    """Everything below a folder that a command could have changed; lock files may come and go."""
    found: dict[str, Any] = {}
    for root, folders, files in os.walk(folder):
        for name in (*folders, *files):
            path = f"{root}/{name}"
            about = os.lstat(path)
            if stat.S_ISREG(about.st_mode) and not name.endswith(".lock") and name != "index":
                found[path] = (about.st_ino, about.st_size, about.st_mtime_ns, about.st_mode)
            elif not stat.S_ISREG(about.st_mode):
                found[path] = about.st_mode
    return found


def some(cases: Sequence[T], count: int, *, salt: str = "") -> list[T]:
    """`count` of the cases, always the same ones, spread over all of them."""
    ranked = sorted(range(len(cases)), key=lambda i: hashlib.sha256(f"{salt} {i}".encode()).digest())
    return [cases[i] for i in sorted(ranked[:count])]
