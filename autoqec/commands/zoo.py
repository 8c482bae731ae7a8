"""`autoqec zoo`: the predecoders that come with the package."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from autoqec.commands.options import Count, OutFolder, executor_option
from autoqec.commands.output import print_json, print_table
from autoqec.commands.verify import EXIT_CODES, print_report

if TYPE_CHECKING:
    from autoqec.finds.zoo import ZooEntry


@click.group()
def command() -> None:
    """Predecoders that come with AutoQEC. zoo:ENV/NAME stands for the folder of a round in every command."""


_as_json = click.option("--json", "as_json", is_flag=True, help="Print JSON instead of text.")


@command.command("list")
@_as_json
def list_entries(as_json: bool) -> None:
    """List the entries: what each costs, and its verified gain at the reference p."""
    from autoqec.finds.zoo import zoo_entries

    entries = zoo_entries()
    if as_json:
        print_json([entry.to_dict() for entry in entries])
        return
    print_table(
        "",
        ("env", "name", "MFLOP", "parameters", "ratio", "verified gain"),
        [
            (
                entry.env,
                entry.name.partition("/")[2],
                float(f"{entry.flops_per_syndrome / 1e6:.3g}"),
                entry.metrics.n_params,
                _ratio(entry),
                _gain(entry),
            )
            for entry in entries
        ],
        least=(3,),
    )
    click.echo("At the reference p. Ratio: LER of the plain backend over the predecoder's.")
    click.echo("Gain: LER of the plain backend less the predecoder's.")


def _ratio(entry: ZooEntry) -> str:
    ratio = None if entry.headline is None else entry.headline.ratio
    return "-" if ratio is None else f"{ratio:.3f}"


def _gain(entry: ZooEntry) -> str:
    if (head := entry.headline) is None:
        return entry.verdict
    interval = "" if head.delta_ci is None else f" ({head.delta_ci[0]:.2g} .. {head.delta_ci[1]:.2g})"
    return f"{head.delta:.2g}{interval}"


@command.command()
@click.argument("name", metavar="ENV/NAME")
@_as_json
def show(name: str, as_json: bool) -> None:
    """Show the model card of an entry, and where it comes from."""
    from autoqec.finds.zoo import zoo_entry
    from autoqec.layout import EntryDir

    entry = zoo_entry(name)
    card = EntryDir(entry.path).card.read_text(encoding="utf-8")
    provenance = entry.provenance.model_dump(mode="json")
    if as_json:
        print_json({**entry.to_dict(), "card": card, "provenance": provenance})
        return
    click.echo(card)
    click.echo(f"Provenance: {json.dumps(provenance, indent=2)}")


@command.command()
@click.argument("names", metavar="[ENV/NAME]...", nargs=-1)
@click.option("--shots", type=Count(min=1), help="Minimum shots per p. Default: min_shots_verify.")
@executor_option("Where the verifier's workers are.")
@_as_json
def verify(names: tuple[str, ...], shots: int | None, executor: str | None, as_json: bool) -> None:
    """Verify entries again, by default all, on fresh shots of this machine and in the sandbox; nothing is written into the zoo.

    Exit code 0 if all are VERIFIED, else that of the worst: 3 SUSPICIOUS, 4 FAILED; 2 bad input.
    """
    from autoqec.api.verification import verify as verified
    from autoqec.commands.progress import tasks_progress
    from autoqec.finds.zoo import zoo_entry, zoo_names

    entries = [zoo_entry(name) for name in dict.fromkeys(names or zoo_names())]
    reports: dict[str, Any] = {}
    worst = 0
    for entry in entries:
        with tasks_progress() as progress:
            report = verified(entry.path, entry.env, shots=shots, executor=executor, progress=progress)
        worst = max(worst, EXIT_CODES[report.verdict])
        reports[entry.name] = report.model_dump(mode="json")
        if not as_json:
            print_report(entry.name, report, None)
    if as_json:
        print_json(reports)
    sys.exit(worst)


@command.command()
@click.argument("name", metavar="ENV/NAME")
@click.argument("folder", metavar="DIR", type=OutFolder())
def get(name: str, folder: Path) -> None:
    """Copy an entry into DIR, a new or empty folder, which is then the folder of a round."""
    from autoqec.finds.zoo import copy_entry, zoo_entry

    entry = zoo_entry(name)
    copy_entry(entry.path, folder)
    click.echo(f"Wrote {folder} ({entry.verdict})")
