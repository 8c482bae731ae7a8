"""Processes that start warm: forked from a server that has imported what commands import, which takes a new interpreter seconds.

They are real processes, with a working directory, environment, standard streams and exit code of their own. What a test says
about imports, signals, terminals or pipes of a shell takes a new interpreter.
"""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

WARM = multiprocessing.get_context("forkserver")
WARM.set_forkserver_preload(
    ["pytest", "torch", "optuna", "pymatching", "autoqec.api.comparison", "autoqec.api.rounds", "autoqec.commands", "autoqec.eval.pareto"]
)  # fmt: skip


def _command(words: tuple[str, ...], cwd: str, environment: dict[str, str], streams: str) -> None:
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(cwd)
    for number, flags in enumerate((os.O_RDONLY, os.O_WRONLY, os.O_WRONLY)):
        os.dup2(os.open(f"{streams}/{number}", flags), number)
    sys.stdin = open(0)  # noqa: SIM115
    sys.argv = ["autoqec", *words]
    from autoqec.commands import main

    main(words)


def autoqec(
    *words: str, cwd: Path | None = None, env: Mapping[str, str] | None = None, stdin: bytes = b""
) -> subprocess.CompletedProcess[bytes]:
    """`autoqec` with these words, to its end."""
    environment = dict(os.environ if env is None else env)
    with TemporaryDirectory() as folder:
        for name, content in (("0", stdin), ("1", b""), ("2", b"")):
            (Path(folder) / name).write_bytes(content)
        process = WARM.Process(target=_command, args=(words, str(cwd or Path.cwd()), environment, folder))
        process.start()
        process.join()
        assert process.exitcode is not None
        out, err = ((Path(folder) / name).read_bytes() for name in ("1", "2"))
        return subprocess.CompletedProcess(words, process.exitcode, out, err)


def autoqec_text(
    *words: str, cwd: Path | None = None, env: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    done = autoqec(*words, cwd=cwd, env=env)
    return subprocess.CompletedProcess(done.args, done.returncode, done.stdout.decode(), done.stderr.decode())
