"""This machine cannot run the round: a library, a sandbox, a driver or disk space is missing."""

from __future__ import annotations

import re

from autoqec.report.diagnose.case import RoundCase
from autoqec.report.diagnose.finding import Finding

_SIGNS: tuple[tuple[re.Pattern[str], str, str], ...] = (
    (
        re.compile(r"needs a sandbox, and none holds"),
        "no sandbox tier holds here, and tier-2 code runs nowhere else",
        "see autoqec doctor for the sandbox, or use a tier-1 config",
    ),
    (
        re.compile(r"^(ModuleNotFoundError|ImportError): "),
        "a library is missing or broken",
        "install what the line names; autoqec doctor lists all parts",
    ),
    (re.compile(r"No space left on device"), "the disk is full", "free some space and run the round again"),
    (
        re.compile(r"CUDA (driver|error)|no kernel image|NVIDIA driver"),
        "the GPU or its driver failed",
        "see autoqec doctor; CUDA_VISIBLE_DEVICES='' runs the round on the CPU",
    ),
    (
        re.compile(r"Permission denied|Read-only file system"),
        "a folder cannot be written",
        "make the folder that the line names writable",
    ),
)


def find(case: RoundCase) -> Finding | None:
    if case.status in (None, "ok"):
        return None
    for pattern, what, advice in _SIGNS:
        if (evidence := case.said(pattern)) is not None:
            return Finding("high", what, (*case.metric("status"), evidence), advice)
    return None
