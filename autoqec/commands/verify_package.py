"""`autoqec verify-package`: check and re-verify a packaged run."""

from __future__ import annotations

import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from autoqec.commands.options import AnyPath, Count
from autoqec.commands.output import print_json, print_table

if TYPE_CHECKING:
    from autoqec.runs.package_check import Figures


@click.command()
@click.argument("archive", type=AnyPath(dir_okay=False))
@click.option(
    "--no-evaluate", is_flag=True, help="Check files and claims against each other only: no gain is measured."
)
@click.option(
    "--all", "every_round", is_flag=True, help="Verify every round anew, not only the VERIFIED ones."
)
@click.option("--shots", type=Count(min=1), help="Minimum shots per p. Default: min_shots_verify.")
@click.option("--cap", type=Count(min=1), help="Maximum shots at the reference p. Default: 5 times --shots.")
@click.option("--json", "as_json", is_flag=True)
def command(
    archive: Path, no_evaluate: bool, every_round: bool, shots: int | None, cap: int | None, as_json: bool
) -> None:
    """Check a packaged run: every hash, commit, pointer, report, front row and page; then verify its VERIFIED rounds on fresh shots
    and hold its claims against them.

    Needs no network, no keys and no repository; writes nothing, and spends none of your confirmations. Exit code 0 when
    everything holds (with --no-evaluate: as far as files can tell), 1 when something does not, 3 when nothing contradicts the
    package and nothing is proved: it has no VERIFIED round, or a gain is not significant on the shots here. Bad input is 2.
    """
    from autoqec.eval.verify import VerifyOptions
    from autoqec.runs.package_check import check_package

    options = VerifyOptions(shots=shots, cap=cap)
    result = check_package(archive, evaluate=not no_evaluate, every_round=every_round, options=options)
    if as_json:
        print_json({**asdict(result), "outcome": result.outcome, "ok": result.is_good})
    else:
        click.echo(f"Run {result.run_id}: {result.files} files as in the manifest")
        print_table(
            "",
            ("round", "branch", "files and claims", "recorded", "here", "gain claimed", "gain here"),
            [
                (
                    check.round,
                    check.branch,
                    "; ".join(check.problems) or "ok",
                    check.recorded,
                    check.now,
                    _gain(check.claimed),
                    _gain(check.measured),
                )
                for check in result.rounds
            ],
        )
        for problem in result.problems:
            click.echo(f"Problem: {problem}")
        click.echo(_WORDS[result.outcome])
    sys.exit(_EXIT_CODES[result.outcome])


_EXIT_CODES = {
    "holds": 0,
    "only files checked": 0,
    "does not hold": 1,
    "proves nothing": 3,
    "not shown again": 3,
}
_WORDS = {
    "holds": "Everything holds: each VERIFIED round was verified again here, on fresh shots.",
    "only files checked": "The files agree with each other. No gain was measured here: without --no-evaluate it is.",
    "does not hold": "Something does not hold.",
    "proves nothing": "The files agree with each other, and there is no VERIFIED round: this package proves no gain.",
    "not shown again": "Nothing contradicts the package, but not every gain was significant again here: give more --shots.",
}


def _gain(figures: Figures | None) -> str | None:
    if figures is None or figures.delta is None or None in figures.delta_ci:
        return None
    return "{:.3g} [{:.3g}, {:.3g}]".format(figures.delta, *figures.delta_ci)
