"""Starting AutoQEC is instant: neither the package nor `--help` loads a heavy library."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

HEAVY = {"torch", "stim", "numba", "scipy", "numpy", "pymatching", "ldpc", "matplotlib", "pydantic"}
SCRIPT = str(Path(sys.executable).with_name("autoqec"))
MODULE = [sys.executable, "-m", "autoqec"]
SHIM = [sys.executable, "-m", "cli.autoqec"]


def _loaded(*arguments: str) -> set[str]:
    """Top-level names of all modules that a Python process loads, by its own account."""
    done = subprocess.run(
        [sys.executable, "-X", "importtime", *arguments], capture_output=True, text=True, check=True
    )
    names = re.findall(r"^import time:[^|]*\|[^|]*\|\s*(\S+)$", done.stderr, flags=re.MULTILINE)
    return {name.partition(".")[0] for name in names}


def test_the_account_of_loaded_modules_is_complete() -> None:
    assert {"numpy", "json"} <= _loaded("-c", "import numpy, json")


@pytest.mark.parametrize(
    "arguments",
    [
        ("-c", "import autoqec"),
        ("-m", "autoqec", "--help"),
        ("-m", "autoqec", "--version"),
        (SCRIPT, "--help"),
    ],
    ids=["import", "help", "version", "script"],
)
def test_starting_loads_no_heavy_library(arguments: tuple[str, ...]) -> None:
    loaded = _loaded(*arguments)
    assert "autoqec" in loaded
    assert not loaded & HEAVY


def test_the_help_of_doctor_loads_no_heavy_library() -> None:
    assert not _loaded("-m", "autoqec", "doctor", "--help") & HEAVY


@pytest.mark.parametrize(
    ("module", "unused"),
    [
        ("autoqec.runner.supervise", {"torch"}),  # the training has a process of its own
        ("autoqec.report.run_view", {"torch", "numba", "pymatching"}),
    ],
)
def test_who_watches_or_reads_loads_nothing_to_compute_with(module: str, unused: set[str]) -> None:
    loaded = _loaded("-c", f"import {module}")
    assert "pydantic" in loaded
    assert not loaded & unused


def _help(argv: list[str]) -> str:
    done = subprocess.run([*argv, "--help"], capture_output=True, text=True, check=True)
    # Only the name in the usage line says how it was started.
    return re.sub(r"^Usage: (python3? -m \S+|autoqec)", "Usage: autoqec", done.stdout)


def test_all_three_ways_to_start_print_the_same_help() -> None:
    texts = {_help(argv) for argv in (MODULE, SHIM, [SCRIPT])}
    assert len(texts) == 1
    assert "doctor" in texts.pop()
