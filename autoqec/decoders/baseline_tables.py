"""Rows, CSV and figures from paired results: each a plain function of the results."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from autoqec.decoders.paired import PairedResult
from autoqec.decoders.protocol import DecoderFactory
from autoqec.envs.environment import Environment
from autoqec.errors import UnavailableError
from autoqec.io import figures
from autoqec.io.hashing import sha256_json

SINTER_COLUMNS = (
    "shots",
    "errors",
    "discards",
    "seconds",
    "decoder",
    "strong_id",
    "json_metadata",
    "custom_counts",
)


def rows(result: PairedResult, plain: str, level: float) -> list[dict[str, Any]]:
    """One row per decoder: LER, interval, ratio of the plain backend's LER to it (above 1: better), time."""
    table = []
    for name in result.failures:
        low, high = result.interval(name, level)
        row: dict[str, Any] = {
            "p": result.p,
            "decoder": name,
            "shots": result.shots,
            "failures": result.count(name),
            "ler": result.ler(name) if result.shots else None,
            "ler_low": low,
            "ler_high": high,
            "us_per_shot": result.us_per_shot(name) if result.shots else None,
        }
        if plain in result.failures:
            ratio_low, ratio_high = (1.0, 1.0) if name == plain else result.ratio_interval(plain, name, level)
            row |= {
                "ratio_to_plain": result.ratio(plain, name),
                "ratio_low": ratio_low,
                "ratio_high": ratio_high if ratio_high != float("inf") else None,
                **dict(
                    zip(
                        ("only_plain_failed", "only_this_failed", "both_failed"),
                        result.pair(plain, name),
                        strict=True,
                    )
                ),
            }
        table.append(row)
    return table


def sinter_csv(env: Environment, results: Sequence[PairedResult], factories: Sequence[DecoderFactory]) -> str:
    """The results as sinter writes them; the decoder's identity and the environment are in the metadata."""
    buffer = io.StringIO()
    writer = csv.writer(buffer)
    writer.writerow(SINTER_COLUMNS)
    for result in results:
        for factory in factories:
            metadata = {
                "env": env.spec.name,
                "env_hash": env.content_hash,
                "p": result.p,
                "decoder_identity": factory.identity,
            }
            writer.writerow(
                (
                    result.shots,
                    result.count(factory.name),
                    0,
                    f"{result.seconds[factory.name]:.3f}",
                    factory.name,
                    sha256_json({"decoder": factory.identity, "stream": env.stream(result.p)}),
                    json.dumps(metadata, sort_keys=True, separators=(",", ":")),
                    "",
                )
            )
    return buffer.getvalue()


def plot_ler(title: str, results: Sequence[PairedResult], level: float, path: Path) -> None:
    """LER against p, one line per decoder with its interval, log-log; the format follows the file's ending."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise UnavailableError(
            "plots need matplotlib", where="--plot", hint="pip install 'autoqec[plot]'"
        ) from error
    figure = Figure(figsize=(5.2, 4.0), layout="constrained")
    axes = figure.subplots()
    for name in results[0].failures if results else ():
        points = sorted((r.p, r.ler(name), *r.interval(name, level)) for r in results if r.count(name))
        if not points:
            continue
        p, ler, low, high = (list(column) for column in zip(*points, strict=True))
        below = [value - bound for value, bound in zip(ler, low, strict=True)]
        above = [bound - value for value, bound in zip(ler, high, strict=True)]
        axes.errorbar(
            p, ler, yerr=(below, above), marker="o", markersize=4, capsize=2, linewidth=1.2, label=name
        )
    axes.set(
        xscale="log",
        yscale="log",
        xlabel="physical error rate p",
        ylabel="logical error rate per shot",
        title=title,
    )
    axes.grid(visible=True, which="both", alpha=0.25)
    if axes.has_data():
        axes.legend(fontsize=8)
    figures.save(figure, path)
