"""`make cheats`: every cheat of the corpus in tests/cheats against the verifier, and every honest control.

Exit code 1 if a cheat is not rejected, is rejected for another reason than its own, or an honest control is called a cheat.
"""

from __future__ import annotations

import argparse
import importlib
import os
import sys
import tempfile
import time
import traceback
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from autoqec.commands.output import print_table

TESTS = Path(__file__).resolve().parents[1] / "tests"


@dataclass(frozen=True)
class Row:
    """One case as played, without what cannot travel between processes."""

    name: str
    result: str
    by: str
    gain: str
    is_right: bool
    seconds: float


_shared: Any = None


def _corpus() -> Any:
    if str(TESTS) not in sys.path:
        sys.path.insert(0, str(TESTS))
    return importlib.import_module("cheats.corpus")


def _begin(root: str) -> None:
    """Of one process: a folder of its own for repository, rounds and caches, and two cores, or each would fill them all."""
    global _shared
    import torch

    _corpus()
    torch.set_num_threads(1)
    if hasattr(os, "sched_setaffinity"):
        cores = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, {cores[(os.getpid() + i) % len(cores)] for i in range(2)})
    folder = Path(tempfile.mkdtemp(dir=root))
    os.environ["AUTOQEC_CACHE"] = str(Path(root) / "cache")
    os.environ["AUTOQEC_KERNELS"] = str(Path(root) / "kernels")
    _shared = importlib.import_module("cheats.scene").Shared(folder)


def _play(name: str) -> Row:
    corpus = _corpus()
    cheats, controls = corpus.load()
    case = next(case for case in (*cheats, *controls) if case.name == name)
    begin = time.monotonic()
    try:
        played = corpus.play(case, _shared)
    except Exception as error:
        traceback.print_exc()
        return Row(name, "error", f"{type(error).__name__}: {error}", "", False, time.monotonic() - begin)
    outcome = played.outcome
    by = ", ".join(word.splitlines()[0] if word else "" for word in outcome.by)
    by = by.replace(str(_shared.root), "").rpartition("checkpoint.pt: ")[2]
    return Row(name, outcome.result, by[:90], outcome.gain or "", played.is_right, played.seconds)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="play only cases whose name holds one of these")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument(
        "--document", action="store_true", help="print docs/reward_hacking.md and play nothing"
    )
    options = parser.parse_args(arguments)
    begin = time.monotonic()
    cheats, controls = _corpus().load()
    if options.document:
        print(importlib.import_module("cheats.document").document(cheats, controls), end="")
        return 0
    chosen = [
        case
        for case in (*controls, *cheats)  # the longest first
        if not options.names or any(word in case.name for word in options.names)
    ]
    rows: dict[str, Row] = {}
    with tempfile.TemporaryDirectory(prefix="autoqec-cheats-") as root:
        pool = ProcessPoolExecutor(
            options.workers, mp_context=get_context("spawn"), initializer=_begin, initargs=(root,)
        )
        with pool:
            for done, row in enumerate(pool.map(_play, [case.name for case in chosen]), start=1):
                rows[row.name] = row
                state = "ok" if row.is_right else "MISS"
                print(f"{done} of {len(chosen)}: {state}, {row.name}", file=sys.stderr, flush=True)
    played = [case for case in cheats if case.name in rows]
    honest = [case for case in controls if case.name in rows]
    _print_cheats(played, rows)
    _print_controls(honest, rows)
    rejected = sum(rows[case.name].is_right for case in played)
    passed = sum(rows[case.name].is_right for case in honest)
    verified = sum(rows[case.name].result == "VERIFIED" for case in honest)
    print(
        f"\ncheats rejected {rejected}/{len(played)}, honest controls not called cheats {passed}/{len(honest)}, "
        f"{verified} of them VERIFIED ({time.monotonic() - begin:.0f} s)"
    )
    return 0 if rejected == len(played) and passed == len(honest) else 1


def _print_cheats(cases: Sequence[Any], rows: dict[str, Row]) -> None:
    print_table(
        "Cheats",
        ("", "cheat", "outcome", "stopped by", "gains undefended", "s"),
        [_columns(rows[case.name], rows[case.name].gain or "-") for case in cases],
    )


def _print_controls(cases: Sequence[Any], rows: dict[str, Row]) -> None:
    print_table(
        "Honest controls",
        ("", "control", "outcome", "remark", "LER", "s"),
        [_columns(rows[case.name], rows[case.name].gain or "-") for case in cases],
    )


def _columns(row: Row, last: str) -> tuple[object, ...]:
    return "ok" if row.is_right else "MISS", row.name, row.result, row.by, last, f"{row.seconds:.0f}"


if __name__ == "__main__":
    sys.exit(main())
