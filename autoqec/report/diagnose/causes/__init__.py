"""The causes that a round can suffer from, the more fundamental first.

A cause that explains another comes before it, and the later one checks for itself where it does not apply. Of what was found,
the surest is listed first, and among equals the order here decides.
"""

from __future__ import annotations

from collections.abc import Callable

from autoqec.report.diagnose.case import RoundCase
from autoqec.report.diagnose.causes import limits, records, refused, training
from autoqec.report.diagnose.finding import Finding

Find = Callable[[RoundCase], Finding | None]

CAUSES: dict[str, Find] = {
    "killed_process": limits.find_killed_process,
    "stale_artifacts": records.find_stale_artifacts,
    "compose_conflict": records.find_compose_conflict,
    "lost_branch": records.find_lost_branch,
    "machine_error": refused.find_machine_error,
    "wrong_backend": refused.find_wrong_backend,
    "environment_error": refused.find_environment_error,
    "compile_error": refused.find_compile_error,
    "out_of_memory": limits.find_out_of_memory,
    "timeout": limits.find_timeout,
    "nan": training.find_nan,
    "degenerate_p": training.find_degenerate_p,
    "diverged": training.find_diverged,
    "dead_gradient": training.find_dead_gradient,
    "loss_without_ler": training.find_loss_without_ler,
}

LAST_RESORT: tuple[str, Find] = ("unexplained", records.find_unexplained)
"""For a round that failed in a way that none of the causes knows."""
