"""The causes that a round can suffer from, the more fundamental first: one module each, with `find(case)`.

A cause that explains another comes before it, and the later one says for itself where it does not apply. Of what was found, the
surest goes first, and among equals the order here decides.
"""

from __future__ import annotations

from collections.abc import Callable

from autoqec.report.diagnose.case import RoundCase
from autoqec.report.diagnose.causes import (
    compile_error,
    compose_conflict,
    dead_gradient,
    degenerate_p,
    diverged,
    environment_error,
    killed_process,
    loss_without_ler,
    lost_branch,
    machine_error,
    nan,
    out_of_memory,
    stale_artifacts,
    timeout,
    unexplained,
    wrong_backend,
)
from autoqec.report.diagnose.finding import Finding

Find = Callable[[RoundCase], Finding | None]

CAUSES: dict[str, Find] = {
    "killed_process": killed_process.find,
    "stale_artifacts": stale_artifacts.find,
    "compose_conflict": compose_conflict.find,
    "lost_branch": lost_branch.find,
    "machine_error": machine_error.find,
    "wrong_backend": wrong_backend.find,
    "environment_error": environment_error.find,
    "compile_error": compile_error.find,
    "out_of_memory": out_of_memory.find,
    "timeout": timeout.find,
    "nan": nan.find,
    "degenerate_p": degenerate_p.find,
    "diverged": diverged.find,
    "dead_gradient": dead_gradient.find,
    "loss_without_ler": loss_without_ler.find,
}

LAST_RESORT: tuple[str, Find] = ("unexplained", unexplained.find)
"""For a round that failed in a way that none of the causes knows."""
