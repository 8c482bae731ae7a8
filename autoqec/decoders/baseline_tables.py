"""Rows, CSV and figures from paired results: each a plain function of the results."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from autoqec.decoders.paired import PairedResult
from autoqec.decoders.protocol import DecoderFactory
from autoqec.envs.distances import distance_of, family_of, readout_rounds
from autoqec.envs.environment import Environment
from autoqec.errors import InputError, UnavailableError
from autoqec.io import figures
from autoqec.io.hashing import sha256_json
from autoqec.stats.rates import per_qubit, per_round, suppression

if TYPE_CHECKING:
    from matplotlib.figure import Figure

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


Unit = Literal["shot", "round", "qubit"]
RATIO = ("ratio_to_plain", "ratio_low", "ratio_high")
AGAINST = ("against_ratio", "against_ratio_low", "against_ratio_high")
"""Columns of a row: a ratio of LERs and its interval, to the plain backend and to another decoder."""
UNITS: dict[Unit, str] = {"shot": "shot", "round": "round", "qubit": "shot and logical qubit"}


@dataclass(frozen=True)
class Measured:
    """The decoders of one environment on its shots. results: one for each p."""

    env: Environment
    decoders: Sequence[DecoderFactory]
    results: Sequence[PairedResult]

    @property
    def level(self) -> float:
        return self.env.spec.eval_protocol.interval_level

    def rate(self, result: PairedResult, name: str, per: Unit) -> tuple[float, float, float]:
        """The LER per unit, and its interval."""
        convert = self._conversion(per)
        low, high = result.interval(name, self.level)
        return convert(result.ler(name)), convert(low), convert(high)

    def _conversion(self, per: Unit) -> Callable[[float], float]:
        qubits = self.env.problem(self.env.spec.noise.p[0]).n_observables
        if per == "qubit":
            return lambda ler: per_qubit(ler, qubits)
        if per == "round":
            rounds = readout_rounds(self.env)
            if rounds is None:
                raise InputError(
                    f"{self.env.spec.name} does not say how many rounds its shots have",
                    where="--per",
                    hint="name the code as surface_code:...?distance=D&rounds=R, or leave --per round out",
                )
            return lambda ler: per_round(ler, rounds, qubits)
        return lambda ler: ler


def check_unit(env: Environment, per: Unit) -> None:
    """An InputError unless rates of the environment can be had in this unit."""
    Measured(env, (), ())._conversion(per)


def lambdas(measured: Sequence[Measured], per: Unit) -> list[dict[str, Any]]:
    """Lambda of every decoder at every p, from each distance to the next larger one: the ratio of their LERs per step of 2. Of
    environments that differ in their distance alone."""
    families: dict[str, dict[int, Measured]] = {}
    for each in measured:
        if (distance := distance_of(each.env)) is not None:
            families.setdefault(family_of(each.env), {})[distance] = each
    found = [
        row
        for family in families.values()
        for small, large in pairwise(sorted(family))
        for row in _lambdas_between(family[small], family[large], (small, large), per)
    ]
    return sorted(found, key=lambda row: (row["p"], row["decoder"], row["from_distance"]))


def _lambdas_between(
    one: Measured, other: Measured, distances: tuple[int, int], per: Unit
) -> Iterator[dict[str, Any]]:
    small, large = distances
    at = {result.p: result for result in other.results if result.shots}
    for result in one.results:
        for name in result.failures if result.shots and result.p in at else ():
            if name in at[result.p].failures:
                x, *x_bounds = one.rate(result, name, per)
                y, *y_bounds = other.rate(at[result.p], name, per)
                value, (low, high) = suppression(
                    x, (x_bounds[0], x_bounds[1]), y, (y_bounds[0], y_bounds[1]), (large - small) / 2
                )
                yield {
                    "p": result.p,
                    "decoder": name,
                    "from_distance": small,
                    "to_distance": large,
                    "lambda": value,
                    "lambda_low": low,
                    "lambda_high": high if high != float("inf") else None,
                    "per": per,
                }


def rows(
    measured: Measured, result: PairedResult, plain: str, per: Unit = "shot", against: str | None = None
) -> list[dict[str, Any]]:
    """One row per decoder: LER, interval, ratio of the plain backend's LER to it (above 1: better), time. per: of a further
    LER, where it is not the shot. against: a decoder whose LER has a ratio to it as well."""
    table = []
    level = measured.level
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
            row |= dict(zip(RATIO, _ratio(result, plain, name, level), strict=True))
            keys = ("only_plain_failed", "only_this_failed", "both_failed")
            row |= dict(zip(keys, result.pair(plain, name), strict=True))
        if against is not None and against in result.failures:
            row |= {
                "against": against,
                **dict(zip(AGAINST, _ratio(result, against, name, level), strict=True)),
            }
            keys = ("against_only_other_failed", "against_only_this_failed", "against_both_failed")
            row |= dict(zip(keys, result.pair(against, name), strict=True))
        if per != "shot":
            further = measured.rate(result, name, per) if result.shots else (None, None, None)
            keys = (f"ler_per_{per}", f"ler_per_{per}_low", f"ler_per_{per}_high")
            row |= dict(zip(keys, further, strict=True))
        table.append(row)
    return table


def _ratio(
    result: PairedResult, other: str, name: str, level: float
) -> tuple[float | None, float | None, float | None]:
    """The other's LER over this one's, with its interval; None where there is no number."""
    ratio = result.ratio(other, name)
    if name == other:
        return ratio, ratio, ratio
    low, high = result.ratio_interval(other, name, level)
    return ratio, low, high if high != float("inf") else None


def sinter_csv(measured: Sequence[Measured]) -> str:
    """The results as sinter writes them; the decoder's identity and the environment are in the metadata."""
    buffer = io.StringIO()
    writer = csv.writer(buffer)
    writer.writerow(SINTER_COLUMNS)
    for env, result, factory in (
        (each.env, result, factory)
        for each in measured
        for result in each.results
        for factory in each.decoders
    ):
        if factory.name in result.failures:
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


def plot_ler(
    title: str, measured: Sequence[Measured], per: Unit = "shot", path: Path | None = None
) -> Figure:
    """LER against p with its interval, log-log, one line per decoder and environment: a colour for each decoder, a line style
    for each environment. Where environments differ in their distance alone, Lambda over p stands beside it. Written to `path`, if
    given, as its ending says."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise UnavailableError(
            "plots need matplotlib", where="--plot", hint="pip install 'autoqec[plot]'"
        ) from error
    ratios = lambdas(measured, per)
    figure = Figure(figsize=(9.6 if ratios else 5.2, 4.0), layout="constrained")
    axes, *beside = figure.subplots(1, 2 if ratios else 1, squeeze=False)[0]
    names = list(dict.fromkeys(name for each in measured for r in each.results for name in r.failures))
    distances = [distance_of(each.env) for each in measured]
    labels = [
        f"d = {d}" if d is not None and distances.count(d) == 1 else each.env.spec.name
        for d, each in zip(distances, measured, strict=True)
    ]
    for n, each in enumerate(measured):
        for name in names:
            points = sorted(
                (r.p, *each.rate(r, name, per)) for r in each.results if name in r.failures and r.count(name)
            )
            if not points:
                continue
            p, ler, low, high = (list(column) for column in zip(*points, strict=True))
            below = [value - bound for value, bound in zip(ler, low, strict=True)]
            above = [bound - value for value, bound in zip(ler, high, strict=True)]
            axes.errorbar(
                p, ler, yerr=(below, above), marker="osD^v"[n % 5], markersize=4, capsize=2, linewidth=1.2,
                color=f"C{names.index(name) % 10}", linestyle=("-", "--", ":", "-.")[n % 4],
                label=name if len(measured) == 1 else f"{name}, {labels[n]}",
            )  # fmt: skip
    axes.set(
        xscale="log",
        yscale="log",
        xlabel="physical error rate p",
        ylabel=f"logical error rate per {UNITS[per]}",
        title=title,
    )
    axes.grid(visible=True, which="both", alpha=0.25)
    if axes.has_data():
        axes.legend(fontsize=8 if len(measured) == 1 else 6)
    for place in beside:
        _plot_lambdas(place, ratios, names)
    if path is not None:
        figures.save(figure, path)
    return figure


def _plot_lambdas(axes: Any, ratios: Sequence[dict[str, Any]], names: Sequence[str]) -> None:
    """One line per decoder and step of the distance; 1 is where more distance does not help."""
    steps = sorted({(row["from_distance"], row["to_distance"]) for row in ratios})
    for n, step in enumerate(steps):
        for name in names:
            points = sorted(
                (row["p"], row["lambda"], row["lambda_low"], row["lambda_high"])
                for row in ratios
                if (row["from_distance"], row["to_distance"]) == step
                and row["decoder"] == name
                and None not in (row["lambda"], row["lambda_high"])
            )
            if points:
                p, value, low, high = (list(column) for column in zip(*points, strict=True))
                below = [one - bound for one, bound in zip(value, low, strict=True)]
                above = [bound - one for one, bound in zip(value, high, strict=True)]
                axes.errorbar(
                    p, value, yerr=(below, above), marker="osD^v"[n % 5], markersize=4, capsize=2, linewidth=1.2,
                    color=f"C{list(names).index(name) % 10}", linestyle=("-", "--", ":", "-.")[n % 4],
                    label=f"{name}, {step[0]} to {step[1]}",
                )  # fmt: skip
    axes.axhline(1.0, color="0.5", linewidth=0.8)
    axes.set(xscale="log", yscale="log", xlabel="physical error rate p", ylabel="Lambda per step of 2")
    axes.grid(visible=True, which="both", alpha=0.25)
    if axes.has_data():
        axes.legend(fontsize=6)
