"""`autoqec baseline`: the environment's classical decoders on the same shots."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from autoqec.commands.options import AnyPath, Count, Number, OutFile
from autoqec.commands.output import print_json, print_table
from autoqec.commands.progress import shots_progress

EXIT_INTERRUPTED = 130


@click.command()
@click.argument("env")
@click.option(
    "--p", "ps", type=Number(), multiple=True, help="Only this p (repeatable). Default: the whole sweep."
)
@click.option(
    "--shots", type=Count(min=0, max=10**10), default=20_000, show_default=True, help="Shots per p."
)
@click.option(
    "--decoders", help="Comma-separated names, e.g. pymatching,bposd-10. Default: the environment's."
)
@click.option(
    "--with",
    "rounds",
    multiple=True,
    type=AnyPath(),
    help="Folder of a round: its predecoder, on the same shots (repeatable).",
)
@click.option("--workers", type=Count(min=1, max=4096), help="Worker processes. Default: one per core.")
@click.option("--fresh", is_flag=True, help="Neither reuse nor keep earlier shots of the same decoders.")
@click.option("--csv", "csv_path", type=OutFile(), help="Write a sinter CSV.")
@click.option(
    "--plot",
    "plot_path",
    type=OutFile(),
    help="Write LER over p, e.g. ler.png.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of a table.")
def command(
    env: str,
    ps: tuple[float, ...],
    shots: int,
    decoders: str | None,
    rounds: tuple[Path, ...],
    workers: int | None,
    fresh: bool,
    csv_path: Path | None,
    plot_path: Path | None,
    as_json: bool,
) -> None:
    """Decode the same shots with every baseline decoder of ENV, at each p.

    Shots and failures are kept in the cache: the command can be stopped and started again, and a decoder that is
    added later joins the same shots. The ratio is the plain backend's LER over the decoder's: above 1 is better.
    """
    from autoqec.api.comparison import compare
    from autoqec.decoders.reference_p import reference_p
    from autoqec.envs.load import load_env
    from autoqec.io import atomic

    environment = load_env(env)
    spec = environment.spec
    names = decoders.split(",") if decoders else spec.baseline_decoders
    with shots_progress() as progress:
        found = compare(
            environment,
            [*names, *rounds],
            p=list(ps) or None,
            shots=shots,
            workers=workers,
            reuse=not fresh,
            progress=progress,
        )
    if csv_path is not None:
        atomic.write_text(csv_path, found.to_csv())
    if plot_path is not None:
        found.plot(plot_path)
    level, table, interrupted = found.level, found.rows, found.is_interrupted
    reference = None if interrupted or not shots else reference_p(environment)
    if as_json:
        print_json(
            {
                "env": spec.name,
                "env_hash": environment.content_hash,
                "plain_backend": found.plain,
                "reference_p": reference,
                "interval_level": level,
                "rows": table,
                "unavailable": found.missing,
                "interrupted": interrupted,
            }
        )
    else:
        _print_rows(spec.name, found.plain, level, table)
        if reference is not None:
            click.echo(f"\nReference p: {reference:g} (headline numbers are quoted there)")
        for name, reason in found.missing.items():
            click.echo(f"Not run: {name}: {reason}")
        for path in (csv_path, plot_path):
            if path is not None:
                click.echo(f"Wrote {path}")
    if interrupted:
        click.echo(
            "Interrupted: this is what was done so far; run the same command again to resume.", err=True
        )
        sys.exit(EXIT_INTERRUPTED)


def _print_rows(name: str, plain: str, level: float, table: list[dict[str, object]]) -> None:
    columns = (
        "p",
        "decoder",
        "shots",
        "failures",
        "LER",
        f"{level:.0%} interval",
        f"{plain} LER / LER",
        "interval",
        "us/shot",
    )
    print_table(
        f"{name}: LER per shot, all decoders on the same shots",
        columns,
        [
            (
                row["p"],
                row["decoder"],
                row["shots"],
                row["failures"],
                row["ler"],
                f"{row['ler_low']:.3g} .. {row['ler_high']:.3g}",
                _ratio(row.get("ratio_to_plain")),
                f"{_ratio(row.get('ratio_low'))} .. {_ratio(row.get('ratio_high'))}",
                _ratio(row["us_per_shot"]),
            )
            for row in table
        ],
    )


def _ratio(value: object) -> str:
    return f"{value:.3f}" if isinstance(value, float) else "-"
