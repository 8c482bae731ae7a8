"""`autoqec diagnose`: why a round or the rounds of a run went wrong."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from autoqec.commands.named import RunPath
from autoqec.commands.options import OutFile
from autoqec.commands.output import print_json, print_table
from autoqec.errors import InputError

if TYPE_CHECKING:
    from autoqec.report.diagnose import Diagnosis, Patch, RunDiagnosis


@click.command()
@click.argument("folder", metavar="ROUND_DIR|RUN_DIR", type=RunPath())
@click.option(
    "--env", "env_name", help="Builtin name or YAML file, for a round that does not name its environment."
)
@click.option(
    "--out",
    type=OutFile(),
    help="Write the suggested config of a round there. The file must not exist.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of text.")
def command(folder: Path, env_name: str | None, out: Path | None, as_json: bool) -> None:
    """Find the root cause of a broken or stalled round, or of every such round of a run.

    Reads files only. Exit code 0 whenever there is a diagnosis, whatever it says; 2 for bad input.
    """
    from autoqec.report.diagnose import diagnose_round, diagnose_run, is_run

    if is_run(folder):
        if out is not None:
            raise InputError(
                "a run has no one config to write", where="--out", hint="give the folder of one round"
            )
        found = diagnose_run(folder, env=env_name)
        if as_json:
            print_json({"kind": "run", **found.to_dict()})
        else:
            _print_run(found)
        return
    one = diagnose_round(folder, env=env_name)
    if out is not None and one.patch is not None:
        _write(out, one.patch)
    written = str(out) if out is not None and one.patch is not None else None
    if as_json:
        print_json({"kind": "round", **one.to_dict(), "written": written})
        return
    _print_round(one)
    if out is not None:
        click.echo(f"Wrote {written}" if written else "Nothing written: no config change is suggested.")


def _write(path: Path, patch: Patch) -> None:
    from autoqec.io import atomic
    from autoqec.io.strict_yaml import dump_yaml

    if path.exists():
        raise InputError("already exists", where=str(path), hint="choose a new file")
    atomic.write_text(path, dump_yaml(patch.config))


def _print_round(one: Diagnosis) -> None:
    cause = "running" if one.running and one.is_healthy else one.cause
    click.echo(f"{one.path}: {cause}")
    click.echo(f"  {one.summary}")
    for cause, found in one.findings.items():
        click.echo(f"\n{cause} ({found.confidence} confidence): {found.what}")
        for evidence in found.evidence:
            click.echo(f"  {evidence}")
        click.echo(f"  do: {found.advice}")
        if found.env_change is not None:
            change = found.env_change
            click.echo(f"  in the environment: {change.field}: {change.before} -> {change.after}")
        if found.patch is not None:
            for change in found.patch.changes:
                click.echo(
                    f"  in the config: {change.field}: {_short(change.before)} -> {_short(change.after)}"
                )
            for line in found.patch.diff.splitlines():
                click.echo(f"    {line}")
    if one.gaps:
        click.echo("\nNot known:")
        for gap in one.gaps:
            click.echo(f"  {gap}")


def _short(value: object) -> str:
    from autoqec.report.reading import quote

    return quote(value, 60)


def _print_run(found: RunDiagnosis) -> None:
    total, bad = len(found.rounds), len(found.unhealthy)
    click.echo(f"{found.path}: {bad} of {total} rounds are not healthy\n")
    print_table(
        "",
        ("root cause", "rounds", "share"),
        [(cause, count, f"{count / total:.0%}") for cause, count in found.causes.items()],
    )
    for pattern in found.patterns:
        shared = ", ".join(f"{name} = {value}" for name, value in pattern.shared.items())
        click.echo(
            f"Pattern: {pattern.cause} in rounds {', '.join(map(str, pattern.rounds))}"
            f" ({pattern.in_a_row} in a row)"
            + (f"; all of them and no healthy round: {shared}" if shared else "")
        )
    for one in found.unhealthy:
        click.echo("")
        _print_round(one)
    for gap in found.gaps:
        click.echo(f"Not known: {gap}")
