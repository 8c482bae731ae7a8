"""`autoqec verify-package`: check and re-verify a packaged run."""

from __future__ import annotations

import sys
from dataclasses import asdict
from pathlib import Path

import click

from autoqec.commands.options import AnyPath, Count
from autoqec.commands.output import print_json, print_table


@click.command()
@click.argument("archive", type=AnyPath(dir_okay=False))
@click.option("--no-evaluate", is_flag=True, help="Check hashes, commits and pointers only.")
@click.option(
    "--all", "every_round", is_flag=True, help="Verify every round anew, not only the VERIFIED ones."
)
@click.option("--shots", type=Count(min=1), help="Minimum shots per p. Default: min_shots_verify.")
@click.option("--cap", type=Count(min=1), help="Maximum shots at the reference p. Default: 5 times --shots.")
@click.option("--json", "as_json", is_flag=True)
def command(
    archive: Path, no_evaluate: bool, every_round: bool, shots: int | None, cap: int | None, as_json: bool
) -> None:
    """Check a packaged run: every hash, commit and pointer; then verify its VERIFIED rounds on fresh shots.

    Needs no network, no keys and no repository. Exit code 0 when everything holds, 1 otherwise.
    """
    from autoqec.eval.verify import VerifyOptions
    from autoqec.runs.package_check import check_package

    options = VerifyOptions(shots=shots, cap=cap)
    result = check_package(archive, evaluate=not no_evaluate, every_round=every_round, options=options)
    if as_json:
        print_json({**asdict(result), "ok": result.is_good})
    else:
        click.echo(f"Run {result.run_id}: {result.files} files as in the manifest")
        print_table(
            "",
            ("round", "branch", "provenance", "recorded", "here"),
            [
                (check.round, check.branch, "; ".join(check.problems) or "ok", check.recorded, check.now)
                for check in result.rounds
            ],
        )
        click.echo("Everything holds." if result.is_good else "Something does not hold.")
    sys.exit(0 if result.is_good else 1)
