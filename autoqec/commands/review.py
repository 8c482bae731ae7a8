"""`autoqec review`: a look back on a run."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from autoqec.commands.named import RunPath
from autoqec.commands.options import Count
from autoqec.commands.output import print_json, print_table

if TYPE_CHECKING:
    from autoqec.report.review import Review


@click.command()
@click.argument("run_dir", type=RunPath())
@click.option(
    "--patience",
    type=Count(min=1),
    default=5,
    show_default=True,
    help="Rounds without improvement after which the run is stuck.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of tables.")
def command(run_dir: Path, patience: int, as_json: bool) -> None:
    """Review RUN_DIR: fronts round by round, repeats, validation against holdout, time and money, and what to do next.

    Reads files only. What counts as verified is backed by a report of this machine's verifier, in the round's folder; exit code 1
    if something that says so is not.
    """
    from autoqec.report.review import as_dict, review_run

    review = review_run(run_dir, patience=patience)
    if as_json:
        print_json(as_dict(review))
    else:
        _print(review)
    sys.exit(0 if review.run.is_backed else 1)


def _print(review: Review) -> None:
    from autoqec.report.review import recommendations

    _print_rounds(review)
    _print_families(review)
    _print_overfitting(review)
    _print_headlines(review)
    _print_best(review)
    streak, spent = review.streak, review.budget
    last = f"round {streak.last_improvement}" if streak.last_improvement is not None else "none"
    click.echo(
        f"Last improvement of the {streak.front} front: {last}; {streak.rounds_since} rounds since"
        + (" (stuck)" if streak.is_stuck else "")
    )
    money = "" if spent.usd is None else f", ${spent.usd:.2f}"
    click.echo(
        f"Spent: {spent.seconds:.0f} s{money}; failed rounds took {_percent(spent.failed_seconds_share)} of the time"
        + ("" if spent.usd is None else f" and {_percent(spent.failed_usd_share)} of the money")
        + f", repeats {_percent(spent.repeated_seconds_share)} of the time"
    )
    for repeat in review.repeats:
        click.echo(f"Repeat: round {repeat.round} after round {repeat.of}: {repeat.kind}")
    click.echo("\nRecommendations")
    found = recommendations(review)
    for i, each in enumerate(found, start=1):
        click.echo(f"{i}. {each.text} [{each.id}]")
        for line in each.evidence:
            click.echo(f"   {line}")
    if not found:
        click.echo("none: too little has happened")
    for gap in review.run.gaps:
        click.echo(f"Not known: {gap}")


def _print_rounds(review: Review) -> None:
    verdicts = ", ".join(f"{count} {name}" for name, count in review.verdicts.items())
    volumes = {step.round: step for step in review.curve}
    compared = {each.round: each for each in review.overfitting.rounds}
    click.echo(f"{review.run.path}: {len(review.run.rounds)} rounds; verdicts: {verdicts or 'none'}\n")
    print_table(
        "",
        (
            "round",
            "status",
            "verdict",
            "family",
            "delta",
            "interval",
            "holdout",
            "interval",
            "target",
            "verified volume",
            "validated volume",
            "s",
            "USD",
        ),
        [
            (
                one.number,
                one.status,
                one.verdict,
                one.family,
                one.delta,
                _interval(one.interval),
                compared[one.number].holdout if one.number in compared else None,
                _interval(compared[one.number].holdout_ci if one.number in compared else None),
                one.target,
                volumes[one.number].verified,
                volumes[one.number].validated,
                round(one.seconds, 1),
                one.usd,
            )
            for one in review.run.rounds
        ],
        least=(10, 9, 12, 8, 3, 11, 5),
    )
    click.echo("Hypervolumes in LER x decades^2.\n")


def _print_families(review: Review) -> None:
    if review.families:
        print_table(
            "Families",
            ("family", "rounds", "ok", "best delta", "verified", "latest in a row"),
            [
                (each.name, len(each.rounds), each.ok, each.best_delta, each.verified, each.repeated)
                for each in review.families
            ],
        )
        click.echo("")


def _print_overfitting(review: Review) -> None:
    if review.overfitting.rounds:
        print_table(
            "Validation against holdout",
            ("round", "verdict", "validation", "holdout", "gap", "interval", "kept", "overfits"),
            [
                (
                    each.round,
                    each.verdict,
                    each.val,
                    each.holdout,
                    each.gap,
                    _interval(each.gap_ci),
                    _percent(each.kept),
                    ("yes" if each.overfits else "no") if each.same_p else "another p",
                )
                for each in review.overfitting.rounds
            ],
        )
        click.echo("")


def _print_headlines(review: Review) -> None:
    from autoqec.runs import headline

    rows = [
        (one.number, *headline.of_report(one.report))
        for one in review.run.rounds
        if one.report is not None and one.report.verdict == "VERIFIED"
    ]
    if rows:
        title = "Verified: LER of the other decoder over that of the predecoder, on the same shots"
        print_table(title, ("round", *headline.COLUMNS), rows, least=(4,))
        click.echo("")


def _print_best(review: Review) -> None:
    axes = [(axis, review.best[axis]) for axis in ("delta", "flops_per_syndrome", "n_params")]
    rows = [
        (axis, row["round"], row["delta"], row["flops_per_syndrome"], row["n_params"])
        for axis, row in axes
        if row is not None
    ]
    if rows:
        of = "verified" if review.best["verified"] else "not verified: by validation"
        print_table(f"Best by axis ({of})", ("axis", "round", "delta", "FLOPs", "parameters"), rows)
        click.echo("")


def _interval(interval: tuple[float, float] | None) -> str:
    return "-" if interval is None else f"{interval[0]:.3g} .. {interval[1]:.3g}"


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{share:.0%}"
