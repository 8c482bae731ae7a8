"""`machine_state`: what the next round can count on here. Plain data for the roles, the summaries and the tools."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from autoqec.agents.accounting import Ledger
from autoqec.io.cores import available_cores
from autoqec.layout import RunDir

GIB = 1 << 30
_TIMINGS = 8


def machine_state(
    history: Sequence[Mapping[str, Any]],
    *,
    run: RunDir | None = None,
    ledger: Ledger | None = None,
    rounds_left: int | None = None,
    seconds_left: float | None = None,
    checked_out: Sequence[str] = (),
) -> dict[str, Any]:
    """Hardware as it is now, the timings of the run's rounds, and what is left of its budgets. Names no folders.

    checked_out: the rounds that have a worktree.
    """
    ok = [row for row in history if row.get("status") == "ok"]
    return {
        "cpu": {"cores": available_cores(), "load": _load()},
        "memory_gb": _memory(),
        "gpus": _gpus(),
        "disk_free_gb": _disk(run),
        "rounds": {
            "ok": len(ok),
            "failed": len(history) - len(ok),
            "median_train_s": _median(ok, "train_wallclock_s"),
            "median_eval_s": _median(ok, "eval_wallclock_s"),
        },
        "params_vs_time": _timings(ok),
        "budget": {
            "rounds_left": rounds_left,
            "seconds_left": None if seconds_left is None else round(seconds_left),
            **({} if ledger is None else _money(ledger)),
        },
        "active_worktrees": list(checked_out),
    }


def _timings(ok: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Size against time of at most eight rounds, from the smallest to the largest."""
    known = [row for row in ok if row.get("n_params") is not None and row.get("train_wallclock_s")]
    known.sort(key=lambda row: (row["n_params"], row.get("flops_per_syndrome") or 0))
    if len(known) > _TIMINGS:
        last = len(known) - 1
        known = [known[last * step // (_TIMINGS - 1)] for step in range(_TIMINGS)]
    return [
        {
            "n_params": row["n_params"],
            "flops": row.get("flops_per_syndrome"),
            "train_s": round(row["train_wallclock_s"]),
            "eval_s": round(row.get("eval_wallclock_s") or 0.0),
        }
        for row in known
    ]


def _money(ledger: Ledger) -> dict[str, Any]:
    summary = ledger.summary()
    return {
        "usd_spent": round(summary["spent_usd"], 4),
        "usd_left": None if summary["left_usd"] is None else round(summary["left_usd"], 4),
    }


def _median(rows: Sequence[Mapping[str, Any]], field: str) -> float | None:
    return round(median(float(row.get(field) or 0.0) for row in rows), 1) if rows else None


def _load() -> float | None:
    try:
        return round(os.getloadavg()[0], 1)
    except OSError:
        return None


def _memory() -> dict[str, float | None]:
    """free: what can be had without swapping; None where the system does not say."""
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / GIB
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
        free = next(int(line.split()[1]) / (1 << 20) for line in lines if line.startswith("MemAvailable:"))
    except (OSError, StopIteration, ValueError):
        free = None
    return {"total": round(total, 1), "free": None if free is None else round(free, 1)}


def _disk(run: RunDir | None) -> float:
    return round(shutil.disk_usage(run.path if run is not None else Path.cwd()).free / GIB, 1)


def _gpus() -> list[dict[str, Any]]:
    """NVIDIA's own tool, where there is one: asking torch would load it."""
    fields = ("name", "memory.total", "memory.free", "utilization.gpu")
    command = ["nvidia-smi", f"--query-gpu={','.join(fields)}", "--format=csv,noheader,nounits"]
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=10, check=True
        )
        rows = [
            [cell.strip() for cell in line.split(",")] for line in done.stdout.splitlines() if line.strip()
        ]
        return [
            {
                "name": name,
                "memory_gb": round(int(total) / 1024, 1),
                "free_gb": round(int(free) / 1024, 1),
                "busy_percent": int(busy),
            }
            for name, total, free, busy in rows
        ]
    except (OSError, subprocess.SubprocessError, ValueError):
        return []
