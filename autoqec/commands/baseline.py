"""`autoqec baseline`: the environment's classical decoders on the same shots."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from autoqec.commands.options import Count, Number, OutFile, PlotFile
from autoqec.commands.output import print_json, print_table, print_warnings
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
@click.option("--workers", type=Count(min=1, max=4096), help="Worker processes. Default: one per core.")
@click.option("--fresh", is_flag=True, help="Neither reuse nor keep earlier shots of the same decoders.")
@click.option("--csv", "csv_path", type=OutFile(), help="Write a sinter CSV.")
@click.option(
    "--plot",
    "plot_path",
    type=PlotFile(),
    help="Write LER over p, e.g. ler.png.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of a table.")
def command(
    env: str,
    ps: tuple[float, ...],
    shots: int,
    decoders: str | None,
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
    from autoqec.decoders import baseline_tables
    from autoqec.decoders.baselines.registry import choose, unavailable
    from autoqec.decoders.paired import Evaluator
    from autoqec.decoders.reference_p import plain_backend, reference_p
    from autoqec.envs.load import load_env
    from autoqec.io import atomic

    environment = load_env(env)
    print_warnings(environment)
    spec = environment.spec
    plain = plain_backend(environment)
    names = decoders.split(",") if decoders else spec.baseline_decoders
    where = "--decoders" if decoders else f"{environment.origin}: baseline_decoders"
    chosen = choose([name.strip() for name in names], spec.eval_protocol.osd_orders_reported, where=where)
    chosen = [plain, *(c for c in chosen if c != plain)]
    sweep = list(ps) or spec.noise.p
    environment.check_sweep(sweep, where="--p")
    reasons = {c.name: unavailable(c, environment.problem(sweep[0])) for c in chosen}
    able = [c for c in chosen if reasons[c.name] is None]
    missing = {name: reason for name, reason in reasons.items() if reason is not None}

    results = []
    with (
        shots_progress() as progress,
        Evaluator(environment, workers=workers, store=not fresh, progress=progress) as evaluator,
    ):
        for p in sweep:
            results.append(evaluator.run(p, able, shots))
            if results[-1].interrupted:
                break
    level = spec.eval_protocol.interval_level
    if csv_path is not None:
        atomic.write_text(csv_path, baseline_tables.sinter_csv(environment, results, able))
    if plot_path is not None:
        baseline_tables.plot_ler(spec.name, results, level, plot_path)
    table = [row for result in results for row in baseline_tables.rows(result, plain.name, level)]
    interrupted = any(result.interrupted for result in results)
    reference = None if interrupted or not shots else reference_p(environment)
    if as_json:
        print_json(
            {
                "env": spec.name,
                "env_hash": environment.content_hash,
                "plain_backend": plain.name,
                "reference_p": reference,
                "interval_level": level,
                "rows": table,
                "unavailable": missing,
                "interrupted": interrupted,
            }
        )
    else:
        _print_rows(spec.name, plain.name, level, table)
        if reference is not None:
            click.echo(f"\nReference p: {reference:g} (headline numbers are quoted there)")
        for name, reason in missing.items():
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
