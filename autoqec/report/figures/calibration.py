"""Is a predecoder right as often as it says? Fresh shots, sorted by the log-odds that it gives its predictions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from autoqec.envs.packing import unpack
from autoqec.errors import InputError
from autoqec.finds.predecoder import Predecoder
from autoqec.report.figures.style import COLOURS, finish, log_axis, new_figure
from autoqec.report.figures.table import FigureTable, Row
from autoqec.stats.intervals import wilson

COLUMNS = {
    "name": "name",
    "part": "part",
    "claimed": "failure probability that it claims",
    "discarded": "share of shots discarded",
    "failures": "failures",
    "shots": "shots",
    "ler": "LER",
    "low": "LER, low",
    "high": "LER, high",
}
CLAIMS, KEPT = "by what it claims", "after discarding"
_BINS = 12
_SHARES = (0.0, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3)
_SEED = 0xCA1
"""Of shots that neither training, validation nor verification uses: those have seeds of 64 bits from their labels."""


def table(finds: Sequence[Predecoder], shots: int) -> FigureTable:
    rows: list[Row] = []
    for find in finds:
        rows += _rows(find, shots)
    envs = dict.fromkeys(f"{find.env.spec.name}, p = {find.p:g}" for find in finds)
    return FigureTable(
        "calibration",
        f"Calibration: {'; '.join(envs)}",
        f"{shots} fresh shots. Left: how often shots fail that a decoder says would fail with this probability. Right: the LER of the shots "
        "that are left when the least certain ones are discarded.",
        COLUMNS,
        rows,
    )


def _rows(find: Predecoder, shots: int) -> list[Row]:
    if find.env.spec.classical_backend != "mwpm" or find.env.problem(find.p).n_observables != 1:
        raise InputError(
            f"{find.name} gives no log-odds",
            where=find.checkpoint,
            hint="only matching with one observable does",
        )
    drawn = find.env.sample(find.p, shots, seed=_SEED, bit_packed=True)
    predicted, odds = find.decode_with_confidence(drawn.detectors, bit_packed_shots=True)
    failed = (predicted != unpack(drawn.observables, 1)).any(axis=1)
    claimed = 1.0 / (1.0 + np.exp(np.minimum(odds, 700.0)))
    order = np.argsort(claimed, kind="stable")
    return [*_by_claim(find.name, claimed[order], failed[order]), *_by_share(find.name, failed[order])]


def _by_claim(name: str, claimed: Any, failed: Any) -> list[Row]:
    """Bins of equal shares of what it expects to fail, so that each could show something."""
    edges = np.searchsorted(np.cumsum(claimed), np.linspace(0, claimed.sum(), _BINS + 1)[1:-1])
    parts = [part for part in np.split(np.arange(len(claimed)), np.unique(edges)) if len(part)]
    return [
        {
            "name": name,
            "part": CLAIMS,
            "claimed": float(claimed[part].mean()),
            **_rate(int(failed[part].sum()), len(part)),
        }
        for part in parts
    ]


def _by_share(name: str, failed: Any) -> list[Row]:
    kept = [(share, round(len(failed) * (1 - share))) for share in _SHARES]
    return [
        {"name": name, "part": KEPT, "discarded": share, **_rate(int(failed[:n].sum()), n)}
        for share, n in kept
        if n
    ]


def _rate(failures: int, shots: int) -> dict[str, Any]:
    low, high = wilson(failures, shots)
    return {"failures": failures, "shots": shots, "ler": failures / shots, "low": low, "high": high}


def draw(data: FigureTable) -> Any:
    figure = new_figure(9.6, 4.2)
    left, right = figure.subplots(1, 2)
    names = list(dict.fromkeys(row["name"] for row in data.rows))
    for axes, part, key in ((left, CLAIMS, "claimed"), (right, KEPT, "discarded")):
        for n, name in enumerate(names):
            rows: list[Any] = [row for row in data.rows if (row["name"], row["part"]) == (name, part)]
            rows = [row for row in rows if row["failures"]]
            bars = [row["ler"] - row["low"] for row in rows], [row["high"] - row["ler"] for row in rows]
            axes.errorbar(
                [row[key] for row in rows], [row["ler"] for row in rows], yerr=bars, marker="osD^"[n % 4], markersize=4,
                capsize=2, linewidth=1.0, color=COLOURS[n % 7], label=name,
            )  # fmt: skip
        seen: list[Any] = [row for row in data.rows if row["part"] == part and row["failures"]]
        log_axis(axes, "y", [row["ler"] for row in seen])
        axes.set_ylabel("LER per shot")
    claims: list[Any] = [row["claimed"] for row in data.rows if row["part"] == CLAIMS and row["failures"]]
    log_axis(left, "x", claims)
    ends = [min(claims, default=0.1), max(claims, default=1.0)]
    left.plot(ends, ends, color="black", linewidth=0.8, linestyle=":", label="as claimed")
    left.set_xlabel("failure probability that it claims")
    right.set_xlabel("share of shots discarded, least certain first")
    finish(left, data.title)
    finish(right, "LER after discarding")
    return figure
