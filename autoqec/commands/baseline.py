"""`autoqec baseline`: the classical decoders of environments on the same shots."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from autoqec.commands.named import DecoderOrRound, RunPath
from autoqec.commands.options import Count, Number, OutFile, PlotFile, executor_option
from autoqec.commands.output import print_json, print_table, print_warnings
from autoqec.commands.progress import shots_progress
from autoqec.errors import InputError

if TYPE_CHECKING:
    from autoqec.api.comparison import Comparison
    from autoqec.decoders.baseline_tables import Unit
    from autoqec.envs.environment import Environment

EXIT_INTERRUPTED = 130
_MOST_DISTANCES = 20


def _distances(_context: click.Context, _option: click.Parameter, text: str | None) -> list[int]:
    if text is None:
        return []
    words = [word.strip() for word in text.split(",")]
    if len(words) > _MOST_DISTANCES or not all(
        word.isascii() and word.isdecimal() and len(word) < 5 for word in words
    ):
        raise InputError(
            f"{text[:80]!r} is not a list of distances", where="--distances", hint="write them as 3,5,7"
        )
    return sorted({int(word) for word in words})


def _one(_context: click.Context, _option: click.Parameter, given: tuple[Any, ...]) -> Any:
    if len(given) > 1:
        raise InputError(
            "given more than once", where="--against", hint="compare with one decoder; --with takes several"
        )
    return given[0] if given else None


@click.command()
@click.argument("envs", metavar="ENV...", nargs=-1, required=True)
@click.option(
    "--p", "ps", type=Number(), multiple=True, help="Only this p (repeatable). Default: the whole sweep."
)
@click.option(
    "--shots", type=Count(min=0, max=10**10), default=20_000, show_default=True, help="Shots per p."
)
@click.option(
    "--max-errors",
    type=Count(min=1),
    help="End a p, in whole chunks of shots, when every decoder has so many failures.",
)
@click.option(
    "--distances", callback=_distances, metavar="D,D,...", help="ENV at these distances; its rounds follow."
)
@click.option(
    "--per",
    type=click.Choice(("shot", "round", "qubit")),
    default="shot",
    show_default=True,
    help="Add the LER per readout round or logical qubit; plot and Lambda are in this unit.",
)
@click.option(
    "--decoders", help="Comma-separated names, e.g. pymatching,bposd-10. Default: the environment's."
)
@click.option(
    "--with",
    "rounds",
    multiple=True,
    type=RunPath(),
    help="A round, or zoo:ENV/NAME: its predecoder, on the same shots (repeatable).",
)
@click.option(
    "--against",
    type=DecoderOrRound(),
    multiple=True,
    callback=_one,
    metavar="NAME|PATH",
    help="Compare with this decoder in place of the plain backend: one name as in --decoders, or one round as in --with.",
)
@click.option("--workers", type=Count(min=1, max=4096), help="Worker processes. Default: one per core.")
@executor_option("Where workers are; the failures are the same.")
@click.option("--fresh", is_flag=True, help="Neither reuse nor keep earlier shots of the same decoders.")
@click.option("--csv", "csv_path", type=OutFile(), help="Write a sinter CSV.")
@click.option(
    "--plot",
    "plot_path",
    type=PlotFile(),
    help="Write LER over p, e.g. ler.png.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of tables.")
def command(
    envs: tuple[str, ...],
    ps: tuple[float, ...],
    shots: int,
    max_errors: int | None,
    distances: list[int],
    per: Unit,
    decoders: str | None,
    rounds: tuple[Path, ...],
    against: str | Path | None,
    workers: int | None,
    executor: str | None,
    fresh: bool,
    csv_path: Path | None,
    plot_path: Path | None,
    as_json: bool,
) -> None:
    """Decode the same shots with every baseline decoder of ENV, at each p.

    Shots and failures are kept in the cache: the command can be stopped and started again, and a decoder that is
    added later joins the same shots. The ratio is the LER of the plain backend, or of the decoder that --against names, over the
    decoder's own: above 1, the decoder is better. Its interval is that of paired shots.

    With several ENV, or --distances, each has a table, and the plot shows them together. Lambda is the ratio of the LERs of
    successive distances, per step of 2.
    """
    from autoqec.api.comparison import measure
    from autoqec.api.line_up import line_up
    from autoqec.decoders import baseline_tables
    from autoqec.decoders.reference_p import reference_p
    from autoqec.io import atomic

    environments = _environments(envs, distances)
    for env in environments:
        print_warnings(env)
        baseline_tables.check_unit(env, per)
    lined_up = [
        line_up(
            env,
            [*(decoders.split(",") if decoders else env.spec.baseline_decoders), *rounds],
            p=list(ps) or None,
            against=against,
        )
        for env in environments
    ]
    found: list[Comparison] = []
    for each in lined_up:
        with shots_progress(each.env.spec.name if len(lined_up) > 1 else None) as progress:
            found.append(
                measure(
                    each,
                    shots=shots,
                    max_errors=max_errors,
                    executor=executor,
                    workers=workers,
                    reuse=not fresh,
                    progress=progress,
                )
            )
        if found[-1].is_interrupted:
            break
    interrupted = found[-1].is_interrupted
    measured = [each.measured for each in found]
    if csv_path is not None:
        atomic.write_text(csv_path, baseline_tables.sinter_csv(measured))
    if plot_path is not None:
        title = environments[0].spec.name if len(environments) == 1 else "LER over p"
        baseline_tables.plot_ler(title, measured, per, plot_path)
    reports = [
        {
            "env": each.env.spec.name,
            "env_hash": each.env.content_hash,
            "plain_backend": each.plain,
            "against": each.against,
            "reference_p": None if interrupted or not shots else reference_p(each.env),
            "interval_level": each.level,
            "rows": each.table(per),
            "unavailable": each.missing,
            "interrupted": each.is_interrupted,
        }
        for each in found
    ]
    ratios = baseline_tables.lambdas(measured, per)
    if as_json:
        print_json(reports[0] if len(environments) == 1 else {"environments": reports, "lambdas": ratios})
    else:
        for report in reports:
            _print_report(report, per)
        _print_lambdas(ratios, measured[0].level, baseline_tables.UNITS[per])
        for path in (csv_path, plot_path):
            if path is not None:
                click.echo(f"Wrote {path}")
    if interrupted:
        click.echo(
            "Interrupted: this is what was done so far; run the same command again to resume.", err=True
        )
        sys.exit(EXIT_INTERRUPTED)


def _environments(envs: tuple[str, ...], distances: list[int]) -> list[Environment]:
    from autoqec.envs.distances import at_distance
    from autoqec.envs.load import load_env

    found = [load_env(env) for env in envs]
    if distances and len(found) > 1:
        raise InputError(
            "several environments have their own distances", where="--distances", hint="give one ENV"
        )
    if distances:
        found = [at_distance(found[0], distance, where="--distances") for distance in distances]
    names = [env.spec.name for env in found]
    if len(set(names)) < len(names):
        raise InputError("an environment is listed twice", where="ENV", hint="list each once")
    return found


def _print_report(report: dict[str, Any], per: Unit) -> None:
    from autoqec.decoders.baseline_tables import AGAINST, RATIO

    further = (f"LER per {per}", "interval") if per != "shot" else ()
    other = report["against"] or report["plain_backend"]
    ratio, low, high = RATIO if report["against"] is None else AGAINST
    print_table(
        f"{report['env']}: LER per shot, all decoders on the same shots; ratio = {other} LER / LER",
        (
            *("p", "decoder", "shots", "failures", "LER", f"{report['interval_level']:.0%} interval"),
            *("ratio", "interval", "us/shot", *further),
        ),
        [
            (
                row["p"],
                row["decoder"],
                row["shots"],
                row["failures"],
                row["ler"],
                f"{row['ler_low']:.3g} .. {row['ler_high']:.3g}",
                _ratio(row.get(ratio)),
                f"{_ratio(row.get(low))} .. {_ratio(row.get(high))}",
                _ratio(row["us_per_shot"]),
                *_further(row, per),
            )
            for row in report["rows"]
        ],
        least=(8, 3, 2, 5, *((7, 6) if further else ())),
    )
    if report["reference_p"] is not None:
        click.echo(f"\nReference p: {report['reference_p']:g} (headline numbers are quoted there)")
    for name, reason in report["unavailable"].items():
        click.echo(f"Not run: {name}: {reason}")
    click.echo()


def _further(row: dict[str, Any], per: Unit) -> tuple[object, ...]:
    if per == "shot":
        return ()
    value, low, high = (row[f"ler_per_{per}{bound}"] for bound in ("", "_low", "_high"))
    return (value, "-" if low is None else f"{low:.3g} .. {high:.3g}")


def _print_lambdas(ratios: list[dict[str, Any]], level: float, unit: str) -> None:
    if ratios:
        print_table(
            f"Lambda: LER per {unit} of a distance over that of the next, per step of 2",
            ("p", "decoder", "distances", "Lambda", f"{level:.0%} interval"),
            [
                (
                    row["p"],
                    row["decoder"],
                    f"{row['from_distance']} -> {row['to_distance']}",
                    _ratio(row["lambda"]),
                    f"{_ratio(row['lambda_low'])} .. {_ratio(row['lambda_high'])}",
                )
                for row in ratios
            ],
        )
        click.echo()


def _ratio(value: object) -> str:
    return f"{value:.3f}" if isinstance(value, float) else "-"
